"""What lies where in a heap, as a process tells it: slabs, runs, large objects, free spans.

These are addresses. The kernel says which of them have memory (map/residence.py); only that can be
wasted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from loft_malloc.errors import UserError

# What everything in a heap is a multiple of; less where a process tells of less.
GRANULE = 64 << 10
MOST_BYTES = 1 << 29
MOST_ADDRESS = 1 << 57


class Kind(IntEnum):
    SLAB = 0
    MEDIUM = 1
    LARGE = 2
    FREE = 3
    # Of the program's own.
    HEAP = 4


NAMES = {"slab": Kind.SLAB, "medium": Kind.MEDIUM, "large": Kind.LARGE, "free": Kind.FREE,
         "heap": Kind.HEAP}  # fmt: skip


# Not frozen: there are many, and that would make each of them three times as slow to make.
@dataclass
class Piece:
    """One of them. `used` are a slab's objects that it has handed out, and bytes of any other."""

    __slots__ = (
        "absent", "at", "bytes", "kind", "object_bytes", "objects", "owner", "resident", "used"
    )  # fmt: skip
    kind: Kind
    at: int
    bytes: int
    used: int
    object_bytes: int
    objects: int
    owner: int | None
    # All of it, where nobody knows.
    resident: int
    # Whole granules without memory: how far from its beginning, and how long.
    absent: list[tuple[int, int]]

    @property
    def used_bytes(self) -> int:
        return self.used * self.object_bytes if self.kind is Kind.SLAB else self.used

    @property
    def hole_bytes(self) -> int:
        """Resident and free inside of it, the end of a slab included. Of own heaps nobody knows."""
        if self.kind in (Kind.FREE, Kind.HEAP):
            return 0
        return max(0, self.resident - self.used_bytes)


@dataclass(frozen=True)
class OfClass:
    """All slabs of one class."""

    object_bytes: int
    slabs: int
    bytes: int
    resident: int
    hole_bytes: int


@dataclass(frozen=True)
class Map:
    version: str
    # In the order of their addresses, and none above another.
    pieces: list[Piece] = field(default_factory=list)
    # Whether it says what is resident.
    is_resident_known: bool = True
    # The heap that holds the objects on which samples of the profile have fallen.
    samples: int | None = None

    def of(self, kind: Kind) -> Iterator[Piece]:
        return (piece for piece in self.pieces if piece.kind is kind)

    def classes(self) -> list[OfClass]:
        sums: dict[int, list[int]] = {}
        for piece in self.of(Kind.SLAB):
            row = sums.setdefault(piece.object_bytes, [0, 0, 0, 0])
            for index, value in enumerate((1, piece.bytes, piece.resident, piece.hole_bytes)):
                row[index] += value
        return [OfClass(size, *sums[size]) for size in sorted(sums)]


def read(path: Path) -> Map:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise UserError(f"{path} is not a heap map: it is larger than {MOST_BYTES >> 20} MiB")
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    return parsed(told, str(path))


def parsed(told: Any, where: str) -> Map:
    """Raises what is wrong with it. Kinds of things that nobody here knows are left out.

    The heap goes on changing while it is told, and what lies on what came before is left out too.
    """
    if not isinstance(told, dict) or not isinstance(told.get("ranges"), list):
        raise UserError(f"{where} is not a heap map: it has no list of ranges")
    pieces: list[Piece] = []
    known, samples = True, None
    for number, row in enumerate(told["ranges"]):
        try:
            if not isinstance(row, dict):
                raise ValueError("it is not an object")
            kind = NAMES.get(row["kind"])
            if kind is not None:
                pieces.append(_piece(kind, row))
                known = known and "resident_bytes" in row
                samples = pieces[-1].owner if row.get("samples") is True else samples
        except (TypeError, KeyError, ValueError) as error:
            what = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{where}: entry {number} of the ranges: {what}") from None
    pieces.sort(key=lambda piece: piece.at)
    apart: list[Piece] = []
    for piece in pieces:
        if not apart or piece.at >= apart[-1].at + apart[-1].bytes:
            apart.append(piece)
    return Map(str(told.get("loft", "")), apart, known, samples)


def _piece(kind: Kind, row: dict[str, Any]) -> Piece:
    at, size = _number(row, "at"), _number(row, "bytes")
    if size <= 0 or at + size > MOST_ADDRESS:
        raise ValueError(f"it has {size} bytes at 0x{at:x}")
    owner = _number(row, "owner") if "owner" in row else None
    resident = min(_number(row, "resident_bytes"), size) if "resident_bytes" in row else size
    absent = _spans(row.get("absent", []), size)
    if kind is not Kind.SLAB:
        used = _number(row, "used_bytes") if "used_bytes" in row else 0
        objects = _number(row, "objects") if "objects" in row else 0
        return Piece(kind, at, size, min(used, size), 0, objects, owner, resident, absent)
    each, objects, free = (_number(row, name) for name in ("object_bytes", "objects", "free"))
    if free > objects or not 0 < each * objects <= size:
        raise ValueError(f"{free} of {objects} objects of {each} bytes are free in {size} bytes")
    return Piece(kind, at, size, objects - free, each, objects, owner, resident, absent)


def _spans(told: Any, size: int) -> list[tuple[int, int]]:
    if not isinstance(told, list):
        raise ValueError(f"absent is {told!r}")
    spans = []
    for pair in told:
        at, length = (_number({"absent": each}, "absent") for each in pair)
        if not 0 < length <= size - at:
            raise ValueError(f"absent are {length} bytes at {at} of {size}")
        spans.append((at, length))
    return spans


def _number(row: dict[str, Any], name: str) -> int:
    value = row[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is {value!r}")
    return value
