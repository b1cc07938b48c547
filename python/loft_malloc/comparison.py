"""The comparison itself: which runs are made in which order, and what they gave."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from loft_malloc import (
    allocators,
    client_output,
    elf,
    embedded,
    launch,
    linked,
    load,
    options,
    places,
    program,
    told_stats,
)
from loft_malloc.allocators import Allocator
from loft_malloc.client_output import Reading
from loft_malloc.launch import Counts, Job, Usage
from loft_malloc.load import Load
from loft_malloc.memory import MemoryWatch
from loft_malloc.outcome import Outcome
from loft_malloc.printable import counted, printable
from loft_malloc.told_stats import Stats

# Instructions hardly vary from run to run.
COUNTED_ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    command: list[str]
    allocators: list[Allocator]
    runs: int
    timeout_s: float | None
    tail_s: float
    show_output: bool
    # loft's own statistics are read in a run of their own.
    stats: bool = False
    # The command is a server, which is asked by a client.
    load: Load | None = None


@dataclass
class Measured:
    """All that is known of one allocator."""

    allocator: Allocator
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    usages: list[Usage] = field(default_factory=list)
    # What the client said of each timed round.
    readings: list[Reading] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)
    memory: MemoryWatch | None = None
    # What each process of one run said at its end, by its number. None if it was not asked.
    stats: list[tuple[int, Stats]] | None = None
    left_behind: int = 0

    @property
    def usable(self) -> bool:
        """It is out after one crash or one run without an end: what is left would mislead."""
        return all(outcome.measurable for outcome in self.outcomes)

    def take(self, result: launch.Result) -> None:
        self.outcomes[result.outcome] += 1
        if result.outcome.kind != "timeout":
            self.left_behind = max(self.left_behind, result.left_behind)


@dataclass
class Comparison:
    plan: Plan
    measured: list[Measured]
    notes: list[str] = field(default_factory=list)
    started: datetime = field(default_factory=lambda: datetime.now().astimezone())

    @property
    def usable(self) -> list[Measured]:
        return [each for each in self.measured if each.usable]


# Told before each run: what is going on, and how many runs are still to come at most.
Progress = Callable[[str, int], None]


def compare(plan: Plan, progress: Progress) -> Comparison:
    # The warm-up, the timed rounds and the memory run. Whether the counted ones come, only the
    # first of them tells.
    told = len([each for each in plan.allocators if plan.stats and elf.is_loft(each.library)])
    left = len(plan.allocators) * (plan.runs + 2) + told
    # A large program is searched for allocators that it may contain.
    progress("looking at the program", left)
    path = program.last(program.executed(plan.command))
    measured = [Measured(_before_linked(each, path)) for each in plan.allocators]
    notes = [*options.misspelt(os.environ), *_whose_malloc(measured, path)]
    comparison = Comparison(plan, measured, notes)
    runner = _Runner(comparison, plan, progress, left)
    runner.warm_up()
    runner.timed_rounds()
    runner.counted_rounds()
    runner.memory_runs()
    if plan.stats:
        runner.stats_runs()
    if most := max(each.left_behind for each in measured):
        left_behind = counted(most, "process", "processes")
        comparison.notes.append(f"the command left up to {left_behind} running; killed")
    return comparison


def _before_linked(allocator: Allocator, path: Path) -> Allocator:
    """With nothing preloaded, an allocator that the program is linked with would be measured."""
    if allocator.library is None and linked.allocators(path):
        return replace(allocator, library=linked.libc(path))
    return allocator


def _whose_malloc(measured: list[Measured], path: Path) -> Iterator[str]:
    """What the program's own malloc means for the rows."""
    if elf.defines_malloc(path):
        yield (
            f"{path} defines a malloc of its own, which comes before any that is preloaded: "
            "these rows all measure that one"
        )
    else:
        yield from _same_in_all_rows(path)
    for library in embedded.libraries(path):
        yield from _same_in_all_rows(library)
    for library in linked.allocators(path):
        if name := embedded.taken_from(path, library):
            yield f"{path} calls {library} as {name}: what it takes so is the same in all rows"
    names = ", ".join(str(library) for library in linked.allocators(path))
    libc = linked.libc(path)
    if names and libc is not None and any(each.allocator.library == libc for each in measured):
        yield f"{path} is linked with {names}; under glibc, {libc} is preloaded before it"


def _same_in_all_rows(path: Path) -> Iterator[str]:
    for each in embedded.allocators(path):
        yield (
            f"{path} contains {each}: what it takes from that allocator is the same in all rows, "
            "which compare the rest alone"
        )


@dataclass
class _Runner:
    comparison: Comparison
    plan: Plan
    progress: Progress
    # Runs still to come.
    left: int

    def run(
        self,
        what: str,
        each: Measured,
        *,
        count: bool = False,
        watch: MemoryWatch | None = None,
        stats_folder: Path | None = None,
    ) -> launch.Result:
        self.progress(f"{what}: {each.allocator.name}", self.left)
        self.left -= int(not count)
        # What is preloaded besides, and the variable that tells it what to do.
        tail_s = 0.0 if watch is None else self.plan.tail_s
        extra, variables = [], dict(each.allocator.variables)
        if tail_s:
            extra.append(places.find("loft-hold.so"))
            variables["LOFT_HOLD_MS"] = str(round(tail_s * 1000))
        if stats_folder is not None:
            extra.append(places.find("loft-tell.so"))
            variables["LOFT_TELL_FOLDER"] = str(stats_folder)
        limit = self.plan.timeout_s
        job = Job(
            self.plan.command,
            allocators.preload_value(each.allocator, extra),
            None if limit is None else limit + (0 if self.plan.load else tail_s),
            "show" if self.plan.show_output else "drop",
            count,
            {**os.environ, **variables},
        )
        if self.plan.load is None:
            result = launch.run(job, watch)
        else:
            result = load.run(self.plan.load, job, watch, tail_s)
        each.take(result)
        if result.outcome.kind == "client":
            said = result.stderr.strip().splitlines() or result.stdout.strip().splitlines()
            words = printable(said[-1]) if said else "nothing"
            self.comparison.notes.append(f"under {each.allocator.name} the client said: {words}")
        return result

    def warm_up(self) -> None:
        for each in self.comparison.measured:
            self.run("warm-up", each)
            if not each.usable:
                self.left -= self.plan.runs + 1

    def timed_rounds(self) -> None:
        for number in range(self.plan.runs):
            for each in self.comparison.usable:
                result = self.run(f"round {number + 1} of {self.plan.runs}", each)
                if result.usage is not None:
                    each.usages.append(result.usage)
                    each.readings.append(client_output.read(result.stdout))

    def counted_rounds(self) -> None:
        """Ends with the first run if nothing can be counted here."""
        for _ in range(COUNTED_ROUNDS):
            for each in self.comparison.usable:
                counts = self.run("counting instructions", each, count=True).counts
                if counts.missing:
                    self.comparison.notes.append(why_not_counted(counts.missing))
                    return
                each.counts.append(counts)

    def memory_runs(self) -> None:
        for each in self.comparison.usable:
            watch = MemoryWatch()
            self.run("watching memory", each, watch=watch)
            each.memory = watch

    def stats_runs(self) -> None:
        for each in self.comparison.usable:
            if not elf.is_loft(each.allocator.library):
                continue
            with told_stats.folder() as folder:
                self.run("reading statistics", each, stats_folder=folder)
                each.stats = told_stats.read(folder)
            if not each.stats:
                self.comparison.notes.append(
                    f"no statistics of {each.allocator.name}: no process ended by exit, or none "
                    "could write to the folder for temporary files"
                )


def why_not_counted(error: int) -> str:
    what = "instructions and cycles were not counted: "
    if error in (errno.EACCES, errno.EPERM):
        return what + "the kernel forbids it; sysctl kernel.perf_event_paranoid=2 allows it"
    return what + "this machine has no counters for them, as is common for virtual machines"
