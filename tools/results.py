#!/usr/bin/env python3
"""Writes what build/bench.json says, as tools/bench.py left it.

All of it goes to build/results, with its pictures. A page of one screen with one chart goes to
docs: the rows that bench/short.toml chooses. A row whose CPUs were shared with others is never
chosen.
"""

import os
import sys
import tomllib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jinja2
import typer
from bench_pictures import PICTURES, draw_all, draw_ratios
from bench_results import Results, believed
from bench_rows import variant_path
from bench_tables import Loss, losses, tables

from loft_malloc.tables import Cell, Table, as_markdown

ROOT = Path(__file__).resolve().parent.parent
# Tables of results, of rows, of what these are called on the short page.
CHOSEN = tomllib.loads((ROOT / "bench" / "short.toml").read_text(encoding="utf-8"))
# This one stands by itself there.
BESIDE = "Faults and waits"
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


def read_note(path: Path, data: Results) -> str:
    """What a reader has to know of the runs, if some are of the version that it is about."""
    note = tomllib.loads(path.read_text()).get("note") if path.exists() else None
    return str(note["text"]) if note and note["loft"] in {row.commit for row in data.rows} else ""


def explained(data: Results, reasons: list[Reason]) -> list[tuple[Loss, str]]:
    return [
        (loss, " ".join(why.reason for why in reasons if why.explains(loss)))
        for loss in losses(data)
    ]


def filled(template: str, **words: Any) -> str:
    text = (ROOT / "tools" / template).read_text(encoding="utf-8")
    made = jinja2.Template(text, trim_blocks=True, keep_trailing_newline=True)
    return str(made.render(as_markdown=as_markdown, **words))


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


def short_table(made: list[Table], titles: Iterable[str], names: list[str]) -> Table:
    table = Table(["", *names], judged="loft")
    for title in titles:
        for called, cells in chosen(made, title).items():
            # The spread, and what a figure is made of, are on the long page.
            short = [cells.get(name, Cell("-")) for name in names]
            label = f"throughput ↑, {called}" if title == "Throughput" else called
            table.rows.append((label, [Cell(c.text.split()[0], c.verdict) for c in short]))
    return table


def write_short(data: Results, why: Path, docs: Path) -> None:
    made = tables(data)
    names = ["loft", *data.peers, "glibc"]
    text = filled(
        "short.md.jinja",
        data=data,
        columns=names,
        chosen=short_table(made, (title for title in CHOSEN if title != BESIDE), names),
        beside=short_table(made, [BESIDE], names),
        note=read_note(why, data),
        losses=list(worst(explained(data, read_reasons(why))))[:MOST_LOSSES],
    )
    (docs / "images").mkdir(parents=True, exist_ok=True)
    (docs / "results.md").write_text(text)
    chart = draw_ratios(data, chosen(made, "Throughput"), names)
    (docs / "images" / "results.svg").write_text(chart)


def main(
    source: Annotated[Path, typer.Option(help="what bench.py wrote")] = ROOT / "build/bench.json",
    out: Annotated[
        Path, typer.Option(help="the long page; its pictures are put into images/ beside it")
    ] = ROOT / "build/results/results.md",
    docs: Annotated[
        Path, typer.Option(help="the folder of the short page, and of images/ with its chart")
    ] = ROOT / "docs",
) -> None:
    """Writes the pages and their pictures from build/bench.json."""
    if not source.exists():
        print(f"results: no {source}; run make bench first", file=sys.stderr)
        raise typer.Exit(2)
    data = Results.read(source)
    why = ROOT / "bench" / "losses.toml"
    images = out.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    draw_all(data, images)
    out.write_text(page(data, read_reasons(why), images))
    write_short(data, why, docs)


if __name__ == "__main__":
    typer.run(main)
