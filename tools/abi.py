#!/usr/bin/env python3
"""Compares what libloft.so shows with what it showed at the last release.

Two files describe the last one, in packaging/abi: the symbols, each with the version that first
had it, and the functions and types of loft.h as abidw writes them, read off a library of empty
functions that is made of the header. `tools/abi.py` compares; `--accept` writes both anew, and the
commit that does so says why the change is allowed (docs/internals/releases.md).
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from package_base import ROOT, PackageError, loft_version, run

FOLDER = ROOT / "packaging" / "abi"
SYMBOLS = FOLDER / "symbols.txt"
TYPES = FOLDER / "loft.abi"
HEADER = ROOT / "include" / "loft" / "loft.h"
LIBRARY = ROOT / "build" / "libloft.so"
# Bits of abidiff's exit code that are no answer.
WRONG = 1 | 2


def symbols() -> dict[str, str]:
    """By name, the version that a symbol is there since."""
    if not SYMBOLS.is_file():
        return {}
    lines = [line.split() for line in SYMBOLS.read_text().splitlines() if line[:1] not in ("#", "")]
    return {line[0]: line[1] for line in lines}


def exported(library: Path) -> set[str]:
    found = set()
    for line in run("readelf", "--wide", "--dyn-syms", library).stdout.splitlines():
        words = line.split()
        if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK") and words[6] != "UND":
            found.add(words[7].split("@")[0])
    return found


def describe_types(folder: Path) -> Path:
    """The description of a library that has each function of the header, with an empty body."""
    source, protos, stub = folder / "api.c", folder / "protos.txt", folder / "libloft.so"
    source.write_text(f'#include "{HEADER}"\n')
    run("gcc", "-fsyntax-only", "-aux-info", protos, source)
    lines = [f'#include "{HEADER}"']
    found = set(
        re.findall(r"^/\* .*loft\.h:.*\*/ extern (.*\bloft_\w+ \(.*\));", protos.read_text(), re.M)
    )
    lines += [f"{prototype} {{ __builtin_trap(); }}" for prototype in sorted(found)]
    source.write_text("\n".join(lines) + "\n")
    flags = ("-g", "-O0", "-fPIC", "-shared", "-nostdlib", "-w", "-Wl,-soname,libloft.so.0")
    run("gcc", *flags, f"-ffile-prefix-map={folder}=.", "-o", stub, source)
    described = folder / "loft.abi"
    leave_out = ("show-locs", "corpus-path", "comp-dir-path", "elf-needed", "architecture")
    less = [f"--no-{what}" for what in (*leave_out, "parameter-names")]
    run("abidw", *less, "--type-id-style", "hash", "--out-file", described, stub)
    text = re.sub(r" path='[^']*'", " path='loft.h'", described.read_text())
    described.write_text(text)
    return described


def differences(library: Path) -> list[str]:
    """What is incompatible, or not yet written down."""
    known, now = symbols(), exported(library)
    found = [f"{name} is no longer exported" for name in sorted(known.keys() - now)]
    found += [f"{name} is new, and not in {SYMBOLS.name}" for name in sorted(now - known.keys())]
    with tempfile.TemporaryDirectory() as folder:
        described = describe_types(Path(folder))
        found += type_differences(described)
    return found


def type_differences(described: Path) -> list[str]:
    command = ["abidiff", "--no-added-syms", "--no-show-locs", str(TYPES), str(described)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode & WRONG:
        raise PackageError(f"abidiff failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip().splitlines() if done.returncode else []


def accept(library: Path) -> None:
    known, version = symbols(), loft_version()
    lines = ["# What libloft.so exports, and since which version: tools/abi.py --accept writes it."]
    lines += [f"{name} {known.get(name, version)}" for name in sorted(exported(library))]
    FOLDER.mkdir(parents=True, exist_ok=True)
    SYMBOLS.write_text("\n".join(lines) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        TYPES.write_bytes(describe_types(Path(folder)).read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accept", action="store_true", help="write down what there is now")
    parser.add_argument("--library", type=Path, default=LIBRARY)
    asked = parser.parse_args()
    if not asked.library.exists():
        sys.exit(f"abi: {asked.library} is not there; run make")
    try:
        if asked.accept:
            accept(asked.library)
            return
        found = differences(asked.library)
    except PackageError as error:
        sys.exit(f"abi: {error}")
    if found:
        print("\n".join(found))
        sys.exit("abi: libloft.so has changed; if it may: tools/abi.py --accept")


if __name__ == "__main__":
    main()
