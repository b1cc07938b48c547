#!/usr/bin/env python3
"""Builds a release into build/release: packages, checksums, a bill of materials, the notes.

It refuses where the version has no entry in CHANGELOG.md, where the tree differs from the commit,
and where the library's interface has changed without a word. --rehearse goes on, with notes of what
is to come.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import abi
import packages
import sbom
from package_base import ROOT, PackageError, epoch, fresh, loft_version, run

CHANGELOG = ROOT / "CHANGELOG.md"
# Scripts for what other languages install, with the folder to write to.
OTHERS = ("tools/wheels.py", "tools/crates.py")


def entry_of(text: str, *versions: str) -> str:
    """What the changelog says of the first of the versions that it says something of: the section,
    without its heading."""
    for version in versions:
        pattern = rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)"
        found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
        if found and (entry := found[1].strip()):
            return entry + "\n"
    last = versions[-1]
    raise PackageError(
        f"CHANGELOG.md has no entry for {last}; write one, below '## [{last}] - DATE'"
    )


def check_tree() -> None:
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True
    )
    if changed.returncode != 0 or changed.stdout.strip():
        raise PackageError("the tree differs from its commit; commit first")


def release(out: Path, rehearse: bool) -> list[Path]:
    version = loft_version()
    text = CHANGELOG.read_text()
    # Right after a release nothing is unreleased, and what can be rehearsed is that one.
    notes = entry_of(text, *(("Unreleased",) if rehearse else ()), version)
    if not rehearse:
        check_tree()
    fresh(out)
    work = out.with_name(f"{out.name}-work")
    plan = packages.Plan(out, fresh(work), version, epoch())
    for make in packages.FORMATS.values():
        make(plan)
    changed = abi.differences(plan.built("x86_64") / "libloft.so")
    if changed and not rehearse:
        raise PackageError("\n".join([*changed, "accept or undo this: docs/internals/releases.md"]))
    for script in OTHERS:
        run(sys.executable, ROOT / script, "--output", out, env=plan.env)
    (out / "NOTES.md").write_text(notes)
    files = [path for path in out.iterdir() if path.is_file()]
    bill = out / f"{plan.full_name}.spdx.json"
    bill.write_bytes(sbom.bill(files, version, plan.moment))
    (out / "SHA256SUMS").write_text(packages.sums(out))
    return sorted(path for path in out.iterdir() if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--rehearse", action="store_true", help="of a version that is not out yet")
    asked = parser.parse_args()
    try:
        for path in release(asked.output.resolve(), asked.rehearse):
            print(path)
    except PackageError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
