"""The pictures of a set of runs: what each shows, and drawing them."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_report import METRICS, metric_table
from bench_results import Kind, Results, Run
from bench_tables import QUANTILES, quantiles, speed
from matplotlib import pyplot

from loft_malloc.charts import as_svg
from loft_malloc.tables import Cell

COLOURS = {
    "loft": "#c8102e",
    "loft cpu": "#e377c2",
    "loft shared": "#17becf",
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
    "fuller": "#8c564b",
}
FIELDS_IN_A_ROW = 3


@dataclass
class Field:
    """One set of axes with a line for each allocator (or each of something else)."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    # Names for the places on the x axis, if they are not numbers.
    ticks: tuple[str, ...] = ()


def fields_of(points: Iterable[tuple[str, str, float, float]], **axes: Any) -> list[Field]:
    """From the title of a field, the name of its line and a point on it, for each point."""
    fields: dict[str, Field] = {}
    for title, name, x, y in points:
        shown = fields.setdefault(title, Field(title, **axes))
        shown.lines.setdefault(name, []).append((x, y))
    return list(fields.values())


def lines_over(data: Results, pattern: str, x: str, *, log: bool = False) -> list[Field]:
    """Rows whose names match, by the first group, over the number in the second."""
    points = [
        (found[1], name, float(found[2]), figure / 1e6)
        for row in data.rows
        if (found := re.fullmatch(pattern, row.name)) and row.kind is Kind.TIMED
        for name, figure in row.medians(lambda run: run.ops_per_second).items()
    ]
    fields = fields_of(points, x=x, y="million operations/s", log_x=log, log_y=log)
    return [each for each in fields if max(map(len, each.lines.values())) > 1]


def scaling(data: Results) -> list[Field]:
    return lines_over(data, r"([a-z-]+), (\d+) threads?", "threads")


def sizes(data: Results) -> list[Field]:
    return lines_over(data, r"(malloc-test) of (\d+) B", "bytes of an object", log=True)


def first_runs(data: Results, row: str) -> Iterable[tuple[str, Run]]:
    entry = data.row(row)
    return entry.first_runs().items() if entry else ()


def start(data: Results) -> list[Field]:
    points = []
    for name, run in first_runs(data, "malloc-test, from the start"):
        marks = [0.0, *run.marks]
        # Every second one: single steps are jagged.
        each = 2 * run.operations / len(run.marks) / 1e6
        pairs = zip(marks[::2], marks[2::2], strict=False)
        points += [("malloc-test 1:1", name, b, each / (b - a)) for a, b in pairs if b > a]
    return fields_of(points, x="seconds since the start", y="million objects/s")


def idle(data: Results) -> list[Field]:
    points = [
        ("", name, sample.at - run.at("freed").at, (sample.rss_kib - sample.lazy_free_kib) / 1024)
        for name, run in first_runs(data, "idle return")
        for sample in run.memory
        if sample.label != "start"
    ]
    return fields_of(points, x="seconds since all was freed", y="MiB resident, LazyFree left out")


def latency(data: Results) -> list[Field]:
    row = data.row("latency")
    points = [
        (call, name, float(i), figure)
        for call in ("malloc", "free")
        for i, figures in enumerate(quantiles(row, call).values() if row else [])
        for name, figure in figures.items()
    ]
    return fields_of(points, x="", y="ns", log_y=True, ticks=QUANTILES)


def bytes_of(text: str) -> float:
    return float(text.rstrip("KMG")) * 1024.0 ** " KMG".index(text[-1])


def sweeps(data: Results) -> list[Field]:
    points = [
        (row.group, "loft", bytes_of(setting[1]), speed(row) / 1e6)
        for row in data.rows
        if (setting := re.match(r"LOFT_\w+=(\d+[KMG])", row.command))
        and row.kind is Kind.SWEEP
        and row.runs.get("loft")
    ]
    return [*fields_of(points, x="bytes", y="million objects/s", log_x=True), *batch_cache(data)]


def batch_cache(data: Results) -> list[Field]:
    """Objects a message, which no other program disturbs, over the number of open batches."""
    points = []
    for row in data.rows:
        counted = row.statistics
        variant = re.fullmatch(r"(\d+)x(\d+)(?:-(.*))?", row.variant)
        if variant is None or not counted.get("batch_messages"):
            continue
        ways, sets = int(variant[1]), int(variant[2])
        name = variant[3] or ("1 way" if ways == 1 else f"{ways} ways")
        objects = counted["batch_objects"] / counted["batch_messages"]
        points.append((row.group, name, float(ways * sets), objects))
    return fields_of(points, x="open batches", y="objects a message", log_x=True)


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
        if fields is None:
            text = draw_overview(data, owners=name == "owners.svg")
        else:
            text = draw_fields(data, fields(data))
        # What an earlier set of runs had shown must not stand beside this one.
        (out / name).unlink(missing_ok=True)
        if text:
            (out / name).write_text(text, encoding="utf-8")


def measured(data: Results) -> str:
    header = data.header
    return f"{header.cpu}, {header.cores} CPUs{header.virtual}, {header.date}"


def draw_overview(data: Results, *, owners: bool) -> str:
    """The ratio of each row, of all allocators, or of loft alone by its owners."""
    table = metric_table(data, METRICS[0])
    lines = table.lines() if table else {}
    rows = {label: line for label, line in lines.items() if not label.startswith("geometric")}
    if owners:
        names = [name for name in data.allocators if name.startswith("loft")]
        return draw_ratios(data, rows, names) if len(names) > 1 else ""
    return draw_ratios(data, rows, [name for name in data.allocators if " " not in name])


def draw_ratios(data: Results, rows: Mapping[str, Mapping[str, Cell]], names: list[str]) -> str:
    """A dot for each of these allocators in each row, where it stands to the best peer."""
    if not rows:
        return ""
    figure, axes = pyplot.subplots(figsize=(9, 0.2 * len(rows) + 1.4), layout="constrained")
    for name in filter(COLOURS.__contains__, names):
        texts = [cells[name].text.split()[0] if name in cells else "-" for cells in rows.values()]
        found = [(float(text), y) for y, text in enumerate(texts) if text[0].isdigit()]
        axes.scatter(
            [x for x, _ in found],
            [y for _, y in found],
            s=60 if name == "loft" else 18,
            color=COLOURS[name],
            label=name,
            gid=name,
            zorder=3 if name == "loft" else 2,
            clip_on=False,
        )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    ticks = [0.1, 0.2, 0.5, 1, 2, 5]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel("throughput: ratio to the best peer of the row (right is better)", fontsize=8)
    axes.tick_params(left=False, labelsize=7)
    axes.set_title(measured(data), fontsize=8)
    figure.legend(fontsize=7, loc="outside upper center", ncols=len(names))
    return as_svg(figure)


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


def draw_fields(data: Results, fields: list[Field]) -> str:
    if not fields:
        return ""
    wide = min(len(fields), FIELDS_IN_A_ROW)
    high = math.ceil(len(fields) / wide)
    size = (9, 3.2 * high) if wide > 1 else (7, 3.6)
    figure, grid = pyplot.subplots(high, wide, figsize=size, squeeze=False, layout="constrained")
    places = list(grid.flat)
    for axes, shown in zip(places, fields, strict=False):
        draw_field(axes, shown)
    for axes in places[len(fields) :]:
        axes.set_axis_off()
    # One for all fields: a name has one colour.
    drawn = [line for axes in places for line in axes.get_lines()]
    named = {line.get_label(): line for line in drawn}
    figure.legend(
        named.values(), named.keys(), fontsize=7, loc="outside lower center", ncols=len(named)
    )
    figure.suptitle(measured(data), fontsize=8)
    return as_svg(figure)
