"""`loft replay`: a trace, and its calls made again under each allocator.

loft-trace reads the trace and makes a plan of one of its processes, loft-replay carries that out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loft_malloc import allocators, comparison, launch, places
from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError
from loft_malloc.launch import Job
from loft_malloc.outcome import Outcome
from loft_malloc.trace_file import Trace

# What loft-replay exits with when an object was not what it had been.
DAMAGED_CODE = 3
# Its last line is "Collected : " and the number of instructions.
COUNTER = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
# How many calls a thread may be ahead of another: more would change what is alive at a time.
LARGEST_WINDOW = 1000


def window(tickets: int) -> int:
    """If nothing else is asked for."""
    return min(LARGEST_WINDOW, tickets // 1000)


@dataclass(frozen=True)
class Process:
    """One of a trace, as loft-trace tells it."""

    number: int
    pid: int
    # The number of the process that it was forked from; None if it began with an exec.
    parent: int | None
    words: list[str]
    calls: int
    threads: int
    lost: int
    seconds: float

    @classmethod
    def of(cls, number: int, told: dict[str, Any], numbers: dict[int, int]) -> Process:
        text = told["words"].encode("latin-1").decode(errors="replace")
        return cls(
            number,
            told["pid"],
            numbers.get(told["parent"]),
            text.rstrip("\0").split("\0"),
            told["calls"],
            told["threads"],
            told["lost"],
            told["ns"] / 1e9,
        )


def helper(name: str, trace: Trace, *arguments: str | Path, show: bool = False) -> str:
    """What a part of the command says about a trace; what it complains of is the user's to know."""
    ran = subprocess.run(
        [places.find(name), *arguments],
        stdout=None if show else subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Whoever reads the calls may go away in the middle (| head).
    if ran.returncode and not (show and ran.returncode == -signal.SIGPIPE):
        why = ran.stderr.strip() or str(Outcome.of_status(ran.returncode))
        raise UserError(f"{trace.path}: {why}", 1)
    return ran.stdout or ""


def processes(trace: Trace, chunks: Path) -> list[Process]:
    told = json.loads(helper("loft-trace", trace, "info", chunks))
    numbers = {each["image"]: number for number, each in enumerate(told)}
    return [Process.of(number, each, numbers) for number, each in enumerate(told)]


def pick(trace: Trace, there: list[Process], wanted: int | None) -> Process:
    if not there:
        raise UserError(f"{trace.path} has no calls: no process could be recorded", 1)
    if wanted is None:
        return max(there, key=lambda each: each.calls)
    if not 0 <= wanted < len(there):
        raise UserError(f"--process {wanted}: {trace.path} has processes 0 to {len(there) - 1}")
    return there[wanted]


@dataclass(frozen=True)
class Sample:
    ticket: int
    live_bytes: int
    # Beyond what the process had before the first call.
    resident_kib: int

    @property
    def ratio(self) -> float | None:
        return self.resident_kib * 1024 / self.live_bytes if self.live_bytes else None


@dataclass(frozen=True)
class Run:
    """One replay, as loft-replay tells it."""

    seconds: float
    user: float
    system: float
    minor_faults: int
    major_faults: int
    sleeps: int
    calls: int
    damaged: int
    dirty: int
    failed: int
    succeeded: int
    unaligned: int
    start_kib: int
    end_kib: int
    samples: list[Sample]

    @classmethod
    def of(cls, told: dict[str, Any]) -> Run:
        start = told["start_kib"]
        samples = [Sample(t, live, max(0, own - start)) for t, live, own in told["samples"]]
        named = {name: told[name] for name in cls.__dataclass_fields__ if name != "samples"}
        return cls(**named, samples=samples)

    @property
    def cpu(self) -> float:
        return self.user + self.system

    @property
    def left_kib(self) -> int:
        return max(0, self.end_kib - self.start_kib)

    @property
    def peak_kib(self) -> int:
        return max((each.resident_kib for each in self.samples), default=0)

    @property
    def faults(self) -> int:
        return self.minor_faults + self.major_faults

    @property
    def ratio_at_peak(self) -> float:
        """Resident bytes for each that was alive, when more was alive than ever."""
        if not self.samples:
            return 0.0
        return max(self.samples, key=lambda each: each.live_bytes).ratio or 0.0

    @property
    def complaints(self) -> list[str]:
        said = {
            "damaged": "objects were not what they had been",
            "dirty": "objects of calloc were not zero",
            "unaligned": "objects were not aligned as asked",
            "failed": "calls failed that had succeeded in the recording",
            "succeeded": "calls succeeded that had failed in the recording",
        }
        return [f"{getattr(self, key)} {text}" for key, text in said.items() if getattr(self, key)]


@dataclass
class Replayed:
    """All that is known of one allocator."""

    allocator: Allocator
    runs: list[Run] = field(default_factory=list)
    instructions: int | None = None
    failure: str = ""

    @property
    def usable(self) -> bool:
        return not self.failure


@dataclass(frozen=True)
class Plan:
    file: Path
    allocators: list[Allocator]
    runs: int
    window: int
    touch: str
    timeout_s: float | None
    # Count instructions one by one, in a run of its own that takes fifty times as long.
    counted: bool = False

    def job(self, allocator: Allocator, *, count: bool = False, stepped: bool = False) -> Job:
        counter = [*COUNTER, "--"] if stepped else []
        replayer = [str(places.find("loft-replay")), str(self.file), str(self.window), self.touch]
        return Job(
            [*counter, *replayer],
            allocators.preload_value(allocator, []),
            self.timeout_s,
            "keep",
            count,
            {**os.environ, **allocator.variables},
        )


# Told before each run: what is going on, and how many there are still to come.
Progress = Callable[[str, int], None]


def replay(plan: Plan, progress: Progress) -> tuple[list[Replayed], list[str]]:
    """What each gave, and what else there is to say. All take turns in each round."""
    replayed = [Replayed(each) for each in plan.allocators]
    left = len(replayed) * (plan.runs + 1)
    for number in range(plan.runs):
        for each in replayed:
            progress(f"round {number + 1} of {plan.runs}: {each.allocator.name}", left)
            left -= 1
            if each.usable:
                _run(plan, each)
    notes = []
    for each in replayed:
        progress(f"counting instructions: {each.allocator.name}", left)
        left -= 1
        if not each.usable:
            continue
        if plan.counted:
            each.instructions = _step_through(plan, each)
            continue
        counts = launch.run(plan.job(each.allocator, count=True)).counts
        if counts.missing:
            notes.append(
                comparison.why_not_counted(counts.missing)
                + "; --instructions counts them with valgrind"
            )
            break
        each.instructions = counts.instructions
    return replayed, notes


def check_counter() -> None:
    if shutil.which(COUNTER[0]) is None:
        raise UserError("--instructions: this needs valgrind, which is not installed")


def _step_through(plan: Plan, each: Replayed) -> int | None:
    result = launch.run(plan.job(each.allocator, stepped=True))
    found = re.search(r"Collected : (\d+)", result.stderr)
    return int(found[1]) if found else None


def _run(plan: Plan, each: Replayed) -> None:
    result = launch.run(plan.job(each.allocator))
    if result.outcome.exit_code not in (0, DAMAGED_CODE):
        late = result.outcome.kind == "timeout"
        each.failure = str(result.outcome) if late else result.complaint
        return
    try:
        each.runs.append(Run.of(json.loads(result.stdout)))
    except (ValueError, KeyError, TypeError):
        each.failure = f"no result, but {result.stdout[:80]!r}"
