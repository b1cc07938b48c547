"""What the loader loads together with a program, and whose malloc is among it."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

from loft_malloc import elf

# They define malloc too, and give way to whoever is loaded before them.
LIBC = re.compile(r"(libc[.-]|ld[-.])")
TRACE_LIMIT_S = 20


@cache
def libraries(path: Path) -> tuple[Path, ...]:
    """What the program's own loader would load; it stops before any of the program runs."""
    described = elf.read(path)
    if described is None or described.interpreter is None:
        return ()
    try:
        listed = subprocess.run(
            # The loader looks elsewhere for a name without a folder.
            [described.interpreter, "--list", path.absolute()],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=TRACE_LIMIT_S,
            # Where to look is the user's to say, but what is preloaded is not linked.
            env={name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(Path, re.findall(r"^\s(?:.* => )?(/\S+) \(", listed, re.MULTILINE)))


def is_libc(path: Path) -> bool:
    return LIBC.match(path.name) is not None


def allocators(path: Path) -> list[Path]:
    """The libraries among them that replace the C library's malloc."""
    return [each for each in libraries(path) if not is_libc(each) and elf.replaces_malloc(each)]


def libc(path: Path) -> Path | None:
    """The C library among them, apart from the loader, which is not to be preloaded."""
    return next((each for each in libraries(path) if re.match(r"libc[.-]", each.name)), None)
