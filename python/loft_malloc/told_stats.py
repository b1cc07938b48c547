"""loft's own statistics, as loft-tell.so writes them at the end of each process of a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Stats = dict[str, Any]
# Whoever a program becomes (a server that gives root away) may write there, and not look around.
WRITABLE_BY_ALL = 0o1733


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="loft-") as name:
        path = Path(name)
        path.chmod(WRITABLE_BY_ALL)
        yield path


def read(folder: Path) -> list[tuple[int, Stats]]:
    """By process; what is cut off, because the process was killed over it, is left out."""
    told = []
    for file in sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name)):
        for line in file.read_text(errors="replace").splitlines():
            if file.name.isdigit() and (stats := _parsed(line)) is not None:
                told.append((int(file.name), stats))
    return told


def _parsed(line: str) -> Stats | None:
    try:
        stats = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return stats if isinstance(stats, dict) else None
