"""A set of benchmark runs, as build/bench.json holds it."""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict

# A spinning thread that had its CPU for less than this part of the time shared it with something.
DISTURBED_SHARE = 0.9
# What the label of a row says if most of its runs were disturbed so.
SHARED = " (the CPUs were shared with others: do not believe it)"


class Kind(StrEnum):
    # Compared by elapsed time, counters and peak memory.
    TIMED = "timed"
    # Has a table of its own; its elapsed time means nothing.
    OWN = "own"
    # loft under one of its options; compared with its own default.
    SWEEP = "sweep"
    # As OWN; and it mostly waits, so it runs under all allocators at once.
    QUIET = "quiet"

    @property
    def by_time(self) -> bool:
        return self in (Kind.TIMED, Kind.SWEEP)


class Told(BaseModel):
    """What a program says; what nobody asks for here is kept as well."""

    model_config = ConfigDict(extra="allow")


class Sample(Told):
    label: str
    at: float
    rss_kib: float
    # Of these, lent by the kernel until it wants them, and in huge pages.
    lazy_free_kib: float
    huge_kib: float


class Phase(Told):
    rss_kib: float
    live_kib: float
    huge_kib: float = 0


class Run(Told):
    """One program under one allocator, in its own words; what it does not tell is empty, or 0."""

    round: int = 0
    threads: int
    operations: float
    ops_per_second: float
    cpu_seconds: float
    peak_rss_kib: float
    table_kib: float
    # The CPUs that the threads ran on, whether one changed its own, and the least part of the time
    # that any of them had its own.
    cpus: list[int]
    migrated: bool
    least_cpu_share: float
    mode: str = ""
    # By the kernel's own account of the whole program; none in runs of before these were kept.
    faults: float | None = None
    sleeps: float | None = None
    peak_live_bytes: float = 0
    survivor_pages_kib: float = 0
    first_kib: float = 0
    grown_kib: float = 0
    most_mappings: float = 0
    # At 1, 64 and 1024 GiB of used addresses.
    trim_instructions: list[float] = []
    tick_instructions: list[float] = []
    median_start_ms: float = 0
    hello_peak_rss_kib: float = 0
    hello_system_calls: float = 0
    # Seconds since the start, at equal shares of the work.
    marks: list[float] = []
    memory: list[Sample] = []
    phases: list[Phase] = []
    # By quantile; clock_ns is of no call at all.
    malloc_ns: dict[str, float] = {}
    free_ns: dict[str, float] = {}
    clock_ns: dict[str, float] = {}

    def at(self, label: str) -> Sample:
        return next(sample for sample in self.memory if sample.label == label)

    def invalid(self, threads: int, cores: int) -> bool:
        """Two busy threads on one CPU although there was one for each: it measured nothing."""
        return threads <= cores and (len(set(self.cpus)) < self.threads or self.migrated)


class Entry(Told):
    """What was measured of one row."""

    name: str
    group: str
    threads: int
    kind: Kind
    command: str
    variant: str = ""
    date: str
    commit: str
    # By allocator.
    runs: dict[str, list[Run]] = {}
    failures: dict[str, str] = {}
    counters: dict[str, dict[str, float]] = {}
    # loft's own.
    statistics: dict[str, Any] = {}

    def every_run(self) -> list[Run]:
        return [run for runs in self.runs.values() for run in runs]

    def first_runs(self) -> dict[str, Run]:
        return {name: runs[0] for name, runs in self.runs.items() if runs}

    def valid(self, cores: int) -> Self:
        """Without the runs that measured nothing."""
        runs = {
            name: [run for run in runs if not run.invalid(self.threads, cores)]
            for name, runs in self.runs.items()
        }
        return self.model_copy(update={"runs": runs})

    def rounds(self, figure: Callable[[Run], float | None]) -> pd.DataFrame:
        """A line for each round, a column for each allocator."""
        found = {n: {run.round: figure(run) for run in runs} for n, runs in self.runs.items()}
        return pd.DataFrame(found, dtype=float).dropna(axis="columns", how="all")

    def medians(self, figure: Callable[[Run], float]) -> dict[str, float]:
        """By allocator, of the rounds."""
        return {
            name: float(pd.Series(list(map(figure, runs))).median())
            for name, runs in self.runs.items()
            if runs
        }

    def fits(self, cores: int) -> bool:
        return self.threads <= cores

    def disturbed(self, run: Run, cores: int) -> bool:
        quiet = run.mode == "waiting" or run.least_cpu_share >= DISTURBED_SHARE
        return self.fits(cores) and not quiet

    def by_mode(self) -> Iterator[tuple[str, Self]]:
        """A row whose runs fall into modes that do not compare is one row for each mode."""
        modes = {run.mode for run in self.every_run()} & {"full", "empty"}
        for mode in sorted(modes):
            runs = {n: [r for r in runs if r.mode == mode] for n, runs in self.runs.items()}
            yield f"{self.name}, ring {mode}", self.model_copy(update={"runs": runs})
        if not modes:
            yield self.name, self

    def label(self, cores: int, name: str) -> str:
        """The name, and with it what a reader must not overlook."""
        if not self.fits(cores):
            return f"{name} (more threads than the {cores} CPUs)"
        runs = self.every_run()
        if 2 * sum(self.disturbed(run, cores) for run in runs) > len(runs):
            return name + SHARED
        return name


def believed(label: str) -> bool:
    """Of an entry's label. Other rows are in no mean, and are not published."""
    return not label.endswith(SHARED)


class Header(Told):
    """The machine, the system and the versions of what was measured."""

    date: str
    cpu: str
    cores: int
    virtual: str
    memory_gib: float
    system: str
    kernel: str
    huge_pages: str
    versions: dict[str, str]
    counters: str

    def differences(self, new: Self) -> list[str]:
        """Why runs under this head must not be put beside runs under the new one."""
        parts = {"cpu", "cores", "virtual", "system", "kernel"}
        mine = self.model_dump(include=parts) | self.versions
        others = new.model_dump(include=parts) | new.versions
        return [f"{k}: {mine[k]}, now {v}" for k, v in others.items() if mine.get(k, v) != v]


class Results(Told):
    header: Header
    allocators: list[str]
    peers: list[str]
    rows: list[Entry] = []
    # By allocator, as bench/count_instructions.cc tells them.
    instructions: dict[str, Any] = {}

    def row(self, name: str) -> Entry | None:
        """Of this name, and measured."""
        return next((e for e in self.rows if e.name == name and e.every_run()), None)

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.model_validate_json(path.read_text())

    def header_lines(self) -> list[str]:
        header = self.header
        versions = ", ".join(f"{name} {text}" for name, text in header.versions.items())
        commits = Counter(row.commit for row in self.rows)
        marks = [f"{mark} ({count} rows)" for mark, count in commits.items()]
        dates = sorted(row.date for row in self.rows) or [header.date]
        rounds = [max(map(len, row.runs.values()), default=0) for row in self.rows] or [0]
        cpus = {cpu for row in self.rows for run in row.every_run() for cpu in run.cpus}
        return [
            f"{header.cpu}, {header.cores} CPUs{header.virtual}, "
            f"{header.memory_gib:.0f} GiB, {header.system}, kernel {header.kernel}, "
            f"transparent huge pages: {header.huge_pages}",
            f"{_range(dates[0], dates[-1])}; {_range(min(rounds), max(rounds))} interleaved rounds",
            f"loft {', '.join(marks if len(marks) > 1 else commits)}",
            f"other allocators, preloaded like loft: {versions}",
            f"counters: {header.counters}",
            "CPUs the threads ran on: " + ", ".join(map(str, sorted(cpus))),
        ]

    def remarks(self) -> list[str]:
        """What a reader must know before believing a row."""
        cores = self.header.cores
        said = []
        for row in self.rows:
            for name, message in row.failures.items():
                said.append(f"{row.name} under {name} failed: {message}")
            if row.kind is not Kind.TIMED:
                continue
            runs = row.every_run()
            if bad := sum(run.invalid(row.threads, cores) for run in runs):
                said.append(
                    f"{row.name}: {bad} of {len(runs)} runs left out, busy threads shared a CPU"
                )
            if noisy := sum(row.disturbed(run, cores) for run in runs):
                said.append(
                    f"{row.name}: in {noisy} of {len(runs)} runs something else ran on the "
                    "threads' CPUs"
                )
        return said


def _range(first: object, last: object) -> str:
    return f"{first}" if first == last else f"{first} to {last}"
