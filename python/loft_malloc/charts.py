"""The charts of a comparison, each an SVG: bars for each metric, and memory over time."""

from __future__ import annotations

import io
import math
import re
import textwrap
from dataclasses import dataclass

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.figure import Figure

from loft_malloc.comparison import Comparison
from loft_malloc.metrics import Row

PANEL_IN = 3.6
# Memory over time, for the whole width of a page and for a narrow screen.
WIDE_IN = 11.0
NARROW_IN = 4.0
# More points than there are pixels would only make the file larger.
MOST_POINTS = 600
MOST_POINTS_NARROW = 200
# A name of an allocator and its settings goes on in the next line.
NAME_WIDTH = 20
# Text stays text: small, and set in a page's own font. The same figures draw the same file.
matplotlib.rcParams.update(
    {"svg.fonttype": "none", "svg.hashsalt": "loft", "font.sans-serif": ["DejaVu Sans"]}
)
STYLE = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
PALETTE = list(matplotlib.colormaps["tab10"].colors)  # type: ignore[attr-defined]
Colours = dict[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Charts:
    bars: list[str]
    memory: str
    narrow_memory: str


def draw(comparison: Comparison, rows: list[Row]) -> Charts:
    names = [each.allocator.name for each in comparison.usable]
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}
    # A bar says nothing where all are zero.
    shown = [row for row in rows if any(s.median > 0 for s in row.summaries.values())]
    with matplotlib.rc_context(STYLE):
        return Charts(
            [_bars(row, colours, f"{row.metric.key}-") for row in shown],
            _memory(comparison, colours, narrow=False),
            _memory(comparison, colours, narrow=True),
        )


def _bars(row: Row, colours: Colours, prefix: str) -> str:
    labels = [textwrap.fill(name, NAME_WIDTH) for name in row.summaries]
    lines = sum(label.count("\n") + 1 for label in labels)
    figure, axes = pyplot.subplots(figsize=(PANEL_IN, 0.24 * lines + 0.5), layout="constrained")
    medians = [summary.median for summary in row.summaries.values()]
    errors = [summary.median * (summary.spread or 0) for summary in row.summaries.values()]
    bars = axes.barh(
        range(len(labels)),
        medians,
        xerr=errors,
        color=[colours[name] for name in row.summaries],
        error_kw={"linewidth": 0.8},
    )
    axes.set_yticks(range(len(labels)), labels)
    axes.bar_label(bars, [row.metric.form(value) for value in medians], padding=3)
    axes.invert_yaxis()
    axes.set_title(row.metric.title, loc="left", fontweight="bold")
    # Room for the number, which stands behind the mark of the spread.
    axes.set_xlim(0, max(map(sum, zip(medians, errors))) * 1.35)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return as_svg(figure, prefix)


def _memory(comparison: Comparison, colours: Colours, *, narrow: bool) -> str:
    width, height = (NARROW_IN, 3.2) if narrow else (WIDE_IN, 3.4)
    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    for each in comparison.usable:
        if each.memory is None:
            continue
        samples = _thinned(each.memory.samples, MOST_POINTS_NARROW if narrow else MOST_POINTS)
        name = each.allocator.name
        axes.plot(
            [at for at, _ in samples],
            [size / 1024 for _, size in samples],
            drawstyle="steps-post",
            linewidth=1.2,
            color=colours[name],
            label=name if narrow else textwrap.fill(name, NAME_WIDTH),
        )
    # A narrow screen would cut more words.
    title = "memory of all processes" if narrow else "resident memory of all processes over time"
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("seconds")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("MiB")
    axes.grid(axis="y", linewidth=0.3)
    if narrow:
        figure.legend(loc="outside lower left", frameon=False)
    else:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return as_svg(figure, "narrow-" if narrow else "wide-")


def _thinned(samples: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """The largest of each group of neighbours, so that no peak is lost."""
    size = math.ceil(len(samples) / most) or 1
    groups = [samples[i : i + size] for i in range(0, len(samples), size)]
    return [max(group, key=lambda sample: sample[1]) for group in groups]


def as_svg(figure: Figure, prefix: str = "") -> str:
    """The drawing as an element of a page: no XML prologue, no metadata and no comments.

    The prefix tells its names from those of other drawings on the page.
    """
    text = io.StringIO()
    # No creation date inside: the same figures draw the same file.
    figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    svg = text.getvalue()
    bare = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    bare = re.sub(r'( id="|url\(#|href="#)', rf"\1{prefix}", bare)
    # A tag a line, whatever the length of its attributes.
    lines = re.sub(r">\s+<", ">\n<", bare[bare.index("<svg") :].strip())
    return re.sub(r"\s*\n\s*(?!<)", " ", lines) + "\n"
