"""Names as they stand in sources, of those that C++ and Rust give to the linker."""

from __future__ import annotations

import re
import shutil
import subprocess

LIMIT_S = 60
MANGLED = re.compile(r"_?_[ZR]")
# Which of a library's versions of a function it is.
VERSION = re.compile(r"@@?[A-Z][\w.]*$")
# What tells apart functions and crates of one name in Rust, and tells nobody anything.
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$|(?<=\w)\[[0-9a-f]+\](?=::)")


def available() -> bool:
    return shutil.which("c++filt") is not None


def demangle(names: set[str]) -> dict[str, str]:
    """What each name reads; itself where nothing can tell."""
    plain = {name: VERSION.sub("", name) for name in names}
    wanted = sorted(name for name in plain.values() if MANGLED.match(name) and "\n" not in name)
    readable = dict(zip(wanted, _filtered(wanted)))
    return {name: RUST_HASH.sub("", readable.get(each, each)) for name, each in plain.items()}


def _filtered(names: list[str]) -> list[str]:
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return names
    try:
        ran = subprocess.run(
            [tool], input="\n".join(names) + "\n", capture_output=True, text=True, timeout=LIMIT_S
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return names
    lines = ran.stdout.removesuffix("\n").split("\n")
    return lines if ran.returncode == 0 and len(lines) == len(names) else names
