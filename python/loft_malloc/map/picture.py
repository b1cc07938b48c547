"""A map of a heap as a picture: how full it is by address, and each class with its waste."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import numpy
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from loft_malloc.map.model import GRANULE, Kind, Map, Piece
from loft_malloc.printable import printable

SIZE_IN = (10.0, 9.0)
DPI = 150
STYLE = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
# A granule is one cell; of more granules than these, a cell stands for several.
MOST_CELLS = 1 << 18
# Where nothing lies for longer than so many granules, as many are drawn.
MOST_GAP = 64
USED, FREE = "#4c9f70", "#e0a83e"
MIB = 1 << 20


def write(path: Path, found: Map, title: str) -> None:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=SIZE_IN, layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[3, 2])
        figure.suptitle(printable(title), parse_math=False)
        _cells(figure, above, found)
        _classes(below, found)
        figure.savefig(path, dpi=DPI, format="png")


def occupancy(found: Map) -> tuple[numpy.ndarray, int]:
    """How full each cell is, from 0 to 1, in the order of addresses; and the bytes of a cell.

    Free spans are -1, what is not resident is -2, and what is no part of the heap is no number.
    """
    spans: list[tuple[int, int, float]] = []
    place = end = 0
    for piece in found.pieces:
        first, last = piece.at // GRANULE, -(-(piece.at + piece.bytes) // GRANULE)
        place += min(max(first - end, 0), MOST_GAP) if spans else 0
        spans.append((place, place + last - first, _fullness(piece)))
        for start, length in piece.absent:
            begin = place + start // GRANULE
            spans.append((begin, begin + max(length // GRANULE, 1), -2.0))
        place += last - first
        end = last
    per = 1 << max(0, math.ceil(math.log2(max(place, 1) / MOST_CELLS)))
    values = numpy.full(-(-place // per), numpy.nan)
    for start, stop, value in spans:
        values[start // per : max(-(-stop // per), start // per + 1)] = value
    return values, per * GRANULE


def _fullness(piece: Piece) -> float:
    if piece.kind is Kind.FREE:
        return -1.0
    if piece.kind is Kind.HEAP:
        return 1.0
    return min(1.0, piece.used_bytes / max(piece.resident, 1))


def _cells(figure: Figure, axes: Axes, found: Map) -> None:
    values, each = occupancy(found)
    width = max(16, math.ceil(math.sqrt(2.2 * len(values))))
    rows = -(-len(values) // width)
    cells = numpy.full(rows * width, numpy.nan)
    cells[: len(values)] = values
    grid = cells.reshape(rows, width)
    free = numpy.ma.masked_where(~(grid < 0), grid)
    greys = ListedColormap(["#e3edf9", "#cccccc"])
    axes.imshow(free, cmap=greys, vmin=-2, vmax=-1, interpolation="nearest", aspect="auto")
    full = numpy.ma.masked_where(~(grid >= 0), grid)
    image = axes.imshow(
        full, cmap="viridis_r", vmin=0, vmax=1, interpolation="nearest", aspect="auto"
    )
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("in use")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(
        f"by address, a cell is {each >> 10} KiB; grey: free spans, pale blue: not resident, "
        "white: not the heap's",
        loc="left",
    )


def _classes(axes: Axes, found: Map) -> None:
    classes = found.classes()
    places = range(len(classes))
    used = [(each.resident - each.hole_bytes) / MIB for each in classes]
    axes.bar(places, used, color=USED, label="in use")
    free = [each.hole_bytes / MIB for each in classes]
    axes.bar(places, free, bottom=used, color=FREE, label="free inside")
    axes.set_xticks(list(places), [str(each.object_bytes) for each in classes], rotation=90)
    axes.set_ylabel("resident MiB in slabs")
    axes.set_xlabel("size class, bytes")
    if classes:
        axes.legend(frameon=False)
