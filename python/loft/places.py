"""Where the files are that come with the command: inside the package, or in a checkout's build."""

from __future__ import annotations

from pathlib import Path

from loft.errors import UserError

PACKAGE = Path(__file__).resolve().parent
# In a checkout the package is python/loft. Installed, this names no folder that exists.
CHECKOUT_BUILD = PACKAGE.parent.parent / "build"
PEERS = CHECKOUT_BUILD / "peers"


def _find(name: str) -> Path:
    for folder in (PACKAGE / "lib", CHECKOUT_BUILD):
        if (folder / name).exists():
            return folder / name
    raise UserError(f"{name} is not there; run make cli in the checkout, or install loft again")


def library() -> Path:
    return _find("libloft.so")


def launcher() -> Path:
    return _find("loft-launch")


def hold_library() -> Path:
    return _find("loft-hold.so")
