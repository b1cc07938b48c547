"""Which addresses of a heap have memory: the kernel's page table of the process.

The process tells how its heap is laid out, in addresses. Most of a fresh slab or run was never
written to and takes no memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from loft_malloc.map.model import GRANULE

# Of each page's eight bytes, the highest bit of the last.
ENTRY = 8
NOT_PRESENT = bytes(range(0x80))
# A large object may be mostly addresses: its table is read part by part.
PART_PAGES = 1 << 16


def add(told: dict[str, Any], pid: int | None) -> None:
    """Adds to each range how much of it is resident, and which granules have nothing.

    Where the kernel does not let us look, nothing is added.
    """
    ranges = told.get("ranges")
    if pid is None or not isinstance(ranges, list):
        return
    with suppress(OSError):
        table = os.open(Path("/proc") / str(pid) / "pagemap", os.O_RDONLY | os.O_CLOEXEC)
        try:
            for row in ranges:
                _add(row, table, os.sysconf("SC_PAGE_SIZE"))
        finally:
            os.close(table)


def _add(row: Any, table: int, page: int) -> None:
    at, size = (row.get(name) if isinstance(row, dict) else None for name in ("at", "bytes"))
    if not isinstance(at, int) or not isinstance(size, int) or "resident_bytes" in row:
        return
    step = max(GRANULE // page, 1)
    resident = 0
    absent: list[list[int]] = []
    for first, flags in _parts(table, at // page, size // page):
        present = _present(flags)
        resident += present
        width = step if present else len(flags)
        for begin in range(0, len(flags), width):
            part = flags[begin : begin + width]
            if _present(part):
                continue
            start = (first + begin) * page
            if absent and sum(absent[-1]) == start:
                absent[-1][1] += len(part) * page
            else:
                absent.append([start, len(part) * page])
    row["resident_bytes"] = resident * page
    if absent:
        row["absent"] = absent


def _parts(table: int, first: int, pages: int) -> Iterator[tuple[int, bytes]]:
    """How far each part is from the first page, and its pages' flags."""
    for done in range(0, pages, PART_PAGES):
        count = min(PART_PAGES, pages - done)
        data = os.pread(table, count * ENTRY, (first + done) * ENTRY)
        if len(data) != count * ENTRY:
            raise OSError("no process has these addresses")
        yield done, data[ENTRY - 1 :: ENTRY]


def _present(flags: bytes) -> int:
    return len(flags.translate(None, NOT_PRESENT))
