#!/usr/bin/env python3
"""Draws docs/images/results.svg from build/bench.json: a line a workload, a mark an allocator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import matplotlib
import typer
from bench_report import METRICS, Json, metric_table

matplotlib.use("svg")
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parent.parent
COLOURS = {
    "loft": "#c8102e",
    "snmalloc": "#1f77b4",
    "mimalloc3": "#2ca02c",
    "mimalloc2": "#98df8a",
    "jemalloc": "#9467bd",
    "tcmalloc": "#ff7f0e",
    "tbbmalloc": "#8c564b",
    "glibc": "#7f7f7f",
}


def ratio_in(text: str) -> float | None:
    try:
        return float(text.split()[0])
    except ValueError:
        return None


def draw(data: Json, out: Path) -> None:
    table = metric_table(data, METRICS[0])
    if table is None:
        raise ValueError("no row of the first metric")
    names = table.columns[1:-1]
    rows = [(label, cells) for label, cells in table.rows if not label.startswith("geometric")]
    figure, axes = pyplot.subplots(figsize=(9, 0.27 * len(rows) + 1.4))
    for name in [n for n in names if n in COLOURS]:
        column = names.index(name)
        points = [
            (ratio, position)
            for position, (_, cells) in enumerate(rows)
            if (ratio := ratio_in(cells[column].text)) is not None
        ]
        axes.scatter(
            [x for x, _ in points],
            [y for _, y in points],
            s=70 if name == "loft" else 22,
            color=COLOURS[name],
            label=name,
            zorder=3 if name == "loft" else 2,
        )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    ticks = [0.1, 0.2, 0.5, 1, 2, 3]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=7)
    axes.invert_yaxis()
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel(f"{table.title}: ratio to the best peer of the row (right is better)")
    header = data["header"]
    axes.set_title(f"{header['cpu']}, {header['cores']} cores, {header['date']}", fontsize=8)
    axes.legend(fontsize=7, loc="lower left")
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    # No creation date inside: the same figures draw the same file.
    figure.savefig(out, metadata={"Date": None})


def main(
    source: Annotated[Path, typer.Option(help="what bench.py wrote")] = ROOT / "build/bench.json",
    out: Annotated[Path, typer.Option(help="the drawing")] = ROOT / "docs/images/results.svg",
) -> None:
    """Draws docs/images/results.svg from build/bench.json."""
    if not source.exists():
        print(f"picture: no {source}; run make bench first", file=sys.stderr)
        raise typer.Exit(2)
    draw(json.loads(source.read_text()), out)


if __name__ == "__main__":
    typer.run(main)
