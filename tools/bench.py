#!/usr/bin/env python3
"""Measures loft against the peers: every workload under every allocator, interleaved.

    tools/bench.py                       the default set, under ten minutes on two cores
    tools/bench.py results               the default set, three rounds of each row, without loft's
                                         other owners: what docs/results.md shows
    tools/bench.py full                  more rows and more rounds
    tools/bench.py --rows 'malloc-test*' --with loft,snmalloc,mimalloc3 --rounds 9
    tools/bench.py --with 'loft*'        loft by each of its owners (the option `owner`)
    tools/bench.py --update --rows 'larson*'      these rows anew, the others as they were
    tools/bench.py --resume              goes on with a set that was interrupted

A round runs each row once under each allocator, one right after the other; then comes the next
round, so that a machine that changes meanwhile changes for all. Elapsed times come from plain runs;
hardware counters, where the kernel offers them, and loft's own statistics from separate ones.
build/bench.json is written after every row; `make results` makes docs/results.md of it.
"""

import fnmatch
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import recordings
import typer
from bench_results import Entry, Header, Kind, Results, Run
from bench_rows import ROWS, SETTINGS, Row, variant_path
from bench_run import (
    BUILD,
    Failed,
    command_of,
    commit,
    count_events,
    count_instructions,
    countable_events,
    loft_statistics,
    make_header,
    now,
    run_row,
)
from bench_tables import tables
from rich.console import Console
from rich.progress import Progress, TaskID

from loft_malloc import allocators
from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError
from loft_malloc.tables import for_terminal

# A run in which busy threads shared a CPU is done again this often before it is left out.
RETRIES = 2
# What a default run may take: past this, rows get no further rounds. The target is ten minutes.
BUDGET_S = 530
# Single steps take microseconds each; this many show the same numbers as more.
REMOTE_FREES_STEPPED = 1024


Effort = Literal["quick", "results", "full"]


@dataclass
class Store:
    """The JSON on disk: replaced as a whole after every row, so that it is always complete."""

    path: Path
    data: Results

    def entry(self, row: Row, mark: str) -> Entry:
        """The row's entry; a new one unless there is one of the same command and commit."""
        old = next((each for each in self.data.rows if each.name == row.name), None)
        if old is not None and (old.command, old.commit) == (row.command, mark):
            return old
        same = ("name", "group", "threads", "kind", "command", "variant")
        told = {key: getattr(row, key) for key in same}
        new = Entry(**told, date=now(), commit=mark)
        self.drop([row.name])
        self.data.rows.append(new)
        order = [each.name for each in ROWS]
        self.data.rows.sort(key=lambda each: order.index(each.name))
        return new

    def drop(self, names: list[str]) -> None:
        self.data.rows = [each for each in self.data.rows if each.name not in names]

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(self.data.model_dump_json(indent=1, exclude_defaults=True) + "\n")
        partial.replace(self.path)


def run_valid(row: Row, allocator: Allocator, cores: int) -> Run:
    for _ in range(1 + RETRIES):
        result = run_row(row, allocator)
        if not row.kind.by_time or not result.invalid(row.threads, cores):
            break
    return result


@dataclass
class Measurement:
    store: Store
    rows: list[Row]
    chosen: list[Allocator]
    repeats: int
    events: list[str]
    budget: float
    mark: str = field(default_factory=commit)
    started: float = field(default_factory=time.monotonic)
    # What a round of the row took.
    cost: dict[str, float] = field(default_factory=dict)

    def contestants(self, row: Row) -> dict[str, Allocator]:
        chosen = {
            each.name: each
            for each in self.chosen
            if (not row.only or each.name in row.only) and each.name not in row.without
        }
        if row.variant and "loft" in chosen:
            library = BUILD / variant_path(row.variant)
            chosen["loft"] = replace(chosen["loft"], library=library)
        for name, variables in SETTINGS[row.settings].items() if row.settings else []:
            if name in chosen:
                more = {**chosen[name].variables, **variables}
                chosen[name] = replace(chosen[name], variables=more)
        return chosen

    def passes(self) -> Iterator[tuple[int, Row]]:
        for number in range(1, self.repeats + 1):
            for row in self.rows:
                if not row.rounds or number <= row.rounds:
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

    def round(self, number: int, row: Row, entry: Entry) -> None:
        cores = len(os.sched_getaffinity(0))
        contestants = [
            each
            for name, each in self.contestants(row).items()
            if name not in entry.failures
            and all(run.round != number for run in entry.runs.get(name, []))
        ]
        # Nobody is always the first after another row.
        turn = number % len(contestants) if contestants else 0

        def attempt(each: Allocator) -> None:
            runs = entry.runs.setdefault(each.name, [])
            try:
                run = run_valid(row, each, cores)
                run.round = number
                runs.append(run)
            except Failed as error:
                entry.failures[each.name] = str(error)
                runs.clear()

        workers = max(1, len(contestants)) if row.kind is Kind.QUIET else 1
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(attempt, contestants[turn:] + contestants[:turn]))

    def extras(self, row: Row, entry: Entry) -> None:
        """Counters and loft's statistics, once a row."""
        if row.kind is Kind.QUIET:
            return
        for name, each in self.contestants(row).items():
            if name in entry.failures:
                continue
            try:
                if self.events and row.kind.by_time and name not in entry.counters:
                    entry.counters[name] = count_events(row, each, self.events)
                if name == "loft" and not entry.statistics:
                    entry.statistics = loft_statistics(row, each)
            except Failed as error:
                entry.failures[name] = f"in the separate pass: {error}"


def refuse(reason: str) -> NoReturn:
    print(f"bench: {reason}", file=sys.stderr)
    raise typer.Exit(2)


def open_store(out: Path, header: Header, names: list[str], keep: bool) -> Store:
    if not keep or not out.exists():
        peers = [name for name in allocators.PEERS if name in names]
        return Store(out, Results(header=header, allocators=names, peers=peers))
    old = Results.read(out)
    if different := old.header.differences(header):
        refuse(f"{out} is of another set: {'; '.join(different)}")
    old.header.versions |= header.versions
    # There were others when it was made.
    rows = {row.name for row in ROWS}
    old.rows = [each for each in old.rows if each.name in rows]
    known = [each.name for each in allocators.built(BUILD)]
    old.allocators = [name for name in known if name in {*old.allocators, *names}]
    old.peers = [name for name in allocators.PEERS if name in old.allocators]
    return Store(out, old)


def pick(names: list[str], wanted: str, what: str) -> list[str]:
    patterns = [pattern.strip() for pattern in wanted.split(",")]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            refuse(f"no {what} {pattern}; there are: {'; '.join(names)}")
    return [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def choose_rows(effort: Effort, patterns: str) -> list[Row]:
    candidates = [row for row in ROWS if effort == "full" or patterns != "*" or not row.full_only]
    wanted = pick([row.name for row in candidates], patterns, "row")
    chosen = [row for row in candidates if row.name in wanted]
    needed = {row.variant: BUILD / variant_path(row.variant) for row in chosen if row.variant}
    needed |= {row.program: Path(command_of(row)[0]) for row in chosen}
    needed["loft-launch"] = BUILD / "loft-launch"
    if any(row.program == "replay" for row in chosen):
        needed |= {part: BUILD / part for part in recordings.PARTS}
    if missing := [name for name, path in needed.items() if not path.exists()]:
        targets = "loft_command, loft_bench, loft_variants"
        refuse(f"not built: {', '.join(sorted(missing))}; build the targets {targets}")
    return chosen


def record_programs(chosen: list[Row]) -> None:
    """What rows replay, if it is not there yet."""
    plans = [word.removeprefix("--plan=") for row in chosen for word in row.arguments]
    if wanted := [plan for plan in plans if plan in recordings.all_of_them()]:
        try:
            recordings.main(wanted)
        except UserError as error:
            refuse(str(error))


def main(
    effort: Annotated[Effort, typer.Argument(help="the default set, or the long one")] = "quick",
    rows: Annotated[str, typer.Option(help="patterns of row names, comma-separated")] = "*",
    with_: Annotated[str, typer.Option("--with", help="patterns of allocator names")] = "*",
    rounds: Annotated[int, typer.Option(min=0, help="0: three, full nine")] = 0,
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
    there = {each.name: each for each in allocators.built(BUILD)}
    if effort == "results":
        there = {name: each for name, each in there.items() if name not in allocators.OWNERS}
    names = pick(list(there), with_, "allocator")
    record_programs(chosen_rows)
    full = effort == "full"
    events, about_counters = countable_events()
    store = open_store(out, make_header(names, about_counters), names, update or resume)
    data = store.data
    if update:
        store.drop([row.name for row in chosen_rows])
    measurement = Measurement(
        store=store,
        rows=chosen_rows,
        chosen=[there[name] for name in names],
        repeats=rounds or (9 if full else 3),
        events=events,
        budget=BUDGET_S if effort == "quick" else float("inf"),
    )
    # At the start, so that it is within the budget. The peers' counts do not change.
    for name in names:
        if name == "loft" or name not in data.instructions:
            counted = count_instructions(there[name], REMOTE_FREES_STEPPED)
            if counted is not None:
                data.instructions[name] = counted
    with Progress(transient=True) as progress:
        total = len(list(measurement.passes()))
        measurement.run(progress, progress.add_task("", total=total))

    for line in data.header_lines():
        console.print(line)
    for table in tables(data):
        console.print(f"\n[bold]{table.title}[/bold]. {table.note}")
        console.print(for_terminal(table))
    for remark in data.remarks():
        console.print(f"note: {remark}")
    console.print(f"measured for {time.monotonic() - measurement.started:.0f} s")
    # What a peer fails at is told above, and is no reason to leave the results unwritten.
    if any("loft" in row.failures for row in data.rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
