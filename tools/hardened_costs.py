#!/usr/bin/env python3
"""What hardened=full costs beside allocators that were made for this: time and memory of programs.

    tools/hardened_costs.py                     all of bench/hardened.toml, in some minutes
    tools/hardened_costs.py --rows 'perl*' --rounds 9
    tools/hardened_costs.py --update            writes docs/internals/hardened-costs.md

A round runs each program once under each allocator, one right after the other. Time is the
processor's, of all threads: other work on the machine disturbs it less than the clock on the wall.
A ratio is of medians, to hardened_malloc; behind it is half the range between the quartiles of the
rounds' ratios. Memory is the peak of what was resident.
"""

import math
import shutil
import statistics
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from bench_run import BUILD, ROOT, Failed, finish
from misuse_runs import CONFIGURATIONS
from rich.console import Console
from rich.progress import Progress

from loft_malloc import noise
from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError
from loft_malloc.tables import Cell, Table, as_markdown, for_terminal

WRITTEN = ROOT / "bench" / "hardened.toml"
PAGE = ROOT / "docs" / "internals" / "hardened-costs.md"
BEGIN, END = "<!-- costs -->", "<!-- end of costs -->"
# All ratios are to this one.
MEASURE = "hardened_malloc"
LIMIT_S = 60.0
MEAN = "geometric mean"


@dataclass(frozen=True)
class Program:
    name: str
    group: str
    run: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        return [str(BUILD / word) if word.startswith("bench/") else word for word in self.run]


@dataclass
class Figures:
    """Of one program: by allocator, one for each round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    kib: dict[str, list[float]] = field(default_factory=dict)


def programs() -> Iterator[Program]:
    for group, rows in tomllib.loads(WRITTEN.read_text(encoding="utf-8")).items():
        for row in rows:
            yield Program(row["name"], group, tuple(row["run"]))


def allocators() -> list[Allocator]:
    there = [
        Allocator(each.name, each.library, each.variables)
        for each in CONFIGURATIONS
        if each.is_there() and each.name != "guard"
    ]
    if MEASURE not in (each.name for each in there):
        raise UserError(f"{MEASURE} is not there: make peers")
    return there


def measure(rows: list[Program], those: list[Allocator], rounds: int) -> dict[str, Figures]:
    found = {row.name: Figures() for row in rows}
    broken: set[tuple[str, str]] = set()
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=rounds * len(rows) * len(those))
        for _ in range(rounds):
            for row in rows:
                for each in those:
                    progress.update(task, advance=1, description=f"{row.name}, {each.name}")
                    if (row.name, each.name) in broken:
                        continue
                    try:
                        usage = finish(row.command, each, limit_s=LIMIT_S).usage
                    except Failed as failed:
                        print(f"{row.name}, {each.name}: {failed}", file=sys.stderr)
                        broken.add((row.name, each.name))
                        continue
                    if usage is None:
                        continue
                    figures = found[row.name]
                    figures.seconds.setdefault(each.name, []).append(usage.user_s + usage.system_s)
                    figures.kib.setdefault(each.name, []).append(float(usage.peak_rss_kib))
    for name, allocator in broken:
        found[name].seconds.pop(allocator, None)
        found[name].kib.pop(allocator, None)
    return found


def ratio(values: dict[str, list[float]], name: str) -> float | None:
    if name not in values or MEASURE not in values:
        return None
    return statistics.median(values[name]) / statistics.median(values[MEASURE])


def cell(values: dict[str, list[float]], name: str, form: str) -> Cell:
    mine, theirs = values.get(name), values.get(MEASURE)
    if mine is None:
        return Cell("-")
    if theirs is None:
        return Cell(form.format(statistics.median(mine)))
    if name == MEASURE:
        return Cell(form.format(statistics.median(mine)))
    pairs = [a / b for a, b in zip(mine, theirs, strict=True)]
    spread = noise.spread(pairs)
    behind = "" if spread is None else f" ±{spread:.2f}"
    return Cell(f"{ratio(values, name):.2f}{behind}")


def table(
    title: str,
    form: str,
    rows: list[Program],
    names: list[str],
    values: list[dict[str, list[float]]],
) -> Table:
    made = Table(["", *names], title)
    for row, figures in zip(rows, values, strict=True):
        made.rows.append((row.name, [cell(figures, name, form) for name in names]))
    for group in dict.fromkeys(row.group for row in rows):
        cells = []
        for name in names:
            ratios = [
                found
                for row, figures in zip(rows, values, strict=True)
                if row.group == group and (found := ratio(figures, name)) is not None
            ]
            mean = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None
            cells.append(Cell("-" if mean is None else f"{mean:.2f}"))
        made.rows.append((f"{MEAN}, {group}", cells))
    return made


def written(tables: list[Table]) -> str:
    """The page with these tables in place of those that it has."""
    text = PAGE.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise UserError(f"{PAGE.name} has no place for the table: a line {BEGIN} and a line {END}")
    before, _, rest = text.partition(BEGIN)
    behind = rest.partition(END)[2]
    lines = [line for each in tables for line in [f"### {each.title}", "", *as_markdown(each), ""]]
    return f"{before}{BEGIN}\n" + "\n".join(lines) + f"{END}{behind}"


def main(
    rows: Annotated[str, typer.Option(help="a pattern of their names")] = "*",
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    update: Annotated[
        bool, typer.Option(help="write the table into docs/internals/hardened-costs.md")
    ] = False,
) -> None:
    """Time and memory of programs under hardened=full and its peers."""
    try:
        chosen = [row for row in programs() if fnmatchcase(row.name, rows)]
        if not chosen:
            raise UserError(f"no row is named {rows}")
        missing = [row.command[0] for row in chosen if not is_there(row.command[0])]
        if missing:
            raise UserError(f"not there: {', '.join(missing)}; make build, or tools/setup.sh test")
        those = allocators()
        found = measure(chosen, those, rounds)
        names = [each.name for each in those]
        of = [found[row.name] for row in chosen]
        tables = [
            table("Time", "{:.2f} s", chosen, names, [each.seconds for each in of]),
            table(
                "Memory at the peak",
                "{:.1f} MiB",
                chosen,
                names,
                [{n: [k / 1024 for k in v] for n, v in each.kib.items()} for each in of],
            ),
        ]
        console = Console()
        if not console.is_terminal:
            console = Console(width=200)
        for each in tables:
            console.print(for_terminal(each))
        if update:
            PAGE.write_text(written(tables), encoding="utf-8")
    except UserError as error:
        print(f"hardened_costs: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


def is_there(program: str) -> bool:
    return Path(program).is_file() or shutil.which(program) is not None


if __name__ == "__main__":
    typer.run(main)
