"""The `loft` command: runs programs under the loft allocator, and compares allocators.

In Python, `loft_malloc.path()` is where the library is, for LD_PRELOAD or a linker.
"""

from __future__ import annotations

from pathlib import Path


def path() -> Path:
    from loft_malloc import places

    return places.library()


def version() -> str:
    from loft_malloc import places

    return places.version()
