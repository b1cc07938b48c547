"""Resident memory over time, one column for each reading, its parts on top of each other."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from loft_malloc.live.parts import PARTS
from loft_malloc.profile.top import amount

# A character's height has eight steps.
STEPS = 8
BLOCKS = " ▁▂▃▄▅▆▇█"
LABEL = 9


def strip(columns: Sequence[list[int]], width: int, height: int, coloured: bool) -> list[Text]:
    """The newest is at the right; what is narrower than the time that was seen is its last part."""
    room = max(width - LABEL - 1, 1)
    shown = list(columns)[-room:]
    top = _round_up(max((sum(values) for values in shown), default=0))
    drawn = [_column(values, top, height, coloured) for values in shown]
    lines = []
    for row in range(height - 1, -1, -1):
        value = {height - 1: top, 0: 0}.get(row)
        if value is None and height >= 5 and row == (height - 1) // 2:
            value = top * (row + 1) // height
        label = "" if value is None else amount(value, "bytes")
        line = Text(f"{label:>{LABEL}}" + ("┤" if label else "│"), style="dim", no_wrap=True)
        line.append(" " * (room - len(shown)))
        for column in drawn:
            line.append_text(column[row])
        lines.append(line)
    return lines


def _round_up(value: int) -> int:
    """The top of the scale, which is to stay while memory grows a little."""
    scale = 1024
    while True:
        for quarters in (4, 5, 6, 7):
            if scale * quarters // 4 >= value:
                return scale * quarters // 4
        scale *= 2


def _column(values: list[int], top: int, height: int, coloured: bool) -> list[Text]:
    """From the lowest row to the highest."""
    ends, total = [], 0
    for value in values:
        total += value
        ends.append(round(total * height * STEPS / top))
    if total and not ends[-1]:
        ends[-1] = 1
    cell = _coloured if coloured else _marked
    return [cell(ends, row * STEPS) for row in range(height)]


def _at(ends: list[int], step: int) -> int | None:
    """The part that covers this step."""
    return next((index for index, end in enumerate(ends) if end > step), None)


def _coloured(ends: list[int], low: int) -> Text:
    """Two parts at most: the lowest in the cell, and the one that has most of the rest."""
    first = _at(ends, low)
    if first is None:
        return Text(" ")
    filled = min(ends[first] - low, STEPS)
    if filled == STEPS:
        return Text(BLOCKS[STEPS], style=PARTS[first].colour)
    above = [_at(ends, step) for step in range(low + filled, low + STEPS)]
    most = max(above, key=above.count)
    back = "" if most is None else f" on {PARTS[most].colour}"
    return Text(BLOCKS[filled], style=PARTS[first].colour + back)


def _marked(ends: list[int], low: int) -> Text:
    part = _at(ends, low + STEPS // 2)
    return Text(" " if part is None else PARTS[part].mark)
