"""Names from the system's own tools: llvm-symbolizer or addr2line, one process for each file.

They know every form of debug information and are fast. Both are asked to answer as addr2line does:
a line with the address, then for each function there two lines, its name and its place.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from loft_malloc.profile import demangle
from loft_malloc.profile.model import Frame

# addr2line takes minutes for the largest programs; then the own reader has its turn.
LIMIT_S = 180
ADDRESS = re.compile(r"0x[0-9a-f]+")
PLACE = re.compile(r"(.*):([0-9]+|\?)(?: \(discriminator [0-9]+\))?")
UNKNOWN = "??"


def commands(path: Path) -> Iterator[list[str]]:
    """The tools that are there, best first."""
    if tool := shutil.which("llvm-symbolizer"):
        style = "--no-demangle" if demangle.available() else "--demangle"
        form = ["--output-style=GNU", "--functions=linkage", "--addresses", "--inlines"]
        yield [tool, *form, style, f"--obj={path}"]
    if tool := shutil.which("addr2line"):
        more = [] if demangle.available() else ["--demangle"]
        yield [tool, "--addresses", "--functions", "--inlines", *more, f"--exe={path}"]


def frames(path: Path, addresses: list[int]) -> dict[int, list[Frame]] | None:
    """Those at each address of which something is known; None if no tool answers."""
    for command in commands(path):
        if (found := _asked(command, addresses)) is not None:
            return found
    return None


def _asked(command: list[str], addresses: list[int]) -> dict[int, list[Frame]] | None:
    try:
        ran = subprocess.run(
            command,
            input="".join(f"0x{address:x}\n" for address in addresses),
            # What is to be fetched is fetched by then.
            env={**os.environ, "DEBUGINFOD_URLS": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    answers = _answers(ran.stdout)
    return answers if ran.returncode == 0 and set(answers) == set(addresses) else None


def _answers(text: str) -> dict[int, list[Frame]]:
    found: dict[int, list[Frame]] = {}
    lines = iter(line for line in text.split("\n") if line)
    current: list[Frame] = []
    for line in lines:
        if ADDRESS.fullmatch(line):
            current = found.setdefault(int(line, 16), [])
            continue
        if (frame := _frame(line, next(lines, ""))) is not None:
            current.append(frame)
    return found


def _frame(name: str, place: str) -> Frame | None:
    match = PLACE.fullmatch(place)
    file, line = (match[1], match[2]) if match else (UNKNOWN, "0")
    if name == UNKNOWN and file == UNKNOWN:
        return None
    known = file != UNKNOWN
    return Frame(
        name, file if known else "", int(line) if known and line != "?" else 0, system_name=name
    )
