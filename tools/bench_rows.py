"""What is measured: one row for each workload, with its program and parameters.

A default run takes well under a second each, so that every row runs three times under nine
allocators within ten minutes. Rows for which that says too little are kept for `full`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from variants import VARIANTS

# The synchronous baseline of the owner policy `keeper`, papers/nextgen.
NEXTGEN = "nextgen"


def variant_path(variant: str) -> str:
    """Where the build puts the library, below build/."""
    return "libloft-nextgen.so" if variant == NEXTGEN else f"variants/{variant}.so"


ONE = "one thread"
PASSING = "producer/consumer"
MANY = "several threads"
SYSTEM = "large objects, start and end"
MEMORY = "memory"


class Kind(StrEnum):
    # Compared by elapsed time, counters and peak memory.
    TIMED = "timed"
    # Has a table of its own; its elapsed time means nothing.
    OWN = "own"
    # loft under one of its options; compared with its own default.
    SWEEP = "sweep"
    # As OWN; and it mostly waits, so it runs under all allocators at once.
    QUIET = "quiet"


@dataclass(frozen=True)
class Row:
    name: str
    group: str
    threads: int
    # Words with a = before the program are its environment.
    command: str
    full_only: bool = False
    kind: Kind = Kind.TIMED
    # Measured in the first round alone, since it is slow and repeats itself.
    once: bool = False
    # The only allocators that this row is for.
    only: tuple[str, ...] = ()
    # Those that would take minutes.
    without: tuple[str, ...] = ()
    # The library that stands for loft in this row, one of tools/variants.py's or NEXTGEN.
    variant: str = ""

    @property
    def environment(self) -> dict[str, str]:
        words = self.command.split()
        return dict(word.split("=", 1) for word in words[: words.index(self.program)])

    @property
    def program(self) -> str:
        return next(word for word in self.command.split() if "=" not in word)

    @property
    def arguments(self) -> list[str]:
        words = self.command.split()
        return words[words.index(self.program) + 1 :]


def message_passing(n: int) -> Row:
    command = f"message_passing --producers={n} --consumers={n} --batches=1400000"
    return Row(f"message passing {n}:{n}", PASSING, 2 * n, command)


def xmalloc(n: int, *, full_only: bool = False) -> Row:
    command = f"malloc_test --producers={n} --consumers={n} --min=64 --max=64 --messages=3000"
    return Row(f"xmalloc-test {n}:{n}", PASSING, 2 * n, command, full_only)


def malloc_test_of(size: int) -> Row:
    messages = 4800 if size <= 64 else 1600 if size <= 512 else 600
    command = f"malloc_test --messages={messages} --min={size} --max={size}"
    return Row(f"malloc-test of {size} B", PASSING, 2, command, size not in (16, 256, 2048))


def buffers(sizes: str, arguments: str = "") -> list[Row]:
    return [
        Row(
            f"buffers of {sizes}, {count} thread{'s' if count > 1 else ''}",
            SYSTEM,
            count,
            f"large_replacement --threads={count} {arguments}".strip(),
            full_only=bool(arguments),
            without=("prototype",),
        )
        for count in (1, 2)
    ]


# The benchmarks of the a3alloc report, with the same work shared by more and more threads, and the
# arguments that share it.
def scaling(name: str, command: str, share: str = "", work: int = 0) -> list[Row]:
    rows = []
    for n in range(1, 9):
        label = f"{name}, {n} thread{'s' if n > 1 else ''}"
        shared = f" {share}={work // n}" if share else ""
        full_only = n not in (1, 2, 8)
        rows.append(Row(label, MANY, n, f"{command} --threads={n}{shared}", full_only))
    return rows


# What an option does to a workload; the first row is the default.
def sweep(title: str, option: str, values: str, command: str) -> list[Row]:
    settings = ["default", *values.split()]
    return [
        Row(
            f"{title}: {value}",
            title,
            2,
            command if value == "default" else f"{option}={value} {command}",
            full_only=True,
            kind=Kind.SWEEP,
            only=("loft",),
        )
        for value in settings
    ]


# What the shape of the batch cache, and how it evicts, do to a workload; the first row is loft's
# own choice, built like the others.
def batch_cache_sweep(title: str, command: str) -> list[Row]:
    return [
        Row(
            f"{title}: {'default' if number == 0 else variant}",
            title,
            2,
            command,
            full_only=True,
            kind=Kind.SWEEP,
            only=("loft",),
            variant=variant,
        )
        for number, variant in enumerate(VARIANTS)
    ]


# A room that works ahead, and what it costs to ask a dedicated thread for each object, as
# NextGen-Malloc prints it.
def owner_sweep(title: str, threads: int, command: str) -> list[Row]:
    settings = [
        ("thread", "", ""),
        # The programs keep to the first processors; one thread leaves the second to the room.
        ("keeper", "LOFT_OWNER=keeper LOFT_KEEPER_CPU=1 LOFT_BACKGROUND=on ", ""),
        (NEXTGEN, "", NEXTGEN),
    ]
    return [
        Row(
            f"{title} by owner: {name}",
            f"{title} by owner",
            threads,
            setting + command,
            full_only=True,
            kind=Kind.SWEEP,
            only=("loft",),
            variant=variant,
        )
        for name, setting, variant in settings
    ]


MALLOC_TEST = "malloc_test --messages=600"
UNBOUNDED = "malloc_test --messages=1500 --queue=5000 --touch=1"

ROWS = (
    Row("hot loop 16..128 B", ONE, 1, "hot_loop --rounds=2000000"),
    Row("LIFO of 1000", ONE, 1, "batch_order --order=lifo --rounds=15000"),
    Row("FIFO of 1000", ONE, 1, "batch_order --order=fifo --rounds=15000"),
    Row(
        "random replacement, 1000 of 16..128 B",
        ONE,
        1,
        "random_replacement --rounds=10000000 --slots=1000 --min=16 --max=128",
    ),
    Row("random replacement, 20 000 of 8..507 B", ONE, 1, "random_replacement --rounds=10000000"),
    Row(
        "random replacement, 1000 of 1..8 KiB",
        ONE,
        1,
        "random_replacement --rounds=10000000 --slots=1000 --min=1024 --max=8192",
        full_only=True,
    ),
    Row(
        "random replacement, 200 of 4..32 KiB",
        ONE,
        1,
        "random_replacement --rounds=10000000 --slots=200 --min=4096 --max=32768",
    ),
    Row("2 M built, shuffled, freed", ONE, 1, "build_shuffle_free --rounds=1"),
    Row("xalan", ONE, 1, "xalan --records=8000"),
    Row("malloc-test 1:1", PASSING, 2, MALLOC_TEST),
    *map(malloc_test_of, (8, 16, 32, 64, 128, 256, 512, 1024, 2048)),
    Row("malloc-test of 64 KiB", PASSING, 2, "malloc_test --messages=150 --min=65536 --max=65536"),
    Row(
        "malloc-test of 256 B to 64 KiB",
        PASSING,
        2,
        "malloc_test --messages=150 --min=256 --max=65536",
        full_only=True,
    ),
    Row("malloc-test 4:4", PASSING, 8, f"{MALLOC_TEST} --producers=4 --consumers=4", True),
    Row("malloc-test, queue without bound", PASSING, 2, UNBOUNDED, once=True),
    Row(
        "malloc-test, from the start",
        PASSING,
        2,
        "malloc_test --messages=2000 --marks=40",
        kind=Kind.OWN,
        once=True,
    ),
    *map(message_passing, (1, 2, 4, 8)),
    Row("strict alternation", PASSING, 2, "alternation --rounds=2400"),
    xmalloc(1),
    xmalloc(2, full_only=True),
    xmalloc(4, full_only=True),
    xmalloc(8),
    xmalloc(100),
    Row(
        "16 producers, one thread that only frees",
        PASSING,
        17,
        "malloc_test --producers=16 --consumers=1 --min=592 --max=592 --objects=64 --queue=256 "
        "--messages=20000",
    ),
    Row("pipeline", PASSING, 2, "pipeline --count=3000000"),
    Row("pipeline, consumer reads", PASSING, 2, "pipeline --count=3000000 --read=1"),
    Row("pipeline, full", PASSING, 2, "pipeline --count=1500000 --consumer-pause=4"),
    Row("pipeline, empty", PASSING, 2, "pipeline --count=1500000 --producer-pause=4"),
    Row("symmetric exchange, 2 threads", MANY, 2, "symmetric_exchange --count=8000000"),
    *(
        Row(
            f"symmetric exchange, {n} threads",
            MANY,
            n,
            f"symmetric_exchange --threads={n} --count={16_000_000 // n}",
            full_only=True,
        )
        for n in (4, 8)
    ),
    *scaling("larson", "larson --generations=4", "--rounds", 4_000_000),
    Row(
        "larson on a littered heap, 2 threads",
        MANY,
        2,
        "larson --generations=4 --rounds=2000000 --litter=200000",
    ),
    *scaling(
        "linux-scalability",
        "batch_order --order=fifo --count=20000 --min=512 --max=512",
        "--rounds",
        320,
    ),
    *scaling("cache-scratch", "cache_scratch --writes=100000", "--rounds", 2000),
    *scaling("cache-thrash", "cache_thrash --writes=100000", "--rounds", 2000),
    *scaling("phong", "phong --steps=4000000"),
    *scaling("threadtest", "threadtest --rounds=1200"),
    Row("800 kB ping-pong", SYSTEM, 1, "ping_pong_large --rounds=600000"),
    Row("zeros, 2 MiB, all pages used", SYSTEM, 1, "zeroed --size=2097152 --rounds=1000", True),
    Row("zeros, 64 MiB, all pages used", SYSTEM, 1, "zeroed --rounds=40", True),
    Row("zeros, 64 MiB, few pages used", SYSTEM, 1, "zeroed --step=65536 --rounds=60", True),
    *buffers("32 to 256 KiB"),
    *buffers("64 KiB to 1 MiB", "--min=65536 --max=1048576 --slots=40 --rounds=100000"),
    Row("realloc to 256 MiB", SYSTEM, 1, "realloc_vector --limit=268435456"),
    Row("realloc to 4 GiB", SYSTEM, 1, "realloc_vector --limit=4294967296", True),
    Row("thread churn", SYSTEM, 1, "thread_churn --count=4000"),
    Row("fork under load", SYSTEM, 2, "fork_under_load --workers=1 --forks=100"),
    Row("start-up", SYSTEM, 1, "startup --starts=60", kind=Kind.OWN),
    Row("latency", MANY, 2, "latency --rounds=600000", kind=Kind.OWN),
    Row("idle return", MEMORY, 1, "idle_return", kind=Kind.QUIET, once=True),
    Row(
        "holes of 256 B",
        MEMORY,
        1,
        "idle_return --size=256 --count=400000 --keep=100 --quiet-ms=1000 --step-ms=1000",
        kind=Kind.QUIET,
        once=True,
    ),
    Row(
        "holes of 64 B",
        MEMORY,
        1,
        "idle_return --size=64 --count=1600000 --keep=100 --quiet-ms=1000 --step-ms=1000",
        full_only=True,
        kind=Kind.QUIET,
        once=True,
    ),
    Row(
        "idle return, freed by others",
        MEMORY,
        1,
        "idle_return --by=others --quiet-ms=1000",
        kind=Kind.QUIET,
        once=True,
    ),
    Row(
        "idle return, threads ended",
        MEMORY,
        1,
        "idle_return --by=ended --quiet-ms=1000",
        kind=Kind.QUIET,
        once=True,
    ),
    Row("reclaimer", MEMORY, 17, "reclaimer", kind=Kind.OWN, once=True),
    Row("sleeping producer", MEMORY, 1, "sleeping_producer", kind=Kind.QUIET, once=True),
    Row(
        "100 threads, every size",
        MEMORY,
        100,
        "many_threads --threads=100 --every-class=1",
        kind=Kind.QUIET,
        once=True,
    ),
    Row("phases", MEMORY, 2, "phases --count=1000000", kind=Kind.OWN, once=True),
    Row(
        "long phases",
        MEMORY,
        2,
        "phases --count=10000000",
        full_only=True,
        kind=Kind.OWN,
        once=True,
    ),
    Row("mappings", MEMORY, 2, "mappings --rounds=300000", kind=Kind.OWN, once=True),
    Row(
        "long mappings",
        MEMORY,
        2,
        "mappings --rounds=3000000",
        full_only=True,
        kind=Kind.OWN,
        once=True,
    ),
    Row("2000 threads", MEMORY, 2000, "many_threads --threads=2000", kind=Kind.OWN, once=True),
    Row(
        "10 000 threads",
        MEMORY,
        10_000,
        "many_threads --threads=10000",
        full_only=True,
        kind=Kind.OWN,
        once=True,
    ),
    Row(
        "2000 threads that wake now and then",
        MEMORY,
        2000,
        "wakeups --threads=2000 --run-ms=5000",
        full_only=True,
        kind=Kind.OWN,
        once=True,
    ),
    *sweep(
        "malloc-test 1:1 by outbox_bytes",
        "LOFT_OUTBOX_BYTES",
        "1K 4K 16K 256K 1M 4M",
        "malloc_test --messages=3000",
    ),
    *sweep(
        "message passing 2:2 by outbox_bytes",
        "LOFT_OUTBOX_BYTES",
        "1K 4K 16K 256K 1M 4M",
        "message_passing --producers=2 --consumers=2 --batches=1000000",
    ),
    *sweep(
        "malloc-test 1:1 by batch_bytes",
        "LOFT_BATCH_BYTES",
        "1K 4K 8K 32K 64K 256K",
        "malloc_test --messages=3000",
    ),
    *sweep(
        "message passing 2:2 by batch_bytes",
        "LOFT_BATCH_BYTES",
        "1K 4K 8K 32K 64K 256K",
        "message_passing --producers=2 --consumers=2 --batches=1000000",
    ),
    *sweep(
        "malloc-test, queue without bound, by drain_bytes",
        "LOFT_DRAIN_BYTES",
        "16K 64K 256K 4M 64M",
        "malloc_test --messages=3000 --queue=5000 --touch=1",
    ),
    *batch_cache_sweep(
        "message passing 2:2 by batch cache",
        "message_passing --producers=2 --consumers=2 --batches=1000000",
    ),
    *batch_cache_sweep(
        "message passing 8:8 by batch cache",
        "message_passing --producers=8 --consumers=8 --batches=1000000",
    ),
    *batch_cache_sweep(
        "xmalloc-test 2:2 by batch cache",
        "malloc_test --producers=2 --consumers=2 --min=64 --max=64 --messages=3000",
    ),
    # Short ones: a hand-shake for each object takes many times as long.
    *owner_sweep("xalan", 1, "xalan --records=800"),
    *owner_sweep("malloc-test 1:1", 2, "malloc_test --messages=30"),
    *sweep("phases by thp", "LOFT_THP", "never prefer", "phases --count=3000000"),
)
