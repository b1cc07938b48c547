"""What build/papers.json holds of the papers' figures: its tables, its pictures and the page."""

import json
import re
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from bench_results import DISTURBED_SHARE, Header
from matplotlib import pyplot
from paper_checks import MANY, Shown, Verdict, as_table, verdicts
from paper_figures import ROOT, Catalogue, Figure, Form, Item, Metric, Strict, coverage
from pydantic import Field

from loft_malloc.charts import as_svg
from loft_malloc.noise import spread
from loft_malloc.tables import Table, as_markdown

# What NextGen-Malloc 4.1 takes a call and a miss to cost, in cycles.
CALL_CYCLES, MISS_CYCLES = 4 * 67, 214

# Of a run itself, for the page to say how it ran.
OF_RUNS = ("threads", "cpu_share", "calls")
# Panels in a row of a picture, and the markers of each ten allocators.
ABREAST, MARKERS = 3, ".x^"

Sample = dict[str, float]


class Measured(Strict):
    """One figure's command under one allocator."""

    figure: str
    x: str
    allocator: str
    command: str
    commit: str
    samples: dict[int, Sample] = Field(default={}, description="by round")
    failure: str = ""

    def values(self, metric: str) -> list[float]:
        return [sample[metric] for sample in self.samples.values() if metric in sample]


class Papers(Strict):
    header: Header
    gigahertz: float
    # Those that were there, and those that were not.
    allocators: list[str]
    absent: list[str]
    rows: list[Measured]

    def cell(self, figure: str, allocator: str, x: str) -> Measured | None:
        wanted = (figure, allocator, x)
        return next((r for r in self.rows if (r.figure, r.allocator, r.x) == wanted), None)

    def values(self, figure: str, allocator: str, x: str, metric: str) -> list[float]:
        cell = self.cell(figure, allocator, x)
        return cell.values(metric) if cell else []

    def columns(self, figure: Figure) -> dict[str, str]:
        """The measured ones, and what stands above them."""
        there = {each.x: 0.0 for each in figure.points(True)}
        measured = [row for row in self.rows if row.figure == figure.name and row.x in there]
        for row in measured:
            there[row.x] = max(there[row.x], *row.values("threads"), 0)
        kept = {row.x for row in measured}
        many = {x: f" {MANY}" if count > self.header.cores else "" for x, count in there.items()}
        return {x: x + mark for x, mark in many.items() if x in kept}

    def disturbed(self) -> str:
        """The part of the runs with a processor for each thread in which one of them had less."""
        shares = [
            sample["cpu_share"]
            for row in self.rows
            for sample in row.samples.values()
            if sample.get("threads", 0) in range(1, self.header.cores + 1)
        ]
        return f"{sum(share < DISTURBED_SHARE for share in shares)} of {len(shares)}"


def shown(values: list[float], form: str) -> str:
    if not values:
        return "-"
    noise, middle = spread(values), statistics.median(values)
    text = f"{middle:.0f}" if middle >= 100 else f"{middle:{form}}"
    return text + (f" ±{noise * 100:.0f}%" if noise else "")


def gains(mine: Measured, other: Measured, name: str, metric: Metric) -> list[float]:
    """How often as good the first is, within each round that both have."""
    rounds = mine.samples.keys() & other.samples.keys()
    pairs = [(mine.samples[n].get(name), other.samples[n].get(name)) for n in rounds]
    return [a / b if metric.more_is_better else b / a for a, b in pairs if a and b]


def grids(data: Papers, book: Catalogue, figure: Figure) -> Iterator[Table]:
    """A table for each metric over the columns; of one column, one over the metrics."""

    def text(allocator: str, x: str, name: str) -> str:
        cell = data.cell(figure.name, allocator, x)
        if cell is None:
            return "-"
        return "failed" if cell.failure else shown(cell.values(name), book.metrics[name].form)

    titles = data.columns(figure)
    labels = {name: book.metrics[name].title for name in figure.metrics}
    if len(titles) == 1:
        ((x, title),) = titles.items()
        heads = [(title, labels, [(x, name) for name in labels])]
    else:
        heads = [(label, titles, [(x, name) for x in titles]) for name, label in labels.items()]
    for corner, columns, places in heads:
        table = Table([corner, *columns.values()])
        for allocator in figure.under:
            texts = [text(allocator, *place) for place in places]
            if {*texts} != {"-"}:
                table.add(allocator, *texts)
        yield table


def tables(data: Papers, book: Catalogue, figure: Figure) -> Iterator[Table]:
    yield from grids(data, book, figure)
    titles, name = data.columns(figure), figure.metrics[0]
    table = Table([f"how often as good, by {book.metrics[name].label}", *titles.values()])
    for first, second in figure.against.items():
        pairs = [[data.cell(figure.name, each, x) for x in titles] for each in (first, second)]
        found = [
            gains(a, b, name, book.metrics[name]) if a and b else []
            for a, b in zip(*pairs, strict=True)
        ]
        if any(found):
            table.add(f"{first} / {second}", *(shown(values, ".2f") for values in found))
    yield table


def model(data: Papers) -> Table:
    """NextGen-Malloc 4.1, with the measured round trip in the place of the assumed one."""
    table = Table(
        ["", "a call costs more by", "misses that it has to save", "misses that there are"]
    )
    table.add("the paper", f"{CALL_CYCLES} cycles", f"{CALL_CYCLES / MISS_CYCLES:.2f}", "-")
    there = "-"
    if calls := data.values("nextgen-1-misses", "glibc", "xalan", "calls"):
        one = partial(data.values, "nextgen-1-misses", "loft", "xalan")
        kinds = [
            f"{level}_{kind}" for level in ("last", "second_tlb") for kind in ("loads", "stores")
        ]
        there = f"{1000 * sum(one(kind)[0] for kind in kinds) / calls[0]:.2f}"
    pair = {n: data.values("nextgen-model", n, "hot loop", "nanoseconds") for n in data.allocators}
    for name in ("nextgen", "nextgen-yield", "nextgen-alone", "nextgen-alone-yield"):
        if pair.get(name) and pair.get("loft"):
            more = (statistics.median(pair[name]) - statistics.median(pair["loft"])) / 2
            table.add(name, f"{more:.0f} ns", f"{more * data.gigahertz / MISS_CYCLES:.2f}", there)
    return table


def draw(data: Papers, book: Catalogue, figure: Figure) -> str:
    """A panel for each metric, a line with its spread for each allocator."""
    titles, count = data.columns(figure), len(figure.metrics)
    numbers = [int(x.translate({75: "000", 77: "000000"})) for x in titles if x[:1].isdigit()]
    scaled = len(numbers) == len(titles) > 1
    places = numbers if scaled else list(range(len(titles)))
    colours: Any = matplotlib.colormaps["tab10"]
    across, down = min(count, ABREAST), -(-count // ABREAST)
    size = (max(6.5, 4.2 * across), 3.8 * down)
    canvas, grid = pyplot.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    for empty in grid.flat[count:]:
        empty.remove()
    for axes, name in zip(grid.flat, figure.metrics, strict=False):
        for number, allocator in enumerate(figure.under):
            lists = [data.values(figure.name, allocator, x, name) for x in titles]
            there = [(x, v) for x, v in zip(places, lists, strict=True) if v]
            middles = [statistics.median(v) for _, v in there]
            axes.errorbar(
                [x for x, _ in there],
                middles,
                [m * (spread(v) or 0) for m, (_, v) in zip(middles, there, strict=True)],
                color="black" if allocator == "loft" else colours(number % 10),
                linestyle="-" if scaled else "",
                linewidth=2.2 if allocator == "loft" else 1,
                marker=MARKERS[number // 10],
                label=allocator if there else None,
            )
        if scaled:
            axes.set_xscale("symlog", base=2, linthresh=1)
        axes.set_xticks(places, list(titles), fontsize=7)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{book.metrics[name].label}\nover {figure.x or 'what runs'}", fontsize=7)
    lines, labels = grid.flat[0].get_legend_handles_labels()
    canvas.legend(lines, labels, fontsize=7, loc="outside right upper")
    canvas.suptitle(f"{figure.paper}: {figure.title}", fontsize=8)
    return as_svg(canvas)


def draw_all(data: Papers, figures: list[Figure], book: Catalogue, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for figure in figures:
        if data.columns(figure):
            path = folder / f"{figure.name}.svg"
            path.write_text(draw(data, book, figure), encoding="utf-8")


def keep(data: Papers, book: Catalogue, path: Path) -> None:
    """What the page needs of it, a row a line, four digits of each number."""
    shown = {figure.name: {*figure.metrics, *OF_RUNS} for figure in book.figures}
    kept = data.model_copy(deep=True)
    kept.rows = [row for row in kept.rows if row.figure in shown]
    for row in kept.rows:
        row.samples = {
            number: {
                name: float(f"{n:.4g}") for name, n in each.items() if name in shown[row.figure]
            }
            for number, each in row.samples.items()
        }
    told = kept.model_dump(mode="json", exclude_defaults=True)
    rows = ",\n".join(json.dumps(row) for row in told.pop("rows"))
    path.write_text(json.dumps(told, indent=1)[:-2] + f',\n "rows": [\n{rows}\n]}}\n')


def show(data: Papers, book: Catalogue) -> Shown:
    header, commits = data.header, ", ".join(sorted({row.commit for row in data.rows}))
    head = [
        f"{header.cpu}, {header.cores} CPUs{header.virtual}, {header.memory_gib:.0f} GiB, "
        f"{header.system}, kernel {header.kernel}",
        f"{header.date}; loft {commits}",
        f"{MANY}: more threads than the {header.cores} CPUs. Such a column says how an allocator "
        "bears preemption. It is no measure of parallel work.",
        f"In {data.disturbed()} runs with a CPU for each thread, other programs took more than a "
        "tenth of one. The counts do not depend on that.",
        f"not built: {', '.join(data.absent) or 'none'}",
    ]
    made = {
        figure.name: [t for t in tables(data, book, figure) if t.rows and t.columns[1:]]
        for figure in book.figures
    }
    if made.get("nextgen-model"):
        made["nextgen-model"].append(model(data))
    failed = [f"{r.figure}, {r.x}, {r.allocator}: {r.failure}" for r in data.rows if r.failure]
    return Shown(head, {name: each for name, each in made.items() if each}, failed)


def page(shown: Shown, book: Catalogue, texts: dict[str, list[Item]], whole: bool = True) -> str:
    """Of all figures and texts, or of the measured figures alone."""
    text = (ROOT / "tools" / "papers.md.jinja").read_text(encoding="utf-8")
    made = jinja2.Template(text, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    figures = [figure for figure in book.figures if whole or figure.name in shown.tables]
    items = [item for some in texts.values() for item in some]
    found = [each[2] for figure in figures for each in verdicts(shown, book, figure)]
    agree, disagree, left = (found.count(verdict) for verdict in Verdict)
    words = {
        "shown": shown,
        "figures": figures,
        "papers": list(dict.fromkeys(figure.paper for figure in figures)),
        "checked": lambda figure: as_table(shown, book, figure),
        "verdicts": f"Of {len(found)} checks {agree} agree, {disagree} disagree, {left} are open.",
        "counts": {form: sum(item.form is form for item in items) for form in Form},
    }
    words |= {"book": book, "texts": texts, "whole": whole, "as_markdown": as_markdown}
    return re.sub(r"\n{3,}", "\n\n", made.render(words)).rstrip() + "\n"


def write_page(data: Papers, book: Catalogue, path: Path) -> None:
    """And its pictures."""
    pictured = [figure for figure in book.figures if figure.picture]
    draw_all(data, pictured, book, path.with_name("pictures"))
    path.write_text(page(show(data, book), book, coverage()), encoding="utf-8")
