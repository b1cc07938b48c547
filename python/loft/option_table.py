"""loft's options. Written by `tools/gen_options_doc.py` from the table in `src/base/options.h`;
edit that."""

from typing import Literal, NamedTuple


class Option(NamedTuple):
    """One option; without choices its value is a number of `unit`s."""

    unit: Literal["", "bytes", "milliseconds", "processor"]
    choices: tuple[str, ...]
    default: str
    help: str


OPTIONS = {
    "owner": Option(
        "",
        ("thread", "core", "keeper"),
        "thread",
        "who holds the caches of free objects and the slabs: each thread, each processor, or each "
        "thread the caches and a thread of loft's own all slabs; read when the library is loaded, "
        "and never changed after that",
    ),
    "stats": Option(
        "",
        ("0", "1", "json", "prometheus"),
        "0",
        "print statistics to standard error when the process exits",
    ),
    "foreign": Option(
        "",
        ("abort", "ignore"),
        "abort",
        "what to do after reporting a pointer that loft did not allocate, or a write after free "
        "that has cut a queue of freed objects: stop the program; or let the call do nothing, and "
        "go on without what was behind the cut",
    ),
    "cache_bytes": Option(
        "bytes",
        (),
        "4M",
        "bytes of free objects that one thread's cache may hold",
    ),
    "batch_bytes": Option(
        "bytes",
        (),
        "16K",
        "bytes of objects freed for one slab of another heap before they are sent home",
    ),
    "outbox_bytes": Option(
        "bytes",
        (),
        "64K",
        "bytes of objects a thread keeps packed for other heaps before it posts them",
    ),
    "drain_bytes": Option(
        "bytes",
        (),
        "1M",
        "bytes of returned objects that one refill takes in",
    ),
    "dirty_bytes": Option(
        "bytes",
        (),
        "256M",
        "bytes of free spans that stay resident for reuse before the largest are given back; less "
        "where the control group or the process has little, and while no background thread runs",
    ),
    "decay_ms": Option(
        "milliseconds",
        (),
        "500",
        "how long memory that nobody needed stays resident before it is given back; what is more "
        "than a quarter of what is in use stays about a third as long, and more than an eighth "
        "half as long; 0 keeps it",
    ),
    "thp": Option(
        "",
        ("auto", "never", "prefer"),
        "auto",
        "huge pages: whether the system may back the heap with them; auto and never keep them "
        "out, so that no process grows by them, prefer asks for them and gives back nothing "
        "smaller",
    ),
    "background": Option(
        "",
        ("off", "auto", "on"),
        "auto",
        "whether a thread of loft's own may give memory back while the program does nothing: "
        "never; while the program has threads of its own; or also in a program of one thread",
    ),
    "keeper_cpu": Option(
        "processor",
        (),
        "any",
        "where the thread runs that owner=keeper starts for its slabs, read when it starts; any: "
        "wherever the process's first thread may",
    ),
    "keeper_serves": Option(
        "",
        ("trial", "always"),
        "trial",
        "when that thread serves the others: in what it does faster than they do it themselves, "
        "as trials of both show now and then; or in all that it can. With keeper_prepare always",
    ),
    "keeper_prepare": Option(
        "",
        ("off", "fault", "zero"),
        "off",
        "what that thread does besides with objects that it gets ready: nothing; touch those on "
        "pages without memory; or that, and clear some for calloc",
    ),
    "soft_limit": Option(
        "bytes",
        (),
        "0",
        "bytes from the system above which loft keeps little: free memory goes back within a "
        "tenth of a second, or where no background thread runs with later calls, and caches stay "
        "small; 0 is no limit",
    ),
    "hard_limit": Option(
        "bytes",
        (),
        "0",
        "bytes from the system that loft does not exceed: a request that would is refused, with "
        "NULL and ENOMEM; 0 is no limit",
    ),
    "cgroup": Option(
        "",
        ("off", "soft", "hard"),
        "soft",
        "what follows from the limits of the control group that the process is in when the "
        "library is loaded: nothing; a soft limit; or, besides, a hard limit of fifteen "
        "sixteenths of the group's",
    ),
    "watch_group": Option(
        "",
        ("off", "on"),
        "off",
        "whether loft's background thread reads the group's limits, and what the group uses of "
        "them, every second: it opens files of the system for that, which filters of system calls "
        "may forbid; near a limit of the group loft then keeps little, whoever has the memory",
    ),
}
