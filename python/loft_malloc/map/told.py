"""The map of a process's heap, asked for part by part."""

from __future__ import annotations

from typing import Any

from loft_malloc.errors import UserError
from loft_malloc.live.client import Client
from loft_malloc.map import residence

SLABS = "/slabs.json"
# Parts of sixteen thousand entries; more have no room in any address space.
MOST_PARTS = 1 << 12


def ask(client: Client) -> dict[str, Any]:
    """As one answer, whatever the number of parts, with what the kernel knows of it."""
    told = _whole(client)
    residence.add(told, client.pid)
    return told


def _whole(client: Client) -> dict[str, Any]:
    told = client.json(SLABS)
    ranges, at = told.get("ranges"), told.get("next")
    for _ in range(MOST_PARTS):
        if not isinstance(ranges, list) or not isinstance(at, int) or not at:
            return {**told, "next": None}
        part = client.json(f"{SLABS}?from={at}")
        more, following = part.get("ranges"), part.get("next")
        if not isinstance(more, list) or (isinstance(following, int) and following <= at):
            break
        ranges += more
        at = following
    raise UserError(f"{client.path}: the answers to {SLABS} never end", 1)
