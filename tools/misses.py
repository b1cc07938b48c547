#!/usr/bin/env python3
"""Simulated cache and TLB misses of a program's own threads, loads and stores apart.

    tools/misses.py -- xalan -in big.xml -xsl sheet.xsl -out /dev/null
    tools/misses.py --with thread,shared,mimalloc3,batchit-1mib -- redis-benchmark ...

For machines without hardware counters. valgrind's callgrind runs the program twice under each
allocator: once with caches (32 KiB and 8 MiB, lines of 64 bytes), once with translation buffers in
their place (64 and 1536 entries, "lines" of a page). It counts by thread, so that what loft's own
thread misses is left out; it is found by what it executes.

All threads share the simulated caches. As the last level that is what a processor has; of the
first level and of the translation buffers it is to the disadvantage of whoever has a core of its
own, such as the engines of papers/nextgen. And valgrind runs one thread at a time.
"""

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from loft_malloc import launch
from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError
from loft_malloc.tables import Table, as_markdown

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TIMEOUT_S = 1800

CALLGRIND = [
    "valgrind",
    "--tool=callgrind",
    "--cache-sim=yes",
    "--separate-threads=yes",
    "--fair-sched=yes",
]
# What only loft's own thread executes, which gives memory back.
OWN_THREAD = "loft::background::(anonymous namespace)::run("

# First and last level, as callgrind takes them: bytes, ways, bytes of a line.
CACHES = ("32768,8,64", "8388608,16,64")
TLBS = ("262144,4,4096", "6291456,12,4096")


def read_profile(text: str) -> Counter[str] | None:
    """What one thread's profile counts, by event; None for a thread of loft's own."""
    # As a function, or as one that is called: whichever the profile names first.
    if re.search(rf"^c?fn=.*{re.escape(OWN_THREAD)}", text, re.MULTILINE):
        return None
    said = dict(re.findall(r"^(events|totals): (.*)$", text, re.MULTILINE))
    if "totals" not in said:
        raise UserError("valgrind left a profile without totals")
    # Trailing zeros are left out.
    sums = map(int, said["totals"].split())
    return Counter(dict(zip(said["events"].split(), sums, strict=False)))


def pairs(counts: Counter[str]) -> list[tuple[int, int]]:
    """Loads and stores that missed the first level, and those that missed the last."""
    return [(counts[f"{level}mr"], counts[f"{level}mw"]) for level in ("D1", "DL")]


def rates(counts: Counter[str]) -> list[str]:
    """The same in a thousand instructions."""
    thousands = counts["Ir"] / 1000
    return [
        f"{loads / thousands:.3f} + {stores / thousands:.3f}" for loads, stores in pairs(counts)
    ]


def allocator_of(name: str) -> Allocator:
    owner = name in ("thread", "cpu", "shared")
    places = ["libloft.so"] if owner else [f"peers/{name}.so", f"papers/{name}.so"]
    library = next((BUILD / place for place in places if (BUILD / place).exists()), None)
    if library is None:
        raise UserError(f"build/{' and build/'.join(places)}: not built")
    return Allocator(name, library, {"LOFT_OWNER": name} if owner else {})


def simulate(command: list[str], allocator: Allocator, levels: tuple[str, str]) -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="loft-misses-") as folder:
        where = [f"--D1={levels[0]}", f"--LL={levels[1]}", f"--callgrind-out-file={folder}/profile"]
        done = launch.run(launch.job([*CALLGRIND, *where, *command], allocator, TIMEOUT_S))
        if done.complaint:
            raise UserError(f"{allocator.name}: {done.complaint}")
        profiles = [read_profile(p.read_text()) for p in Path(folder).iterdir() if p.stat().st_size]
    return sum((counts for counts in profiles if counts is not None), Counter[str]())


def main(
    command: Annotated[list[str], typer.Argument(help="the program, after --")],
    names: Annotated[
        str, typer.Option("--with", help="owners of loft, peers, and engines of build/papers")
    ] = "thread,shared,mimalloc3",
) -> None:
    """Simulated cache and TLB misses under loft's owners, peers and papers' engines."""
    levels = ["first level", "last level", "TLB", "second TLB"]
    table = Table(["loads + stores that miss, of 1000 instructions", *levels])
    print("\n".join(as_markdown(table)))
    try:
        for allocator in map(allocator_of, names.split(",")):
            caches = rates(simulate(command, allocator, CACHES))
            table.add(allocator.name, *caches, *rates(simulate(command, allocator, TLBS)))
            print(as_markdown(table)[-1], flush=True)
    except UserError as error:
        print(f"misses: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
