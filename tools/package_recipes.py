"""Recipes for other people's package managers. They build from the source's tarball, which lies
beside them: loft is on no server yet.
"""

import hashlib
from pathlib import Path

from package_base import ADDRESS, NAME, ROOT, Entry, compressed, filled, tar_of

PACKAGING = ROOT / "packaging"


def recipe(template: Path, tarball: Path, version: str) -> str:
    source = tarball.read_bytes()
    return filled(
        template,
        address=ADDRESS,
        version=version,
        sha256=hashlib.sha256(source).hexdigest(),
        sha512=hashlib.sha512(source).hexdigest(),
    )


def port(tarball: Path, version: str, moment: int) -> bytes:
    """Of vcpkg: a folder for --overlay-ports, with the source in it."""
    templates = sorted((PACKAGING / "vcpkg").iterdir())
    entries = [
        Entry(f"{NAME}/", mode=0o755),
        Entry(f"{NAME}/{tarball.name}", tarball.read_bytes()),
        *(Entry(f"{NAME}/{it.name}", recipe(it, tarball, version).encode()) for it in templates),
    ]
    return compressed(tar_of(entries, moment))
