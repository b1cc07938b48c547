"""The functions that hold most, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from loft_malloc.printable import counted, one_line
from loft_malloc.profile.model import Kind
from loft_malloc.profile.tree import Held, Tree

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
# Two columns of the kinds that are there, best first: what is held and what was ever allocated.
SHOWN = (("inuse_space", "in use"), ("alloc_space", "allocated"))
SHORTEST_NAME = 12


# Each is so many of the one before.
LONGER = ((1000, "ms"), (1000, "s"), (60, "min"), (60, "h"), (24, "days"))


class Sort(str, Enum):
    """What a table is sorted by."""

    FLAT = "flat"
    CUMULATIVE = "cum"
    ALLOCATED = "alloc"
    ALLOCATED_CUMULATIVE = "alloc-cum"


@dataclass(frozen=True)
class Column:
    title: str
    index: int
    kind: Kind


def columns(tree: Tree) -> list[Column]:
    """Those that are shown: bytes in use and allocated, or whatever the profile has."""
    found = [
        Column(title, index, kind)
        for wanted, title in SHOWN
        for index, kind in enumerate(tree.kinds)
        if kind.type == wanted
    ]
    main = tree.kinds[tree.main]
    if any(column.index == tree.main for column in found):
        # Without what comes before: of what is allocated is looked at alone, nothing is in use.
        return [column for column in found if column.index == tree.main or column is not found[0]]
    return [Column(main.title, tree.main, main)]


def amount(value: int, unit: str, signed: bool = False) -> str:
    """Three digits; bytes by powers of 1024."""
    sign = "-" if value < 0 else "+" if signed and value > 0 else ""
    if unit != "bytes":
        return f"{sign}{abs(value):,}"
    scaled, step = float(abs(value)), 0
    # 1023.95 KiB would be written as 1024.
    while scaled >= 1023.5 and step < len(UNITS) - 1:
        scaled, step = scaled / 1024, step + 1
    digits = 0 if step == 0 or scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{sign}{scaled:.{digits}f} {UNITS[step]}"


def out_of(part: int, whole: int) -> str:
    """8.23 of 34.4 MiB; each with its unit where the two differ."""
    shown, total = amount(part, "bytes"), amount(whole, "bytes")
    number, _, unit = shown.partition(" ")
    return f"{number if total.endswith(f' {unit}') else shown} of {total}"


def duration(microseconds: float) -> str:
    """Two or three digits; nothing for 0."""
    if not microseconds:
        return ""
    scaled, unit = microseconds, "us"
    for step, larger in LONGER:
        if scaled < step * 0.9995:
            break
        scaled, unit = scaled / step, larger
    return f"{scaled:.{0 if scaled >= 9.95 or unit == 'us' else 1}f} {unit}"


def percent(value: int, total: int) -> str:
    return f"{100 * value / total:.1f}%" if total else ""


def ordered(tree: Tree, sort: Sort) -> list[Held]:
    """Most first; in a comparison, what has changed most. Of callers of one thing the nearest is
    first. What the sorted columns have nothing of is left out: of leaks, what is none."""
    allocated = sort in (Sort.ALLOCATED, Sort.ALLOCATED_CUMULATIVE)
    cumulative = sort in (Sort.CUMULATIVE, Sort.ALLOCATED_CUMULATIVE)
    shown = columns(tree)
    index = shown[-1 if allocated else 0].index

    def key(held: Held) -> tuple[int, int, int, str]:
        flat, all_of_it = abs(held.flat[index]), abs(held.cumulative[index])
        first, second = (all_of_it, flat) if cumulative else (flat, all_of_it)
        return -first, -second, held.distance, held.function[0]

    found = [held for held in tree.held if held.flat[index] or held.cumulative[index]]
    return sorted(found, key=key)


def place(held: Held) -> str:
    return place_in(held.function[1], held.line)


def place_in(file: str, line: int) -> str:
    return f"{PurePath(file).name}:{line}" if file and line else PurePath(file).name


@dataclass(frozen=True)
class _Where:
    """A function with its place, which is cut last where there is little room."""

    name: str
    place: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - cell_len(self.place) - 2 * bool(self.place)
        name = Text(self.name)
        name.truncate(max(room, SHORTEST_NAME), overflow="ellipsis")
        text = name.append(f"  {self.place}" if self.place else "", style="dim")
        text.no_wrap, text.overflow = True, "ellipsis"
        yield text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = cell_len(self.name) + 2 + cell_len(self.place)
        return Measurement(min(SHORTEST_NAME, longest), longest)


def table(tree: Tree, sort: Sort, most: int) -> Table:
    shown = columns(tree)
    made = Table(box=None, pad_edge=False)
    for number, column in enumerate(shown):
        for title in (column.title, "with calls"):
            made.add_column(title, justify="right", no_wrap=True)
            if number == 0:
                made.add_column("", justify="right", no_wrap=True)
    lives = any(held.freed for held in tree.held)
    if lives:
        made.add_column("lives", justify="right", no_wrap=True)
    # It alone gives way where the width is short.
    made.add_column("function")
    totals = tree.base_totals() if tree.compared else tree.totals()
    for held in ordered(tree, sort)[:most]:
        cells: list[str | _Where] = []
        for number, column in enumerate(shown):
            for value in (held.flat[column.index], held.cumulative[column.index]):
                cells.append(amount(value, column.kind.unit, tree.compared))
                if number == 0:
                    cells.append(percent(value, totals[column.index]))
        if lives:
            cells.append(duration(held.lifetime_us))
        cells.append(_Where(one_line(held.function[0]), one_line(place(held))))
        made.add_row(*cells)
    return made


def summary(tree: Tree) -> list[str]:
    """A line for each kind that is shown."""
    totals, base = tree.totals(), tree.base_totals()
    lines = []
    for column in columns(tree):
        index, unit = column.index, column.kind.unit
        text = f"{column.title}: {amount(totals[index], unit)}"
        if tree.compared:
            grown = amount(totals[index] - base[index], unit, signed=True)
            text += f", {grown} against {amount(base[index], unit)}"
        for other_index, other in enumerate(tree.kinds):
            if other.type == column.kind.type.replace("_space", "_objects") != column.kind.type:
                text += f", in {counted(totals[other_index], 'object')}"
        lines.append(text)
    return lines
