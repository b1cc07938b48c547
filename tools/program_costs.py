#!/usr/bin/env python3
"""What real programs cost under loft, its peers and glibc: instructions, faults and memory.

    tools/program_costs.py                         all of bench/programs.toml, with small inputs
    tools/program_costs.py --inputs large
    tools/program_costs.py --programs 'python,l*' --with loft,mimalloc3 --json build/costs.json

No clock is read, so it does not matter what else the machine does. Each program runs twice under
each allocator, as the ledger's do (tools/ledger_counts.py): under valgrind, which counts the
instructions of the whole process, and by itself, under bench/observe. Ratios are to glibc, and the
last column is loft's distance from the best peer of the row.

The last table says, of a third run that ends at its peak, which part of loft and of the program has
the memory: its columns, from the third on, add up to what is resident.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from bench_run import commit
from ledger_counts import BUILD, Place, place
from program_inputs import Program, Size, programs
from rich.console import Console
from rich.progress import Progress

from loft_malloc import allocators
from loft_malloc.allocators import PEERS, Allocator
from loft_malloc.errors import UserError
from loft_malloc.tables import Cell, Table, Verdict, for_terminal

# To reach: no program takes more than this of what it takes under the best peer.
ALLOWED = 1.01
MEAN = "geometric mean"
# All ratios are to its values.
BASE = "glibc"
# glibc's code is not told from the rest of libc, and tcmalloc's fast paths have a section of their
# own, which callgrind takes for no file's.
UNKNOWN = (BASE, "tcmalloc")


@dataclass(frozen=True)
class Costs:
    """Of one program under one allocator."""

    instructions: int
    # In the allocator's own code, where callgrind knows it.
    own_instructions: int | None
    faults: int
    # On malloc's addresses, and malloc's memory at its peak: exact, and only of one thread. None of
    # several, and the faults where the system lets nobody count them.
    malloc_faults: int | None
    malloc_peak: int | None
    # At its peak. Of several threads as the system reckons it, in batches of pages.
    resident_kib: float
    # Of loft, and of one thread: what has the memory then, in KiB.
    causes: dict[str, float] | None = None


@dataclass(frozen=True)
class Measure:
    title: str
    of: Callable[[Costs], float | None]
    # How glibc's value is shown: divided, and with the unit.
    divisor: float = 1
    unit: str = ""

    def shown(self, value: float) -> str:
        return f"{value / self.divisor:,.{1 if self.unit else 0}f} {self.unit}".rstrip()


MEASURES = (
    Measure("instructions", lambda it: it.instructions, 1e6, "M"),
    Measure("of these in its own code", lambda it: it.own_instructions, 1e6, "M"),
    Measure("faults on malloc's addresses", lambda it: it.malloc_faults),
    Measure("faults of the process", lambda it: it.faults),
    Measure("peak resident", lambda it: it.resident_kib, 1024, "MiB"),
)

# What a class says of its memory, and what it is called here. What was never touched comes off the
# first of them that have it.
SMALL = {
    "free_bytes": "free in slabs",
    "cached_bytes": "cached",
    "in_flight_bytes": "in flight",
    "rounding_bytes": "rounding",
    "live_bytes": "as asked",
}
LONG = {**SMALL, "free_bytes": "free in runs", "cached_bytes": "kept medium"}

# By program, and in it by allocator.
Found = dict[str, dict[str, Costs]]


@dataclass(frozen=True)
class Read:
    """What was written."""

    commit: str
    found: Found


def read(path: Path) -> Read:
    told = json.loads(path.read_text())
    found = {
        program: {name: Costs(**costs) for name, costs in each.items()}
        for program, each in told["programs"].items()
    }
    return Read(told["commit"], found)


def measure(program: Program, allocator: Allocator, size: Size) -> Costs:
    environment = {**program.environment, **allocator.variables}
    with place(allocator.library) as there:
        program.bring_input(size, there.folder)
        words = program.words(size, there.folder)
        steps = there.step(words, environment)
        told = there.observe(words, environment)
        causes = causes_of(there, words, environment, told) if not program.threads else None
    one = not program.threads
    return Costs(
        instructions=steps.total,
        own_instructions=None if allocator.name in UNKNOWN else steps.own,
        faults=told["minor_faults"],
        malloc_faults=told.get("malloc_faults") if one else None,
        malloc_peak=told["peak"] if one else None,
        resident_kib=told["resident"]["all"] / 1024 if one else told["resident_kib"],
        causes=causes,
    )


def causes_of(
    there: Place, words: list[str], environment: dict[str, str], told: dict[str, Any]
) -> dict[str, float] | None:
    """In another run, up to the peak that `told` is of. None where nobody may count faults."""
    if not there.is_loft or "fault_at_peak" not in told:
        return None
    again = there.observe(words, environment, end_at=told["fault_at_peak"])
    stats = json.loads(again["said"].strip().splitlines()[-1])
    resident = again["resident"]
    found = dict.fromkeys((*SMALL.values(), "kept medium", "free in runs"), 0.0)
    for row in stats["classes"]:
        names = SMALL if row["object_bytes"] else LONG
        untouched = row["untouched_bytes"]
        for field, name in names.items():
            less = min(untouched, row[field])
            found[name] += row[field] - less
            untouched -= less
    found["free spans"] = stats["free_span_bytes"]
    found["tables"] = stats["metadata_resident_bytes"]
    found["library's file"] = resident["of_library"]
    found["its data"] = resident["data_of_library"]
    found["the program's own"] = resident["all"] - sum(found.values())
    return {name: value / 1024 for name, value in found.items()}


def measure_all(rows: dict[str, Program], those: list[Allocator], size: Size) -> Found:
    found: Found = {name: {} for name in rows}
    console = Console(stderr=True)
    with (
        Progress(console=console, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        task = progress.add_task("", total=len(rows) * len(those))
        started = {
            pool.submit(measure, row, each, size): (name, each.name)
            for name, row in rows.items()
            for each in those
        }
        for done in as_completed(started):
            name, allocator = started[done]
            progress.update(task, advance=1, description=f"{name}, {allocator}")
            try:
                found[name][allocator] = done.result()
            except UserError as failed:
                print(f"{name}, {allocator}: {failed}", file=sys.stderr)
    return found


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def beside(values: dict[str, float]) -> list[Cell]:
    """The best peer, and how far loft is from it."""
    peers = {name: value for name, value in values.items() if name in PEERS}
    if not peers or "loft" not in values:
        return [Cell(""), Cell("")]
    best = min(peers, key=peers.__getitem__)
    ratio = values["loft"] / peers[best]
    verdict: Verdict = "ahead" if ratio < 1 else "level" if ratio <= ALLOWED else "behind"
    return [Cell(best), Cell(f"{ratio:.3f}", verdict)]


def table(measure: Measure, found: Found, names: list[str]) -> Table:
    """Relative to glibc where it has a value; the means are of programs that all have run."""
    made = Table([measure.title, *names, "best peer", "loft / best"])
    whole: list[dict[str, float]] = []
    for program, costs in found.items():
        values = {
            name: value for name in names if name in costs and (value := measure.of(costs[name]))
        }
        if not values:
            continue
        base = values.get(BASE)
        ratios = {name: value / (base or measure.divisor) for name, value in values.items()}
        cells = [Cell(f"{ratios[name]:.3f}" if name in ratios else "-") for name in names]
        if base:
            cells[names.index(BASE)] = Cell(measure.shown(base))
        made.rows.append((program, [*cells, *beside(values)]))
        if set(names) <= set(costs):
            whole.append(ratios)
    if whole:
        told = [name for name in names if all(name in row for row in whole)]
        means = {name: mean([row[name] for row in whole]) for name in told}
        cells = [Cell(f"{means[name]:.3f}" if name in means else "-") for name in names]
        made.rows.append((MEAN, [*cells, *beside(means)]))
    return made


def causes_table(found: Found) -> Table | None:
    """None where nothing is told."""
    rows = {name: costs["loft"].causes for name, costs in found.items() if "loft" in costs}
    told = {name: causes for name, causes in rows.items() if causes}
    if not told:
        return None
    made = Table(["KiB at loft's peak", BASE, "resident", *next(iter(told.values()))])
    for name, causes in told.items():
        base = found[name].get(BASE)
        values = [sum(causes.values()), *causes.values()]
        made.add(
            name, f"{base.resident_kib:,.0f}" if base else "-", *(f"{each:,.0f}" for each in values)
        )
    return made


def chosen(there: Iterable[str], wanted: str, what: str) -> list[str]:
    """Those that one of the patterns matches, in their own order."""
    names, patterns = list(there), wanted.split(",")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UserError(f"no {what} {pattern}; there are: {', '.join(names)}")
    return [name for name in names if any(fnmatchcase(name, each) for each in patterns)]


def those_to_measure(wanted: str) -> list[Allocator]:
    """glibc first: all ratios are to it. What is not built is told."""
    there = {each.name: each for each in allocators.built(BUILD)}
    for name in ("loft", *PEERS):
        if name not in there:
            made_by = "make" if name == "loft" else "make peers"
            print(f"{name} is not in {BUILD.name}/; `{made_by}` builds it", file=sys.stderr)
    names = chosen(there, wanted, "allocator") if wanted else [BASE, "loft", *PEERS]
    return [there[name] for name in dict.fromkeys([BASE, *names]) if name in there]


def rows_to_measure(wanted: str) -> dict[str, Program]:
    rows = {name: programs()[name] for name in chosen(programs(), wanted, "program")}
    lacks = {name: why for name, row in rows.items() if (why := row.why_not())}
    for name, why in lacks.items():
        print(f"{name} is left out: {why}", file=sys.stderr)
    return {name: row for name, row in rows.items() if name not in lacks}


def main(
    wanted: Annotated[str, typer.Option("--programs", help="patterns of their names")] = "*",
    with_: Annotated[str, typer.Option("--with", help="patterns of allocator names")] = "",
    inputs: Annotated[Size, typer.Option(help="how much they are to do")] = "small",
    out: Annotated[Path | None, typer.Option("--json", help="where all counts go, too")] = None,
) -> None:
    """Instructions, faults and memory of real programs under loft, peers and glibc."""
    try:
        rows, those = rows_to_measure(wanted), those_to_measure(with_)
        found = measure_all(rows, those, inputs)
    except UserError as error:
        print(f"program_costs: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    names = [each.name for each in those]
    if out is not None:
        told = {
            program: {name: asdict(costs[name]) for name in names if name in costs}
            for program, costs in found.items()
        }
        whole = {"commit": commit(), "inputs": inputs, "programs": told}
        out.write_text(json.dumps(whole, indent=1) + "\n")
    console = Console(width=None if sys.stdout.isatty() else 200)
    for each in MEASURES:
        console.print(for_terminal(table(each, found, names)), "")
    if causes := causes_table(found):
        console.print(for_terminal(causes), "")
    if any(len(costs) < len(names) for costs in found.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
