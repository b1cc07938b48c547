"""The pictures of a set of runs: what each shows, and drawing them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
from bench_report import METRICS, metric_table
from bench_results import Kind, Results, Run
from bench_tables import QUANTILES, quantiles, speed
from matplotlib import pyplot

from loft.charts import STYLE

COLOURS = {
    "loft": "#c8102e",
    "loft core": "#e377c2",
    "loft room": "#bcbd22",
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

Points = list[tuple[float, float]]


@dataclass
class Field:
    """One set of axes with a line for each allocator (or each of something else)."""

    title: str
    x: str
    y: str
    lines: dict[str, Points] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    # Names for the places on the x axis, if they are not numbers.
    ticks: tuple[str, ...] = ()


def lines_over(data: Results, pattern: str, x: str, *, log: bool = False) -> list[Field]:
    """Rows whose names match, by the first group, over the number in the second."""
    fields: dict[str, Field] = {}
    for row in data.rows:
        found = re.fullmatch(pattern, row.name)
        if found is None or row.kind is not Kind.TIMED:
            continue
        fresh = Field(found[1], x, "million operations/s", log_x=log, log_y=log)
        shown = fields.setdefault(found[1], fresh)
        for name, figure in row.medians(lambda run: run.ops_per_second / 1e6).items():
            shown.lines.setdefault(name, []).append((float(found[2]), figure))
    return [f for f in fields.values() if max(map(len, f.lines.values()), default=0) > 1]


def scaling(data: Results) -> list[Field]:
    return lines_over(data, r"([a-z-]+), (\d+) threads?", "threads")


def sizes(data: Results) -> list[Field]:
    return lines_over(data, r"(malloc-test) of (\d+) B", "bytes of an object", log=True)


def over_time(data: Results, row: str, shown: Field, line: Callable[[Run], Points]) -> list[Field]:
    entry = data.row(row)
    if entry is None:
        return []
    shown.lines = {name: line(run) for name, run in entry.first_runs().items()}
    return [shown]


def start(data: Results) -> list[Field]:
    def line(run: Run) -> Points:
        marks = [0.0, *run.marks]
        # Every second one: single steps are jagged.
        each = 2 * run.operations / len(run.marks) / 1e6
        pairs = zip(marks[::2], marks[2::2], strict=False)
        return [(b, each / (b - a)) for a, b in pairs if b > a]

    shown = Field("malloc-test 1:1", "seconds since the start", "million objects/s")
    return over_time(data, "malloc-test, from the start", shown, line)


def idle(data: Results) -> list[Field]:
    def line(run: Run) -> Points:
        return [
            (sample.at - run.at("freed").at, (sample.rss_kib - sample.lazy_free_kib) / 1024)
            for sample in run.memory
            if sample.label != "start"
        ]

    shown = Field("", "seconds since all was freed", "MiB resident, LazyFree left out")
    return over_time(data, "idle return", shown, line)


def latency(data: Results) -> list[Field]:
    row = data.row("latency")
    if row is None:
        return []
    fields = []
    for call in ("malloc", "free"):
        shown = Field(call, "", "ns", log_y=True, ticks=QUANTILES)
        for i, figures in enumerate(quantiles(row, call).values()):
            for name, figure in figures.items():
                shown.lines.setdefault(name, []).append((float(i), figure))
        fields.append(shown)
    return fields


def bytes_of(text: str) -> float:
    return float(text.rstrip("KMG")) * 1024.0 ** " KMG".index(text[-1])


def sweeps(data: Results) -> list[Field]:
    fields: dict[str, Field] = {}
    for row in data.rows:
        setting = re.match(r"LOFT_\w+=(\d+[KMG])", row.command)
        if row.kind is Kind.SWEEP and setting is not None and row.runs.get("loft"):
            fresh = Field(row.group, "bytes", "million objects/s", log_x=True)
            line = fields.setdefault(row.group, fresh).lines.setdefault("loft", [])
            line.append((bytes_of(setting[1]), speed(row) / 1e6))
    return [*fields.values(), *batch_cache(data)]


def batch_cache(data: Results) -> list[Field]:
    """Objects a message, which no other program disturbs, over the number of open batches."""
    fields: dict[str, Field] = {}
    for row in data.rows:
        counted = row.statistics
        variant = re.fullmatch(r"(\d+)x(\d+)(?:-(.*))?", row.variant)
        if variant is None or not counted.get("batch_messages"):
            continue
        fresh = Field(row.group, "open batches", "objects a message", log_x=True)
        ways, sets = int(variant[1]), int(variant[2])
        name = variant[3] or ("1 way" if ways == 1 else f"{ways} ways")
        line = fields.setdefault(row.group, fresh).lines.setdefault(name, [])
        line.append((ways * sets, counted["batch_objects"] / counted["batch_messages"]))
    return list(fields.values())


# File, what it shows, and its fields; none where all rows are shown, under each allocator or owner.
PICTURES: dict[str, tuple[str, Callable[[Results], list[Field]] | None]] = {
    "results.svg": ("Throughput of loft and its peers, a line a workload", None),
    "owners.svg": ("Throughput of loft by its three owners, against the best peer", None),
    "scaling.svg": (
        "Throughput over threads, a field for each benchmark of the a3alloc report",
        scaling,
    ),
    "sizes.svg": ("Throughput of malloc-test by object size", sizes),
    "start.svg": ("Throughput of malloc-test from its start on", start),
    "idle.svg": ("Resident memory over time: allocate, free nineteen in twenty, do nothing", idle),
    "latency.svg": ("Latency of malloc and free by quantile", latency),
    "sweeps.svg": ("loft under its own options, and with other batch caches", sweeps),
}


def draw_all(data: Results, out: Path) -> None:
    for name, (_, fields) in PICTURES.items():
        with matplotlib.rc_context(STYLE):
            if fields is None:
                figure = draw_overview(data, owners=name == "owners.svg")
            else:
                figure = draw_fields(data, fields(data))
            if figure is None:
                # What an earlier set of runs had shown must not stand beside this one.
                (out / name).unlink(missing_ok=True)
                continue
            out.mkdir(parents=True, exist_ok=True)
            # No creation date inside: the same figures draw the same file.
            figure.savefig(out / name, metadata={"Date": None})
            pyplot.close(figure)


def measured(data: Results) -> str:
    return f"{data.header.cpu}, {data.header.cores} CPUs, {data.header.date}"


def draw_overview(data: Results, *, owners: bool) -> Any | None:
    """The ratio of each row, of all allocators, or of loft alone by its owners."""
    table = metric_table(data, METRICS[0])
    if table is None:
        return None
    rows = [(label, cells) for label, cells in table.rows if not label.startswith("geometric")]
    points = {}
    for column, name in enumerate(data.allocators):
        texts = [cells[column].text.split()[0] for _, cells in rows]
        found = [(float(text), y) for y, text in enumerate(texts) if text[0].isdigit()]
        if found and (name.startswith("loft") if owners else " " not in name):
            points[name] = found
    if owners and len(points) == 1:
        return None
    figure, axes = pyplot.subplots(figsize=(9, 0.2 * len(rows) + 1.4), layout="constrained")
    for name in filter(COLOURS.__contains__, points):
        axes.scatter(
            [x for x, _ in points[name]],
            [y for _, y in points[name]],
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
    axes.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel(f"{table.title}: ratio to the best peer of the row (right is better)")
    axes.set_title(measured(data), fontsize=8)
    figure.legend(fontsize=7, loc="outside upper center", ncols=len(points))
    return figure


def draw_field(axes: Any, shown: Field) -> None:
    for name, line in shown.lines.items():
        if name in COLOURS and line:
            axes.plot(
                *zip(*sorted(line), strict=True),
                color=COLOURS[name],
                label=name,
                linewidth=2.2 if name == "loft" else 1,
                marker="o" if len(line) < 12 else None,
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


def draw_fields(data: Results, fields: list[Field]) -> Any | None:
    if not fields:
        return None
    wide = min(len(fields), FIELDS_IN_A_ROW)
    high = math.ceil(len(fields) / wide)
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
    return figure
