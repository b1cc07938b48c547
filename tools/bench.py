#!/usr/bin/env python3
"""Measures loft against the peers: every workload under every allocator, interleaved.

    tools/bench.py                       the default set, under ten minutes on two cores
    tools/bench.py full                  more rows and more rounds
    tools/bench.py --rows 'malloc-test*' --with loft,snmalloc,mimalloc3 --rounds 9
    tools/bench.py --with 'loft*'        loft by each of its owners (the option `owner`)
    tools/bench.py --update --rows 'larson*'      these rows anew, the others as they were
    tools/bench.py --resume              goes on with a set that was interrupted

A round runs each row once under each allocator, one right after the other; then comes the next
round, so that a machine that changes meanwhile changes for all. Elapsed times come from plain runs;
hardware counters, where the kernel offers them, and loft's own statistics from separate ones.
build/bench.json is written after every row; tools/results.py makes docs/results.md from it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from bench_counters import count_events, events
from bench_machine import commit, differences, make_header, now
from bench_programs import (
    BUILD,
    PEERS,
    Failed,
    allocators,
    command_of,
    count_instructions,
    environment_of,
    loft_statistics,
    pick,
    run_program,
    show,
    variant_library,
)
from bench_report import Json, header_lines, invalid, remarks
from bench_rows import ROWS, Kind, Row
from bench_tables import tables
from rich.console import Console
from rich.progress import Progress, TaskID

# A run in which busy threads shared a CPU is done again this often before it is left out.
RETRIES = 2
# What a default run may take: past this, rows get no further rounds. The target is ten minutes.
BUDGET_S = 530
# Single steps take microseconds each; this many show the same numbers as more.
REMOTE_FREES_STEPPED = 1024


class Effort(StrEnum):
    QUICK = "quick"
    FULL = "full"


@dataclass
class Store:
    """The JSON on disk: replaced as a whole after every row, so that it is always complete."""

    path: Path
    data: Json
    order: list[str] = field(default_factory=lambda: [row.name for row in ROWS])

    def entry(self, row: Row, mark: str) -> Json:
        """The row's entry; a new one unless there is one of the same command and commit."""
        known: list[Json] = self.data["rows"]
        old = next((each for each in known if each["name"] == row.name), None)
        if old is not None and (old["command"], old["commit"]) == (row.command, mark):
            return old
        new: Json = {
            "name": row.name,
            "group": row.group,
            "threads": row.threads,
            "kind": row.kind.value,
            "command": row.command,
            "variant": row.variant,
            "date": now(),
            "commit": mark,
            "runs": {},
            "failures": {},
        }
        self.drop([row.name])
        self.data["rows"].append(new)
        self.data["rows"].sort(key=lambda each: self.order.index(each["name"]))
        return new

    def drop(self, names: list[str]) -> None:
        self.data["rows"] = [each for each in self.data["rows"] if each["name"] not in names]

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.data, indent=1) + "\n")
        partial.replace(self.path)


def run_valid(row: Row, name: str, library: Path | None, cores: int) -> Json:
    for _ in range(1 + RETRIES):
        result = run_program(command_of(row), library, environment_of(name) | row.environment)
        by_time = row.kind in (Kind.TIMED, Kind.SWEEP)
        if not by_time or not invalid({"threads": row.threads}, result, cores):
            break
    return result


@dataclass
class Measurement:
    store: Store
    rows: list[Row]
    chosen: dict[str, Path | None]
    repeats: int
    events: list[str]
    budget: float
    mark: str = field(default_factory=commit)
    started: float = field(default_factory=time.monotonic)
    # What a round of the row took.
    cost: dict[str, float] = field(default_factory=dict)

    def contestants(self, row: Row) -> dict[str, Path | None]:
        chosen = {
            name: path
            for name, path in self.chosen.items()
            if (not row.only or name in row.only) and name not in row.without
        }
        if row.variant and "loft" in chosen:
            chosen["loft"] = variant_library(row)
        return chosen

    def passes(self) -> Iterator[tuple[int, Row]]:
        for number in range(1, self.repeats + 1):
            for row in self.rows:
                if number == 1 or not row.once:
                    yield number, row

    def run(self, progress: Progress, task: TaskID) -> None:
        for number, row in self.passes():
            progress.update(task, description=f"round {number}: {row.name}")
            spent = time.monotonic() - self.started
            # The first round is for everybody; later ones as far as the time goes.
            if number == 1 or spent + self.cost.get(row.name, 0) <= self.budget:
                before = time.monotonic()
                entry = self.store.entry(row, self.mark)
                self.round(number, row, entry)
                self.cost[row.name] = time.monotonic() - before
                if number == 1:
                    self.extras(row, entry)
                self.store.write()
            progress.advance(task)

    def round(self, number: int, row: Row, entry: Json) -> None:
        cores = len(os.sched_getaffinity(0))
        contestants = self.contestants(row)
        names = [
            name
            for name in contestants
            if name not in entry["failures"]
            and all(run["round"] != number for run in entry["runs"].get(name, []))
        ]
        # Nobody is always the first after another row.
        turn = number % len(names) if names else 0

        def attempt(name: str) -> None:
            runs = entry["runs"].setdefault(name, [])
            try:
                runs.append({"round": number, **run_valid(row, name, contestants[name], cores)})
            except Failed as error:
                entry["failures"][name] = str(error)
                runs.clear()

        workers = max(1, len(names)) if row.kind is Kind.QUIET else 1
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(attempt, names[turn:] + names[:turn]))

    def extras(self, row: Row, entry: Json) -> None:
        """Counters and loft's statistics, once a row."""
        if row.kind is Kind.QUIET:
            return
        for name, library in self.contestants(row).items():
            if name in entry["failures"]:
                continue
            try:
                by_time = row.kind in (Kind.TIMED, Kind.SWEEP)
                if self.events and by_time and name not in entry.get("counters", {}):
                    counted = count_events(row, library, self.events, environment_of(name))
                    entry.setdefault("counters", {})[name] = counted
                if name == "loft" and library is not None and "statistics" not in entry:
                    entry["statistics"] = loft_statistics(row, library)
            except Failed as error:
                entry["failures"][name] = f"in the separate pass: {error}"


def open_store(out: Path, header: Json, names: list[str], keep: bool) -> Store:
    fresh: Json = {
        "header": header,
        "allocators": names,
        "peers": [name for name in PEERS if name in names],
        "rows": [],
        "instructions": {},
    }
    if not keep or not out.exists():
        return Store(out, fresh)
    old: Json = json.loads(out.read_text())
    if different := differences(old["header"], header):
        print(f"bench: {out} is of another set: {'; '.join(different)}", file=sys.stderr)
        raise typer.Exit(2)
    old["header"]["versions"] |= header["versions"]
    # There were others when it was made.
    rows = {row.name for row in ROWS}
    old["rows"] = [each for each in old["rows"] if each["name"] in rows]
    known = allocators()
    old["allocators"] = [name for name in known if name in {*old["allocators"], *names}]
    old["peers"] = [name for name in PEERS if name in old["allocators"]]
    return Store(out, old)


def choose_rows(effort: Effort, patterns: str) -> list[Row]:
    candidates = [
        row for row in ROWS if effort is Effort.FULL or patterns != "*" or not row.full_only
    ]
    wanted = pick([row.name for row in candidates], patterns, "row")
    chosen = [row for row in candidates if row.name in wanted]
    missing = {row.program for row in chosen if not Path(command_of(row)[0]).exists()}
    missing |= {row.variant for row in chosen if row.variant and not variant_library(row).exists()}
    if missing:
        said = f"not built: {', '.join(sorted(missing))}"
        print(
            f"bench: {said}; build the targets loft_bench, loft_variants, loft_nextgen",
            file=sys.stderr,
        )
        raise typer.Exit(2)
    return chosen


def main(
    effort: Annotated[
        Effort, typer.Argument(help="the default set, or the long one")
    ] = Effort.QUICK,
    rows: Annotated[str, typer.Option(help="patterns of row names, comma-separated")] = "*",
    with_: Annotated[str, typer.Option("--with", help="patterns of allocator names")] = "*",
    rounds: Annotated[int, typer.Option(min=0, help="0: three, full nine")] = 0,
    budget: Annotated[
        float, typer.Option(help="seconds after which no row gets another round; 0: no limit")
    ] = -1,
    update: Annotated[
        bool, typer.Option("--update", help="measure these rows anew, keep the others")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="measure only what is missing so far")
    ] = False,
    out: Annotated[Path, typer.Option(help="where the JSON goes")] = BUILD / "bench.json",
    list_: Annotated[bool, typer.Option("--list", help="list the rows and stop")] = False,
) -> None:
    """Measures loft against the peers."""
    console = Console(width=None if sys.stdout.isatty() else 200, soft_wrap=False)
    if list_:
        for row in ROWS:
            console.print(f"{row.name:42} {row.command}")
        return
    chosen_rows = choose_rows(effort, rows)
    there = allocators()
    names = pick(list(there), with_, "allocator")
    repeats = rounds or (9 if effort is Effort.FULL else 3)
    if budget < 0:
        budget = 0 if effort is Effort.FULL else BUDGET_S
    countable, no_counters = events()
    store = open_store(out, make_header(names, repeats, no_counters), names, update or resume)
    if update:
        store.drop([row.name for row in chosen_rows])
    measurement = Measurement(
        store=store,
        rows=chosen_rows,
        chosen={name: there[name] for name in names},
        repeats=repeats,
        events=countable,
        budget=budget or float("inf"),
    )
    # At the start, so that it is within the budget. The peers' counts do not change.
    for name in names:
        if name == "loft" or name not in store.data["instructions"]:
            counted = count_instructions(there[name], REMOTE_FREES_STEPPED, environment_of(name))
            if counted is not None:
                store.data["instructions"][name] = counted
    with Progress(transient=True) as progress:
        total = len(list(measurement.passes()))
        measurement.run(progress, progress.add_task("", total=total))

    for line in header_lines(store.data):
        console.print(line)
    for table in tables(store.data):
        show(console, table)
    for remark in remarks(store.data):
        console.print(f"note: {remark}")
    console.print(f"measured for {time.monotonic() - measurement.started:.0f} s")
    # What a peer fails at is told above, and is no reason to leave the results unwritten.
    if any("loft" in row["failures"] for row in store.data["rows"]):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
