"""Names of code that a program made while it ran: Python's functions with -X perf, JavaScript's.

Such a program writes for the kernel's profiler what it has made, in /tmp/perf-PID.map: a line for
each piece, with its address, its length and its name. Python's names have a file and no line; that
of the function's beginning is looked up there.
"""

from __future__ import annotations

import ast
import os
import re
import stat
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from loft_malloc.profile.model import Frame, Location, Profile

FOLDER = Path("/tmp")
# The clock that dates files is behind by some milliseconds.
LATE_S = 1.0
# A map has a line of some hundred bytes for each function.
MOST_BYTES = 1 << 28
MOST_SOURCE = 1 << 24
PIECE = re.compile(r"([0-9a-f]{1,16}) ([0-9a-f]{1,16}) (.+)")
PYTHON = re.compile(r"py::([^:]*):(.+)")
# JS:*grow /srv/app.js:10:5, with what has compiled it.
SCRIPT = re.compile(r"\w+:[~^*+]?(\S*) (\S.*):(\d+):\d+")


def of_command(pid: int) -> Path:
    """Where the map of a process is that was started here."""
    return FOLDER / f"perf-{pid}.map"


def of_process(pid: int) -> Path:
    """Where that of any process is, by the number that it has for itself."""
    numbers = re.search(r"^NSpid:.*?(\d+)$", _text(Path(f"/proc/{pid}/status")), re.MULTILINE)
    return Path(f"/proc/{pid}/root{FOLDER}/perf-{numbers[1] if numbers else pid}.map")


def name(profile: Profile, path: Path, since: float, owner: int | None = None) -> None:
    """Gives frames to locations in such code. What is older than the process is another's, and so
    is what neither its user has written, nor this one, nor root."""
    made = [each for each in profile.locations() if not each.frames and not _has_file(each)]
    if not made:
        return
    owners = {0, os.getuid(), os.getuid() if owner is None else owner}
    made.sort(key=lambda location: location.address)
    addresses = [location.address for location in made]
    for start, length, text in _pieces(path, since - LATE_S, owners):
        first = bisect_left(addresses, start)
        # Of pieces at one place the last was there last.
        for location in made[first : bisect_left(addresses, start + length)]:
            location.frames = [Frame(text)]
    for location in made:
        location.frames = [_frame(frame.name) for frame in location.frames]


def _has_file(location: Location) -> bool:
    return location.mapping is not None and location.mapping.file.startswith("/")


def _pieces(path: Path, since: float, owners: set[int]) -> Iterator[tuple[int, int, str]]:
    for line in _text(path, since, owners, MOST_BYTES).splitlines():
        if match := PIECE.fullmatch(line):
            yield int(match[1], 16), int(match[2], 16), match[3]


def _frame(text: str) -> Frame:
    if match := PYTHON.fullmatch(text):
        line = _beginnings(match[2]).get(match[1], 0)
        return Frame(match[1], match[2], line, text, line)
    if match := SCRIPT.fullmatch(text):
        file = match[2].removeprefix("file://")
        return Frame(match[1] or "(anonymous)", file, int(match[3]), text, int(match[3]))
    return Frame(text, system_name=text)


@cache
def _beginnings(path: str) -> dict[str, int]:
    """Lines of a Python source at which functions begin, by their qualified names."""
    try:
        return dict(_defined(ast.parse(_text(Path(path), most=MOST_SOURCE)), ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Of a newer Python, or none at all.
        return {}


def _defined(node: ast.AST, within: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        inner = within
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            called = within + (getattr(child, "name", "") or "<lambda>")
            yield called, child.lineno
            inner = f"{called}.<locals>."
        elif isinstance(child, ast.ClassDef):
            inner = f"{within}{child.name}."
        yield from _defined(child, inner)


def _text(path: Path, since: float = 0, owners: set[int] | None = None, most: int = -1) -> str:
    """Empty where there is no such file."""
    try:
        # Nothing is waited for, should it be a pipe.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if owners else 0))
        with os.fdopen(number, "rb") as file:
            state = os.fstat(number)
            if not stat.S_ISREG(state.st_mode) or state.st_mtime < since:
                return ""
            if owners is not None and state.st_uid not in owners:
                return ""
            return file.read(most).decode(errors="replace")
    except (OSError, ValueError):
        return ""
