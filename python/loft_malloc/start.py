"""Where the command begins: before it loads what only Linux has."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.platform != "linux":
        sys.exit(f"loft: the command needs Linux, and this is {sys.platform}; see docs/install.md")
    from loft_malloc.main import main as on_linux

    on_linux()
