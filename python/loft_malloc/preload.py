"""The value of LD_PRELOAD."""

from __future__ import annotations

import os
import re
from pathlib import Path

from loft_malloc.errors import UserError


def entries(value: str) -> list[str]:
    """The loader accepts colons and spaces between them."""
    return [entry for entry in re.split(r"[: ]", value) if entry]


def check(path: str) -> None:
    # Nothing quotes them.
    if re.search(r"[: ]", path):
        raise UserError(
            f"{path}: LD_PRELOAD takes no path with a space or a colon; "
            "install loft in another folder"
        )


def value(libraries: list[Path], inherited: list[str]) -> str:
    """The libraries in front of what was to be preloaded anyway."""
    for library in libraries:
        check(str(library))
    return ":".join([*map(str, libraries), *inherited])


def inherited() -> list[str]:
    return entries(os.environ.get("LD_PRELOAD", ""))
