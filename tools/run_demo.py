#!/usr/bin/env python3
"""Runs a real program under libc's malloc and under loft, side by side: `make run`.

The program is Python itself with its own allocator switched off, so that every object goes through
malloc. Two threads build JSON documents and parse them, two others take what was parsed, write it
out again and drop it: each document is allocated by one thread and freed by another.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "build" / "libloft.so"
ROUNDS = 5
TIME_LIMIT_S = 120

PROGRAM = """
import hashlib, json, queue, threading

DOCUMENTS, RECORDS, PAIRS = 24, 2500, 2

def document(number):
    return [
        {"id": number * RECORDS + i, "name": f"item {i} of {number}",
         "tags": [f"t{i % k}" for k in (7, 11, 13)], "note": "x" * (i % 300),
         "size": {"w": i % 640, "h": i % 480, "scale": i / 7}}
        for i in range(RECORDS)
    ]

def produce(box, first):
    for number in range(first, DOCUMENTS, PAIRS):
        box.put(json.loads(json.dumps(document(number))))
    box.put(None)

def consume(box, digests):
    while (parsed := box.get()) is not None:
        digests.append(hashlib.sha256(json.dumps(parsed, sort_keys=True).encode()).hexdigest())
        parsed = None

digests = []
threads = []
for first in range(PAIRS):
    box = queue.Queue(2)
    threads.append(threading.Thread(target=produce, args=(box, first)))
    threads.append(threading.Thread(target=consume, args=(box, digests)))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(hashlib.sha256("".join(sorted(digests)).encode()).hexdigest())
"""


@dataclass(frozen=True)
class Run:
    output: bytes
    errors: str
    seconds: float
    peak_kib: int
    faults: int


class DemoError(Exception):
    pass


def run_program(preload: Path | None) -> Run:
    """Runs the program once, and takes what it used from the kernel's own account of it."""
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    environment.pop("LD_PRELOAD", None)
    if preload is not None:
        environment |= {"LD_PRELOAD": str(preload), "LOFT_STATS": "json"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", PROGRAM],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, err.fileno(), 2),
            ],
        )
        _, status, usage = wait(pid, started)
        seconds = time.perf_counter() - started
        out.seek(0)
        err.seek(0)
        result = Run(
            output=out.read(),
            errors=err.read().decode(errors="replace"),
            seconds=seconds,
            peak_kib=usage.ru_maxrss,
            faults=usage.ru_minflt + usage.ru_majflt,
        )
    if os.waitstatus_to_exitcode(status) != 0:
        code = os.waitstatus_to_exitcode(status)
        name = "loft" if preload else "libc's malloc"
        raise DemoError(f"the program ended with {code} under {name}:\n{result.errors}")
    return result


def wait(pid: int, started: float) -> tuple[int, int, resource.struct_rusage]:
    """wait4 that gives up: a demonstration must not hang."""
    while True:
        done = os.wait4(pid, os.WNOHANG)
        if done[0] != 0:
            return done
        if time.perf_counter() - started > TIME_LIMIT_S:
            os.kill(pid, 9)
            os.wait4(pid, 0)
            raise DemoError(f"the program did not end within {TIME_LIMIT_S} s")
        time.sleep(0.001)


def statistics_of(run: Run) -> dict[str, int]:
    """The statistics that loft prints when a program ends, one line of JSON."""
    for line in reversed(run.errors.splitlines()):
        if line.startswith("{"):
            return {key: value for key, value in json.loads(line).items() if isinstance(value, int)}
    return {}


def mib(kib: float) -> str:
    return f"{kib / 1024:.1f} MiB"


def table(libc: list[Run], loft: list[Run]) -> list[str]:
    def row(label: str, values: tuple[float, float], shown: tuple[str, str]) -> str:
        change = f"{values[1] / values[0]:.2f}" if values[0] else ""
        return f"  {label:<24}{shown[0]:>14}{shown[1]:>14}{change:>14}"

    def median(runs: list[Run], field: str) -> float:
        return float(statistics.median(getattr(run, field) for run in runs))

    seconds = (median(libc, "seconds"), median(loft, "seconds"))
    peak = (median(libc, "peak_kib"), median(loft, "peak_kib"))
    faults = (median(libc, "faults"), median(loft, "faults"))
    return [
        f"  {'':<24}{'libc':>14}{'loft':>14}{'loft / libc':>14}",
        row("time", seconds, (f"{seconds[0]:.3f} s", f"{seconds[1]:.3f} s")),
        row("peak memory", peak, (mib(peak[0]), mib(peak[1]))),
        row("page faults", faults, (f"{faults[0]:,.0f}", f"{faults[1]:,.0f}")),
    ]


def story(stats: dict[str, int]) -> list[str]:
    """What loft did for the program, from whichever of its statistics there are."""
    lines: list[str] = []

    def tell(value: str, text: str) -> None:
        lines.append(f"  {value:>14}  {text}")

    def count(key: str, text: str) -> None:
        if key in stats:
            tell(f"{stats[key]:,}", text)

    def ratio(over: str, under: str, text: str) -> None:
        if stats.get(under):
            tell(f"{stats.get(over, 0) / stats[under]:,.1f}", text)

    count("threads_started", "threads had a cache of their own")
    count("refills", "times a cache was refilled")
    count("flushes", "times a cache that was full gave half of it back")
    count("batch_objects", "objects freed by another thread than allocated them, in")
    count("batches_sent", "batches, each of one slab, which makes")
    ratio("batch_objects", "batches_sent", "objects a batch; they went home with")
    count("posts", "atomic exchanges, so that one of these served")
    ratio("batch_objects", "posts", "objects")
    count("turnarounds", "objects kept by the thread that freed them, for its next calls")
    count("slabs_created", "slabs were cut,")
    count("slabs_released", "of them became empty and were given back")
    count("large_allocations", "large objects,")
    count("large_cache_hits", "of them without a system call")
    count("os_maps", "calls mapped memory,")
    count("os_purges", "calls gave memory back")
    return lines


def main() -> int:
    if not LIBRARY.exists():
        print(f"{LIBRARY} is missing: run make first", file=sys.stderr)
        return 1
    print(__doc__.split("\n\n")[1])
    print(f"\n{ROUNDS} runs under each, in turn:", end="", flush=True)
    libc: list[Run] = []
    loft: list[Run] = []
    try:
        for _ in range(ROUNDS):
            libc.append(run_program(None))
            loft.append(run_program(LIBRARY))
            print(".", end="", flush=True)
    except DemoError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print("\n")
    print("\n".join(table(libc, loft)))
    if lines := story(statistics_of(loft[-1])):
        print("\nWhat loft did in the last of these runs:\n")
        print("\n".join(lines))
    if len({run.output for run in libc + loft}) != 1:
        print("\nThe outputs differ.", file=sys.stderr)
        return 1
    print("\nThe program wrote the same in every run.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
