#!/usr/bin/env python3
"""Runs two programs under glibc's malloc and under loft, and says what came of it: `make run`.

It needs what CMake has built, and nothing but Python's own library: for a first look, nobody waits
for an environment to be made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
ROUNDS = 5
# More of them would only wait for each other, and a result is to be the same on any machine.
PROCESSORS = 2

HEAD = f"""
Two programs run {ROUNDS} times each under glibc's malloc and under loft, on {PROCESSORS}
processors, which takes half a minute.

messages   Two threads allocate objects of 8 to 2048 bytes and send them, 4096 at a time, through a
           queue to two threads that free them; where these fall behind, the queue fills up. loft
           is made for such programs. (bench/malloc_test.cc)
documents  Python builds JSON documents in two threads and drops them in two others.
           PYTHONMALLOC=malloc makes it take each object from malloc. (bench/documents.py)
"""


@dataclass(frozen=True)
class Program:
    name: str
    command: Sequence[str]
    environment: tuple[tuple[str, str], ...] = ()
    # Whether it writes the same, whoever runs it: if not, it checks its work itself.
    repeats: bool = False


MESSAGES = Program(
    "messages",
    [
        str(BUILD / "bench" / "malloc_test"),
        *("--producers=2", "--consumers=2", "--queue=64", "--touch=1", "--messages=1500"),
    ],
)
DOCUMENTS = Program(
    "documents",
    [sys.executable, str(ROOT / "bench" / "documents.py")],
    (("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")),
    repeats=True,
)


@dataclass(frozen=True)
class Run:
    seconds: float  # of processors: it does not grow much while others keep them busy
    peak_mib: float
    output: str
    errors: str = ""


def run(program: Program, library: Path | None, **settings: str) -> Run:
    kept = {n: v for n, v in os.environ.items() if n != "LD_PRELOAD" and not n.startswith("LOFT_")}
    preload = {} if library is None else {"LD_PRELOAD": str(library)}
    env = {**kept, **dict(program.environment), **preload, **settings}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(program.command, env=env, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        said = errors.read()
        if process.returncode != 0:
            under = "glibc" if library is None else "loft"
            sys.exit(f"run_demo: {program.name} failed under {under}: {process.returncode}\n{said}")
        seconds = usage.ru_utime + usage.ru_stime
        return Run(seconds, usage.ru_maxrss / 1024, output.read(), said)


@dataclass(frozen=True)
class Compared:
    """The medians of one program, under glibc and under loft."""

    name: str
    seconds: tuple[float, float]
    peak_mib: tuple[float, float]

    @classmethod
    def of(cls, name: str, glibc: list[Run], loft: list[Run]) -> Compared:
        both = (glibc, loft)
        first, second = (median(each.seconds for each in runs) for runs in both)
        least, most = (median(each.peak_mib for each in runs) for runs in both)
        return cls(name, (first, second), (least, most))

    def row(self) -> str:
        time, memory = self.seconds, self.peak_mib
        return (
            f"{self.name:9}  {time[0]:8.2f} s {time[1]:7.2f} s {change(time):+5.0f} %"
            f"  {memory[0]:9.0f} MiB {memory[1]:5.0f} MiB {change(memory):+5.0f} %"
        )

    def losses(self) -> list[str]:
        pairs = (("processor time", self.seconds), ("memory", self.peak_mib))
        return [
            f"{self.name} take {change(pair):.0f} % more {what} under loft"
            for what, pair in pairs
            if round(change(pair)) > 0
        ]


def change(pair: tuple[float, float]) -> float:
    """In percent of the first."""
    return (pair[1] / pair[0] - 1) * 100


def table(all_compared: list[Compared]) -> list[str]:
    return [
        f"{'':9}  {'processor time':27} {'peak memory':>13}",
        f"{'':9}  {'glibc':>10} {'loft':>9} {'':7}  {'glibc':>13} {'loft':>9}",
        *(each.row() for each in all_compared),
    ]


def said_by(program: Run) -> dict[str, Any]:
    """The result of a program of ours: one line of JSON."""
    told: dict[str, Any] = json.loads(program.output)
    return told


def summary(messages: Compared, glibc: Run, loft: Run, stats: dict[str, int]) -> list[str]:
    """Three lines: by how much, twice, and why. The runs are one more of each."""

    def line(words: tuple[str, str], pair: tuple[float, float], text: str) -> str:
        by = change(pair)
        return f"{words[by > 0]} {abs(by):.0f} %: {text}"

    time, memory = messages.seconds, messages.peak_mib
    waiting = [said_by(each)["peak_live_bytes"] / 2**20 for each in (glibc, loft)]
    objects, exchanges = stats["batch_objects"], max(stats["posts"], 1)
    return [
        line(
            ("Faster by", "Slower by"),
            time,
            f"{time[1]:.2f} s of processor time; {time[0]:.2f} s under glibc.",
        ),
        line(
            ("Smaller by", "Larger by"),
            memory,
            f"{memory[1]:.0f} MiB at the peak, {waiting[1]:.0f} of them in the queue; under glibc "
            f"{memory[0]:.0f} MiB, {waiting[0]:.0f} of them in the queue.",
        ),
        f"Because {objects:,} objects, freed by another thread than allocated them, went home by "
        f"{exchanges:,} atomic operations, one for {objects / exchanges:.0f}; "
        "glibc takes a lock for most.",
    ]


def main() -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    print(HEAD, flush=True)
    library = BUILD / "libloft.so"
    all_compared = []
    for program in (MESSAGES, DOCUMENTS):
        glibc, loft = [], []
        for _ in range(ROUNDS):
            glibc.append(run(program, None))
            loft.append(run(program, library))
        if program.repeats and len({each.output for each in glibc + loft}) != 1:
            sys.exit(f"run_demo: {program.name} wrote something else under loft")
        all_compared.append(Compared.of(program.name, glibc, loft))
    observed = run(MESSAGES, library, LOFT_STATS="json")
    print("\n".join(table(all_compared)))
    lost = "; ".join(loss for each in all_compared for loss in each.losses())
    print(
        f"\nNot everything is better: {lost or 'here it is'}. docs/results.md has loft's losses.\n"
    )
    stats = json.loads(observed.errors.splitlines()[-1])
    print("\n".join(summary(all_compared[0], run(MESSAGES, None), observed, stats)))


if __name__ == "__main__":
    main()
