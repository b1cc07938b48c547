"""Who owns the slabs of a process: the heaps of its threads, by what lies free in them."""

from __future__ import annotations

from dataclasses import dataclass

from loft_malloc.map.model import Kind, Map


@dataclass(frozen=True)
class Owner:
    title: str
    slabs: int
    resident: int
    holes: int
    # The size class in which most of the holes are.
    worst: int


def owners(found: Map) -> list[Owner]:
    slabs: dict[int, int] = {}
    taken: dict[int, int] = {}
    holes: dict[int, int] = {}
    by_class: dict[int, dict[int, int]] = {}
    for piece in found.pieces:
        if piece.kind not in (Kind.SLAB, Kind.MEDIUM) or piece.owner is None:
            continue
        owner = piece.owner
        slabs[owner] = slabs.get(owner, 0) + 1
        taken[owner] = taken.get(owner, 0) + piece.resident
        holes[owner] = holes.get(owner, 0) + piece.hole_bytes
        if piece.kind is Kind.SLAB:
            classes = by_class.setdefault(owner, {})
            classes[piece.object_bytes] = classes.get(piece.object_bytes, 0) + piece.hole_bytes
    return [
        Owner(
            f"heap {owner}" + (" (samples)" if owner == found.samples else ""),
            slabs[owner],
            taken[owner],
            holes[owner],
            max(by_class.get(owner, {0: 0}).items(), key=lambda pair: (pair[1], -pair[0]))[0],
        )
        for owner in slabs
    ]
