"""One run of a benchmark program, its counters, and the machine that it ran on."""

import datetime
import json
import mmap
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from bench_results import Header, Run
from bench_rows import Row
from pydantic import ValidationError

from loft_malloc import launch
from loft_malloc.allocators import Allocator

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PROGRAM_TIMEOUT_S = 180
# More than any default row has at its peak.
WARM_BYTES = 512 << 20
EVENTS = (
    "instructions",
    "cycles",
    "cache-misses",
    "LLC-load-misses",
    "dTLB-load-misses",
    "dTLB-store-misses",
)


class Failed(Exception):
    """A program under an allocator crashed, hung or found an error; the text says which."""


def command_of(row: Row) -> list[str]:
    return [str(BUILD / "bench" / row.program), *row.arguments]


def finish(
    command: list[str],
    allocator: Allocator,
    extra: Mapping[str, str] | None = None,
    limit_s: float | None = None,
) -> launch.Result:
    """A run that ended well. The caller's settings of loft are not the measured program's."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("LOFT_")}
    limit_s = limit_s or PROGRAM_TIMEOUT_S
    done = launch.run(launch.job(command, allocator, limit_s, {**clean, **(extra or {})}))
    if done.outcome.kind == "timeout":
        raise Failed(f"no end after {limit_s} s")
    if done.complaint:
        raise Failed(done.complaint)
    return done


@contextmanager
def copy_of(allocator: Allocator) -> Iterator[Allocator]:
    """With a new copy beside the library. Where the page cache happens to hold its code can be
    worth more than anything measured here, and is to be another luck in each run."""
    library = allocator.library
    if library is None:
        yield allocator
        return
    with NamedTemporaryFile(dir=library.parent, prefix=f"{library.stem}.", suffix=".so") as copy:
        copy.write(library.read_bytes())
        copy.flush()
        yield Allocator(allocator.name, Path(copy.name), allocator.variables)


def warm_memory() -> None:
    """Has the host back what the next program will touch. The host of a virtual machine may take
    free memory away and give it again page by page, so that whoever comes first pays."""
    with mmap.mmap(-1, WARM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, WARM_BYTES, mmap.PAGESIZE):
            memory[at] = 1


def run_row(row: Row, allocator: Allocator) -> Run:
    if row.kind.by_time:
        warm_memory()
    with copy_of(allocator) as copy:
        done = finish(command_of(row), copy, row.environment)
    try:
        run = Run.model_validate_json(done.stdout)
    except ValidationError:
        raise Failed(f"no result line, but {done.stdout[:80]!r}") from None
    if usage := done.usage:
        run.faults = usage.minor_faults + usage.major_faults
        run.sleeps = usage.sleeps
    return run


def loft_statistics(row: Row, loft: Allocator) -> dict[str, Any]:
    """What loft says of its own work in a run of the row."""
    done = finish(command_of(row), loft, {"LOFT_STATS": "json", **row.environment})
    # Programs that start others have a line from each: the one that did most is meant.
    said = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    if not said:
        raise Failed("no statistics on standard error")
    return max(said, key=lambda each: int(each["refills"]) + int(each["large_allocations"]))


def count_instructions(allocator: Allocator, remote_frees: int) -> Any | None:
    """Counted one by one, which works where perf has no counters."""
    command = [str(BUILD / "bench" / "count_instructions"), f"--remote={remote_frees}"]
    try:
        return json.loads(finish(command, allocator).stdout)
    except Failed:
        return None


def parse(report: str) -> dict[str, float]:
    """What `perf stat -x ,` counted; events that it could not count are left out."""
    lines = [line.split(",") for line in report.splitlines()]
    return {
        fields[2].split(":")[0]: float(fields[0])
        for fields in lines
        if len(fields) > 2 and fields[0].isdigit()
    }


def perf(events: list[str], *options: str) -> list[str]:
    return ["perf", "stat", "-x", ",", "-e", ",".join(f"{each}:u" for each in events), *options]


def countable_events() -> tuple[list[str], str]:
    """The events that can be counted here, and what the head of the results says of them."""
    why = "perf is not installed"
    if shutil.which("perf") is not None:
        done = subprocess.run([*perf(list(EVENTS)), "true"], capture_output=True, text=True)
        if done.returncode != 0:
            why = "perf is not allowed to count"
        elif found := list(parse(done.stderr)):
            return found, "perf stat, user mode, in a separate pass"
        else:
            why = "this (virtual) machine has no hardware counters"
    return [], f"none, {why}; elapsed and CPU time only"


def count_events(row: Row, allocator: Allocator, events: list[str]) -> dict[str, float]:
    """In a pass of their own: perf slows down programs that switch often."""
    preload = [] if allocator.library is None else [f"LD_PRELOAD={allocator.library}"]
    itself = Allocator(allocator.name, None, allocator.variables)
    with NamedTemporaryFile(prefix="loft-perf-") as report:
        command = [*perf(events, "-o", report.name, "--", "env"), *preload, *command_of(row)]
        finish(command, itself, row.environment)
        return parse(Path(report.name).read_text())


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def commit() -> str:
    describe = ["git", "describe", "--always", "--dirty", "--tags"]
    described = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True)
    return described.stdout.strip() or "of unknown commit"


def first_match(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return found.group(1).strip().strip('"') if found else "unknown"


def make_header(names: list[str], counters: str) -> Header:
    known = {"glibc": platform.libc_ver()[1]}
    path = BUILD / "peers" / "versions.json"
    if path.exists():
        known |= json.loads(path.read_text())
    virtual = "hypervisor" in first_match("/proc/cpuinfo", r"^flags\s*:(.*)$").split()
    return Header(
        date=now(),
        cpu=first_match("/proc/cpuinfo", r"^model name\s*:(.*)$"),
        cores=len(os.sched_getaffinity(0)),
        virtual=" of a virtual machine" if virtual else "",
        memory_gib=int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")) / 1024 / 1024,
        system=first_match("/etc/os-release", r"^PRETTY_NAME=(.*)$"),
        kernel=platform.release(),
        huge_pages=first_match("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        # Of all but loft, whose commit each row names.
        versions={n: known.get(n, "of unknown version") for n in names if n.split()[0] != "loft"},
        counters=counters,
    )
