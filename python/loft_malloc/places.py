"""Where the files are that come with the command: inside the package, or in a checkout's build.

And of which version they are.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from loft_malloc.errors import UserError

PACKAGE = Path(__file__).resolve().parent
# In a checkout the package is python/loft_malloc. Installed, this names no folder that exists.
CHECKOUT = PACKAGE.parent.parent
CHECKOUT_BUILD = CHECKOUT / "build"
PEERS = CHECKOUT_BUILD / "peers"


def find(name: str) -> Path:
    for folder in (PACKAGE / "lib", CHECKOUT_BUILD):
        if (folder / name).exists():
            return folder / name
    raise UserError(f"{name} is missing; run make cli in the checkout, or install loft again")


def library() -> Path:
    return find("libloft.so")


def bounds() -> Path:
    """What checks the ranges that libc's functions copy and fill."""
    return find("libloft-bounds.so")


def version() -> str:
    """That of the installed package; of a checkout where none was installed, the header's."""
    try:
        return metadata.version("loft-malloc")
    except metadata.PackageNotFoundError:
        header = (CHECKOUT / "include" / "loft" / "loft.h").read_text()
        found = re.search(r'#define LOFT_VERSION_STRING "([^"]+)"', header)
        return found[1] if found else "of no version"
