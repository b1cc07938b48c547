"""A map of a heap as a page: one file that loads nothing."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2

from loft_malloc import places
from loft_malloc.live.reading import Reading
from loft_malloc.map import command
from loft_malloc.map.model import GRANULE, Kind, Map
from loft_malloc.profile.page import as_script

FOLDER = places.PACKAGE / "map"
# What of a class the statistics know besides what its slabs say.
OF_STATS = ("rounding_bytes", "cached_bytes", "in_flight_bytes")
PLAIN_ROWS = 50


def write(path: Path, found: Map, title: str, stats: Reading | None) -> None:
    template = jinja2.Template(
        (FOLDER / "map.html").read_text(encoding="utf-8"),
        autoescape=True,
        keep_trailing_newline=True,
    )
    page = template.render(
        title=title,
        version=places.version(),
        machine=f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}",
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        said=command.summary(found, stats),
        style="\n".join(
            (folder / name).read_text(encoding="utf-8")
            for folder, name in ((places.PACKAGE / "profile", "page.css"), (FOLDER, "map.css"))
        ),
        script="\n".join(
            (FOLDER / name).read_text(encoding="utf-8") for name in ("cells.js", "map.js")
        ),
        data=as_script(data(found, stats)),
        heads=command.HEADS,
        plain=command.class_rows(found, PLAIN_ROWS),
    )
    path.write_text(page, encoding="utf-8", errors="replace")


def data(found: Map, stats: Reading | None) -> dict[str, Any]:
    """By columns, because a large heap has a hundred thousand rows.

    Addresses and sizes are in units that all of them are multiples of; an address is given by its
    distance from the end of the one before.
    """
    unit = _unit(found)
    classes = found.classes()
    numbers = {each.object_bytes: index for index, each in enumerate(classes)}
    owners = sorted({piece.owner for piece in found.pieces if piece.owner is not None})
    places_of = {owner: index for index, owner in enumerate(owners)}
    gaps, end = [], 0
    for piece in found.pieces:
        gaps.append((piece.at - end) // unit)
        end = piece.at + piece.bytes
    slabs = list(found.of(Kind.SLAB))
    objects = {slab.object_bytes: slab.objects for slab in slabs}
    by_size = {} if stats is None else {each.object_bytes: each for each in stats.classes}
    return {
        "unit": unit,
        "kinds": [int(piece.kind) for piece in found.pieces],
        "gaps": gaps,
        "sizes": [piece.bytes // unit for piece in found.pieces],
        # Of slabs objects, of others bytes.
        "used": [piece.used for piece in found.pieces],
        "class": [numbers.get(piece.object_bytes, -1) for piece in found.pieces],
        "owner": [-1 if p.owner is None else places_of[p.owner] for p in found.pieces],
        "owners": owners,
        "samples": -1 if found.samples is None else found.samples,
        "residentKnown": found.is_resident_known,
        # Bytes.
        "resident": [piece.resident for piece in found.pieces],
        # Of which piece, how far from its beginning and how long.
        "absent": [
            (index, at // unit, length // unit)
            for index, piece in enumerate(found.pieces)
            for at, length in piece.absent
        ],
        "known": stats is not None,
        # Size, objects in a slab, slabs, bytes, resident, free inside, and of the statistics what
        # lies in caches.
        "classes": [
            [
                each.object_bytes,
                objects[each.object_bytes],
                each.slabs,
                each.bytes,
                each.resident,
                each.hole_bytes,
                *(
                    by_size[each.object_bytes][name] if each.object_bytes in by_size else 0
                    for name in OF_STATS
                ),
            ]
            for each in classes
        ],
    }


def _unit(found: Map) -> int:
    """A granule, or less if a piece is no multiple of it."""
    bits = GRANULE
    for piece in found.pieces:
        bits |= piece.at | piece.bytes
        for at, length in piece.absent:
            bits |= at | length
    return bits & -bits
