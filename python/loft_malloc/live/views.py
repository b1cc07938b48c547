"""The three tables of `loft top`: size classes, heaps, stacks; each can be sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from loft_malloc.live.growth import Stack
from loft_malloc.live.lines import Column
from loft_malloc.live.owners import Owner
from loft_malloc.live.reading import OfClass
from loft_malloc.printable import one_line
from loft_malloc.profile.top import amount

Row = TypeVar("Row")


def size(value: int) -> str:
    return amount(value, "bytes")


def change(value: int) -> str:
    return amount(value, "bytes", signed=True)


@dataclass(frozen=True)
class Shown(Generic[Row]):
    """A column of a view: what it shows of a row, and what it sorts by."""

    column: Column
    cell: Callable[[Row], str]
    # Most first; none sorts by no such column.
    key: Callable[[Row], int] | None = None


class View(Generic[Row]):
    def __init__(
        self, title: str, shown: Sequence[Shown[Row]], used: Callable[[Row], bool]
    ) -> None:
        self.title = title
        self.shown = shown
        # Rows of nothing are left out.
        self.used = used

    @property
    def columns(self) -> list[Column]:
        return [each.column for each in self.shown]

    @property
    def sorts(self) -> list[str]:
        return [each.column.title for each in self.shown if each.key is not None]

    def rows(self, rows: Sequence[Row], sort: str) -> list[list[str]]:
        key = next(each.key for each in self.shown if each.column.title == sort)
        assert key is not None
        ordered = sorted(filter(self.used, rows), key=key, reverse=True)
        return [[each.cell(row) for each in self.shown] for row in ordered]


def _of_class(title: str, rank: int, field: str) -> Shown[OfClass]:
    return Shown(Column(title, rank), lambda row: size(row[field]), lambda row: row[field])


CLASSES = View[OfClass](
    "classes",
    [
        Shown(Column("class"), lambda row: row.title),
        Shown(Column("waste"), lambda row: size(row.waste), lambda row: row.waste),
        _of_class("resident", 0, "resident_bytes"),
        _of_class("live", 1, "live_bytes"),
        _of_class("free", 2, "free_bytes"),
        _of_class("cached", 3, "cached_bytes"),
        _of_class("in flight", 4, "in_flight_bytes"),
        _of_class("rounding", 5, "rounding_bytes"),
        Shown(Column("slabs", 6), lambda row: str(row["slabs"]), lambda row: row["slabs"]),
        _of_class("not resident", 7, "untouched_bytes"),
    ],
    lambda row: bool(row["resident_bytes"] or row["live_objects"]),
)
HEAPS = View[Owner](
    "heaps",
    [
        Shown(Column("heap", right=True), lambda row: row.title),
        Shown(Column("free inside"), lambda row: size(row.holes), lambda row: row.holes),
        Shown(Column("resident"), lambda row: size(row.resident), lambda row: row.resident),
        Shown(Column("slabs", 1), lambda row: str(row.slabs), lambda row: row.slabs),
        Shown(Column("most in class", 2), lambda row: str(row.worst or "")),
    ],
    lambda row: True,
)
STACKS = View[Stack](
    "stacks",
    [
        Shown(Column("growth"), lambda row: change(row.grown), lambda row: row.grown),
        Shown(Column("in use"), lambda row: size(row.in_use), lambda row: row.in_use),
        Shown(Column("objects", 1), lambda row: str(row.objects), lambda row: row.objects),
        Shown(Column("stack", right=False), lambda row: one_line(row.title)),
    ],
    lambda row: bool(row.in_use or row.grown),
)
VIEWS: tuple[View[Any], ...] = (CLASSES, HEAPS, STACKS)
