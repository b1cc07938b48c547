"""Lines of text for a place of a certain width: tables that give columns up, and flowing words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

GAP = "  "


@dataclass(frozen=True)
class Column:
    title: str
    # Those of the highest are given up first where there is no room; 0 stays.
    rank: int = 0
    right: bool = True


def grid(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[Text]:
    """The head and the rows. The last column may be cut, the others may go."""
    widths = [
        max([cell_len(column.title), *(cell_len(row[index]) for row in rows)])
        for index, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))

    def taken() -> int:
        return sum(widths[index] for index in kept) + len(GAP) * (len(kept) - 1)

    while taken() > width:
        least = max(kept, key=lambda index: columns[index].rank)
        if columns[least].rank == 0:
            break
        kept.remove(least)
    # A text at the end takes what is left.
    last = kept[-1]
    if not columns[last].right:
        widths[last] = max(4, width - (taken() - widths[last]))

    def line(cells: Sequence[str], style: str) -> Text:
        parts = []
        for index in kept:
            cell, size = cells[index], widths[index]
            pad = " " * max(0, size - cell_len(cell))
            parts.append(pad + cell if columns[index].right else fitted(cell, size))
        return Text(GAP.join(parts).rstrip(), style=style, no_wrap=True)

    return [line([column.title for column in columns], "bold"), *(line(row, "") for row in rows)]


def fitted(text: str, width: int) -> str:
    """Of exactly this width."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def flow(items: Sequence[Text], width: int) -> list[Text]:
    """In columns of one width, as many as there is room for."""
    if not items:
        return []
    size = max(item.cell_len for item in items)
    across = max(1, (width + len(GAP)) // (size + len(GAP)))
    lines = []
    for start in range(0, len(items), across):
        line = Text(no_wrap=True)
        for number, item in enumerate(items[start : start + across]):
            if number:
                line.append(GAP)
            line.append_text(item)
            line.append(" " * (size - item.cell_len))
        line.rstrip()
        lines.append(line)
    return lines


def quantity(value: float) -> str:
    """Three digits of how many."""
    for above, size, unit in ((999.5e6, 1e9, "G"), (999.5e3, 1e6, "M"), (999.5, 1e3, "k")):
        if value >= above:
            scaled = value / size
            digits = 0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2
            return f"{scaled:.{digits}f}{unit}"
    return f"{value:.0f}" if value >= 9.95 or value == int(value) else f"{value:.1f}"
