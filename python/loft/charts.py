"""The charts of a comparison, as one SVG: a panel of bars for each metric, and memory over time."""

import io
import math
import re

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loft.comparison import Comparison
from loft.metrics import Row

COLUMNS = 3
WIDTH_IN = 11.0
# More points than there are pixels would only make the file larger.
MOST_POINTS = 600
# Text stays text: small, and set in a page's own font. The same figures draw the same file.
matplotlib.rcParams.update(
    {"svg.fonttype": "none", "svg.hashsalt": "loft", "font.sans-serif": ["DejaVu Sans"]}
)
PALETTE = list(matplotlib.colormaps["tab10"].colors)  # type: ignore[attr-defined]


def draw(comparison: Comparison, rows: list[Row]) -> str:
    names = [each.allocator.name for each in comparison.usable]
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}
    # A bar says nothing where all are zero.
    shown = [row for row in rows if any(s.median > 0 for s in row.summaries.values())]
    bar_rows = math.ceil(len(shown) / COLUMNS)
    bar_height = 0.24 * len(names) + 0.7
    style = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(style):
        figure = pyplot.figure(
            figsize=(WIDTH_IN, bar_rows * bar_height + 3.6), layout="constrained"
        )
        grid = figure.add_gridspec(
            bar_rows + 1, COLUMNS, height_ratios=[*[bar_height] * bar_rows, 3.4]
        )
        for i, row in enumerate(shown):
            _bars(figure.add_subplot(grid[i // COLUMNS, i % COLUMNS]), row, colours)
        _memory(figure.add_subplot(grid[bar_rows, :]), comparison, colours)
        return as_svg(figure)


Colours = dict[str, tuple[float, float, float]]


def _bars(axes: Axes, row: Row, colours: Colours) -> None:
    names = list(row.summaries)
    medians = [row.summaries[name].median for name in names]
    errors = [s.median * (s.spread or 0) for s in row.summaries.values()]
    bars = axes.barh(
        names,
        medians,
        xerr=errors,
        color=[colours[name] for name in names],
        error_kw={"linewidth": 0.8},
    )
    axes.bar_label(bars, [row.metric.form(value) for value in medians], padding=3)
    axes.invert_yaxis()
    axes.set_title(row.metric.title, loc="left", fontweight="bold")
    axes.set_xlim(0, max(medians) * 1.35)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _memory(axes: Axes, comparison: Comparison, colours: Colours) -> None:
    for each in comparison.usable:
        if each.memory is None:
            continue
        samples = _thinned(each.memory.samples)
        name = each.allocator.name
        axes.plot(
            [at for at, _ in samples],
            [size / 1024 for _, size in samples],
            drawstyle="steps-post",
            linewidth=1.2,
            color=colours[name],
            label=name,
        )
    axes.set_title("resident memory of all processes over time", loc="left", fontweight="bold")
    axes.set_xlabel("seconds")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("MiB")
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _thinned(samples: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The largest of each group of neighbours, so that no peak is lost."""
    size = math.ceil(len(samples) / MOST_POINTS) or 1
    groups = [samples[i : i + size] for i in range(0, len(samples), size)]
    return [max(group, key=lambda sample: sample[1]) for group in groups]


def as_svg(figure: Figure) -> str:
    """The drawing as an element of a page: no XML prologue, no metadata and no comments."""
    text = io.StringIO()
    # No creation date inside: the same figures draw the same file.
    figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    svg = text.getvalue()
    bare = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    # A tag a line, whatever the length of its attributes.
    lines = re.sub(r">\s+<", ">\n<", bare[bare.index("<svg") :].strip())
    return re.sub(r"\s*\n\s*(?!<)", " ", lines) + "\n"
