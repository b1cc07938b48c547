#!/usr/bin/env python3
"""Lays out the `loft` command as packages have it: the Python package in a folder of its own."""

import argparse
import shutil
from pathlib import Path

from package_base import ROOT, loft_version

PARTS = (
    *("loft-hold.so", "loft-record.so", "loft-tell.so"),
    *("loft-launch", "loft-replay", "loft-trace"),
)


def install(objects: Path, output: Path, library: str, bounds: str) -> None:
    """The library is another package's: a symbolic link stands where the command looks."""
    package = output / "loft_malloc"
    shutil.copytree(
        ROOT / "python" / "loft_malloc",
        package,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    lib = package / "lib"
    lib.mkdir()
    for part in PARTS:
        shutil.copy(objects / part, lib / part)
        (lib / part).chmod(0o644 if part.endswith(".so") else 0o755)
    (lib / "libloft.so").symlink_to(library)
    (lib / "libloft-bounds.so").symlink_to(bounds)
    # By which Python knows the version.
    about = output / f"loft_malloc-{loft_version()}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: loft-malloc\nVersion: {loft_version()}\n"
    )
    for path in output.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.parent != lib:
            path.chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=Path, required=True, help="where its programs were built")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument(
        "--library", required=True, help="libloft.so.0, seen from OUTPUT/loft_malloc/lib"
    )
    parser.add_argument("--bounds", required=True, help="libloft-bounds.so, as --library")
    asked = parser.parse_args()
    install(asked.objects, asked.output, asked.library, asked.bounds)


if __name__ == "__main__":
    main()
