#!/usr/bin/env python3
"""Packs the Rust crates as crates.io takes them, as CRATE-VERSION.crate."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import rust_bindings
from package_base import ROOT, PackageError, loft_version, run

RUST = ROOT / "bindings" / "rust"
CRATES = ("loft-malloc-sys", "loft-malloc")


def pack(out: Path) -> list[Path]:
    """Packed from a copy: cargo refuses files that git does not have, such as the single ones."""
    with tempfile.TemporaryDirectory() as name:
        copy, target = Path(name) / "rust", Path(name) / "target"
        shutil.copytree(RUST, copy, ignore=shutil.ignore_patterns("target", "src-c"))
        rust_bindings.write_sources(copy / "loft-malloc-sys" / "src-c")
        done = run(
            *("cargo", "package", "--locked", "--workspace", "--no-verify"),
            folder=copy,
            env={**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never"},
        )
        if "warning" in done.stderr:
            raise PackageError(f"cargo package has a warning: {done.stderr}")
        out.mkdir(parents=True, exist_ok=True)
        files = [f"{crate}-{loft_version()}.crate" for crate in CRATES]
        return [Path(shutil.copy(target / "package" / file, out)) for file in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "packages")
    try:
        for path in pack(parser.parse_args().output.resolve()):
            print(path)
    except PackageError as error:
        sys.exit(f"crates: {error}")


if __name__ == "__main__":
    main()
