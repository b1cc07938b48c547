#!/usr/bin/env python3
"""Writes what build/bench.json and build/costs.json say, as `make results` measured them.

All of it goes to build/results, with its pictures. The rows that bench/short.toml chooses go to
docs/results.json, and from there to the short page, docs/results.md, with its chart, and into
README's table. A row whose CPUs were shared with others is never chosen. What changed since the
last tag is printed.

    tools/results.py --long       only build/results, of build/bench.json alone
    tools/results.py --pages      only the pages again, from docs/results.json
"""

import json
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn

import ledger_docs
import program_costs
import typer
from bench_pictures import PICTURES, draw_all, draw_ratios
from bench_results import Results, believed
from bench_rows import variant_path
from bench_tables import Loss, losses, tables
from ledger import WRITTEN
from ledger_rows import Ledger
from result_pages import CHOSEN, ROOT, Line, Lost, Record, changes, filled, record_of_tag

from loft_malloc.tables import Cell, Table

# This one stands by itself on the short page.
BESIDE = "Faults and waits"
# And these rows are of build/costs.json.
PROGRAMS = "Programs"
# On the short page.
MOST_LOSSES = 10
# A reason that begins so says that there is nothing to explain.
NOISE = "Within the noise"


class Reason(NamedTuple):
    """Patterns of row and table, and why loft is behind there."""

    row: str
    table: str
    reason: str

    def explains(self, loss: Loss) -> bool:
        return fnmatchcase(loss.row, self.row) and fnmatchcase(loss.table, self.table)


def read_reasons(path: Path) -> list[Reason]:
    if not path.exists():
        return []
    given = tomllib.loads(path.read_text())["loss"]
    return [Reason(each["row"], each.get("table", "*"), each["reason"]) for each in given]


def explained(data: Results, reasons: list[Reason]) -> list[tuple[Loss, str]]:
    return [
        (loss, " ".join(why.reason for why in reasons if why.explains(loss)))
        for loss in losses(data)
    ]


def page(data: Results, reasons: list[Reason], images: Path) -> str:
    return filled(
        "results.md.jinja",
        data=data,
        losses=explained(data, reasons),
        tables=tables(data),
        pictures=PICTURES,
        images=images,
        guide=os.path.relpath(ROOT / "docs" / "internals" / "benchmarks.md", images.parent),
        variant_path=variant_path,
    )


def chosen(made: list[Table], title: str) -> dict[str, dict[str, Cell]]:
    """The rows chosen of a table, by their titles; without those that were not measured, or are
    not to be believed."""
    lines = next((table.lines() for table in made if table.title == title), {})
    # A label may have a remark behind it.
    return {
        called: cells
        for row, called in CHOSEN[title].items()
        for label, cells in lines.items()
        if (label == row or label.startswith(f"{row} (")) and believed(label)
    }


def worst(lost: list[tuple[Loss, str]]) -> Iterator[tuple[Loss, str]]:
    """The worst row of each reason."""
    seen: set[str] = set()
    for loss, why in lost:
        if why not in seen and not why.startswith(NOISE) and believed(loss.row):
            seen.add(why)
            yield loss, why


def lines(made: list[Table], titles: Iterable[str], names: list[str]) -> Iterator[Line]:
    for title in titles:
        for called, cells in chosen(made, title).items():
            # The spread, and what a figure is made of, are on the long page.
            texts = {name: cells[name].text.split()[0] for name in names if name in cells}
            label = f"throughput ↑, {called}" if title == "Throughput" else called
            yield Line(label=label, texts=texts, verdict=cells.get("loft", Cell("-")).verdict)


def of_programs(found: program_costs.Found, names: list[str]) -> Iterator[Line]:
    """The means over the programs, relative to glibc."""
    for measure in program_costs.MEASURES:
        if (called := CHOSEN[PROGRAMS].get(measure.title)) is None:
            continue
        told = program_costs.table(measure, found, [program_costs.BASE, *names])
        if (cells := told.lines().get(program_costs.MEAN)) is None:
            continue
        texts = {name: cells[name].text for name in names if cells[name].text != "-"}
        texts[program_costs.BASE] = "1.000"
        yield Line(label=called, texts=texts, verdict=cells["loft / best"].verdict)


def record_of(data: Results, costs: program_costs.Read, why: Path) -> Record:
    made = tables(data)
    names = ["loft", *data.peers, "glibc"]
    titles = [title for title in CHOSEN if title not in (BESIDE, PROGRAMS)]
    lost = list(worst(explained(data, read_reasons(why))))[:MOST_LOSSES]
    return Record(
        commit=costs.commit,
        head=data.header_lines()[:4],
        columns=names,
        peers=data.peers,
        rows=[*of_programs(costs.found, names[:-1]), *lines(made, titles, names)],
        beside=list(lines(made, [BESIDE], names)),
        losses=[Lost(row=it.row, table=it.table, gain=it.gain, why=reason) for it, reason in lost],
    )


def refuse(reason: str) -> NoReturn:
    print(f"results: {reason}", file=sys.stderr)
    raise typer.Exit(2)


def main(
    source: Annotated[Path, typer.Option(help="what bench.py wrote")] = ROOT / "build/bench.json",
    programs: Annotated[Path, typer.Option(help="what program_costs.py wrote")] = ROOT
    / "build/costs.json",
    out: Annotated[
        Path, typer.Option(help="the long page; its pictures are put into images/ beside it")
    ] = ROOT / "build/results/results.md",
    root: Annotated[Path, typer.Option(help="of docs/ and README.md")] = ROOT,
    pages: Annotated[bool, typer.Option("--pages", help="only these, from their record")] = False,
    long: Annotated[bool, typer.Option("--long", help="only the long page")] = False,
) -> None:
    """Writes the pages and their pictures from build/bench.json and build/costs.json."""
    ledger = Ledger.parse(WRITTEN.read_text(encoding="utf-8"))
    if pages:
        ledger_docs.write(ledger, root)
        return
    for path in (source,) if long else (source, programs):
        if not path.exists():
            refuse(f"no {path}; run make results first")
    data = Results.read(source)
    why = ROOT / "bench" / "losses.toml"
    images = out.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    draw_all(data, images)
    out.write_text(page(data, read_reasons(why), images))
    if long:
        return
    costs = program_costs.read(programs)
    commits = {row.commit for row in data.rows} | {costs.commit}
    if len(commits) > 1:
        refuse(f"{source} and {programs} are of {', '.join(sorted(commits))}, not of one commit")
    record = record_of(data, costs, why)
    docs = root / "docs"
    (docs / "results.json").write_text(
        json.dumps(record.model_dump(exclude_defaults=True), indent=1, ensure_ascii=False) + "\n"
    )
    chart = draw_ratios(data, chosen(tables(data), "Throughput"), record.columns)
    (docs / "images" / "results.svg").write_text(chart)
    ledger_docs.write(ledger, root)
    if tagged := record_of_tag():
        tag, old = tagged
        print(f"since {tag}:", *changes(old, record) or ["nothing"], sep="\n  ")
    else:
        print("no tag has results to compare with")


if __name__ == "__main__":
    typer.run(main)
