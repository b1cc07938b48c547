#!/usr/bin/env python3
"""Draws the pictures of build/results/results.md from build/bench.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import typer
from bench_pictures import (
    PICTURES,
    Field,
    idle,
    latency,
    overview,
    scaling,
    sizes,
    start,
    sweeps,
)
from bench_report import Json
from matplotlib import pyplot

matplotlib.use("svg")
# Letters as letters: a fifth of the size, and the text can be searched.
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "loft"

ROOT = Path(__file__).resolve().parent.parent
COLOURS = {
    "loft": "#c8102e",
    "loft core": "#e377c2",
    "loft keeper": "#bcbd22",
    "snmalloc": "#1f77b4",
    "mimalloc3": "#2ca02c",
    "mimalloc2": "#98df8a",
    "jemalloc": "#9467bd",
    "tcmalloc": "#ff7f0e",
    "tbbmalloc": "#8c564b",
    "glibc": "#7f7f7f",
    # Batch caches; the last ones are of as many batches as loft's own.
    "1 way": "#1f77b4",
    "2 ways": "#c8102e",
    "emptier": "#2ca02c",
    "in-turn": "#9467bd",
    "newest": "#8c564b",
}
FIELDS_IN_A_ROW = 3


def measured(data: Json) -> str:
    header = data["header"]
    return f"{header['cpu']}, {header['cores']} CPUs, {header['date']}"


def save(figure: Any, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    # No creation date inside: the same figures draw the same file.
    figure.savefig(out, metadata={"Date": None})
    pyplot.close(figure)


def draw_overview(data: Json, out: Path, *, owners: bool) -> bool:
    """All allocators, or loft alone by its owners."""
    title, rows, points = overview(data)
    shown = [name for name in points if (name.startswith("loft") if owners else " " not in name)]
    if not rows or (owners and len(shown) == 1):
        return False
    figure, axes = pyplot.subplots(figsize=(9, 0.2 * len(rows) + 1.4), layout="constrained")
    for name in shown:
        found = points[name]
        if name not in COLOURS:
            continue
        axes.scatter(
            [x for x, _ in found],
            [y for _, y in found],
            s=60 if name == "loft" else 18,
            color=COLOURS[name],
            label=name,
            zorder=3 if name == "loft" else 2,
        )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    ticks = [0.1, 0.2, 0.5, 1, 2, 5]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel(f"{title}: ratio to the best peer of the row (right is better)")
    axes.set_title(measured(data), fontsize=8)
    figure.legend(fontsize=7, loc="outside upper center", ncols=len(shown))
    save(figure, out)
    return True


def draw_field(axes: Any, shown: Field) -> None:
    for name, line in shown.lines.items():
        if name in COLOURS:
            points = sorted(line)
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=COLOURS[name],
                label=name,
                linewidth=2.2 if name == "loft" else 1,
                marker="o" if len(points) < 12 else None,
                markersize=3,
                zorder=3 if name == "loft" else 2,
            )
    if shown.log_x:
        axes.set_xscale("log", base=2)
    if shown.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if shown.ticks:
        axes.set_xticks(range(len(shown.ticks)), shown.ticks)
    axes.set_title(shown.title, fontsize=8)
    axes.set_xlabel(shown.x, fontsize=7)
    axes.set_ylabel(shown.y, fontsize=7)
    axes.tick_params(labelsize=7)
    axes.grid(linewidth=0.3)


def draw_fields(data: Json, fields: list[Field], out: Path) -> bool:
    if not fields:
        return False
    wide = min(len(fields), FIELDS_IN_A_ROW)
    high = (len(fields) + wide - 1) // wide
    size = (9, 3.2 * high) if wide > 1 else (7, 3.6)
    figure, grid = pyplot.subplots(high, wide, figsize=size, squeeze=False, layout="constrained")
    places = list(grid.flat)
    for axes, shown in zip(places, fields, strict=False):
        draw_field(axes, shown)
    for axes in places[len(fields) :]:
        axes.set_axis_off()
    if len({tuple(sorted(shown.lines)) for shown in fields}) == 1:
        handles, names = places[0].get_legend_handles_labels()
        figure.legend(handles, names, fontsize=7, loc="outside lower center", ncols=len(names))
    else:
        for axes in places[: len(fields)]:
            axes.legend(fontsize=6)
    figure.suptitle(measured(data), fontsize=8)
    save(figure, out)
    return True


def main(
    source: Annotated[Path, typer.Option(help="what bench.py wrote")] = ROOT / "build/bench.json",
    out: Annotated[Path, typer.Option(help="the folder")] = ROOT / "build/results/images",
) -> None:
    """Draws the pictures of build/results/results.md from build/bench.json."""
    if not source.exists():
        print(f"picture: no {source}; run make bench first", file=sys.stderr)
        raise typer.Exit(2)
    data: Json = json.loads(source.read_text())
    fields = {
        "scaling.svg": scaling(data),
        "sizes.svg": sizes(data),
        "start.svg": start(data),
        "idle.svg": idle(data),
        "latency.svg": latency(data),
        "sweeps.svg": sweeps(data),
    }
    for name in PICTURES:
        if name in fields:
            drawn = draw_fields(data, fields[name], out / name)
        else:
            drawn = draw_overview(data, out / name, owners=name == "owners.svg")
        # What an earlier set of runs had shown must not stand beside this one.
        if not drawn:
            (out / name).unlink(missing_ok=True)


if __name__ == "__main__":
    typer.run(main)
