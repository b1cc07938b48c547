#!/usr/bin/env python3
"""Simulated cache and TLB misses of a program's own threads, under loft's owners and a peer.

    tools/misses.py -- xalan -in big.xml -xsl sheet.xsl -out /dev/null
    tools/misses.py --with thread,keeper,mimalloc3 -- redis-benchmark ...

For machines without hardware counters. valgrind's callgrind runs the program twice under each
allocator: once with caches (32 KiB and 8 MiB, lines of 64 bytes), once with translation buffers in
their place (64 and 1536 entries, "lines" of a page). It counts by thread, so that what loft's own
threads miss is left out; these are found by what they execute.

All threads share the simulated caches. As the last level that is what a processor has; of the
first level and of the translation buffers it is to the disadvantage of owner=keeper, whose room
has those of another core. And valgrind runs one thread at a time: a thread finds the room late
more often than beside it, and then does the room's work itself.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TIMEOUT_S = 1800

# What only loft's own threads execute: the room, and the keeper that gives memory back.
OWN_THREADS = ("loft::magazines::serve(", "loft::keeper::(anonymous namespace)::run(")

# First and last level, as callgrind takes them: bytes, ways, bytes of a line.
CACHES = ("32768,8,64", "8388608,16,64")
TLBS = ("262144,4,4096", "6291456,12,4096")


class MissesError(Exception):
    pass


@dataclass(frozen=True)
class Counts:
    instructions: int = 0
    first: int = 0
    last: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.instructions + other.instructions,
            self.first + other.first,
            self.last + other.last,
        )

    def per_thousand(self, misses: int) -> float:
        return 1000 * misses / self.instructions


def read_profile(text: str) -> Counts | None:
    """What one thread's profile counts; None for a thread of loft's own."""
    events: list[str] = []
    sums: list[int] = []
    for line in text.splitlines():
        if line.startswith("events: "):
            events = line.split()[1:]
        elif line.startswith("totals: "):
            sums = [int(word) for word in line.split()[1:]]
        # As a function, or as one that is called: whichever the profile names first.
        elif line.startswith(("fn=", "cfn=")) and any(name in line for name in OWN_THREADS):
            return None
    if not sums:
        raise MissesError("valgrind left a profile without totals")
    # Trailing zeros are left out.
    of = dict(zip(events, sums + [0] * len(events), strict=False))
    return Counts(of["Ir"], of["D1mr"] + of["D1mw"], of["DLmr"] + of["DLmw"])


def settings_of(name: str) -> dict[str, str]:
    """The environment that chooses an allocator."""
    if name in ("thread", "core", "keeper"):
        library = BUILD / "libloft.so"
        # Programs of one thread are counted with the room, too.
        chosen = {"LOFT_OWNER": name, "LOFT_BACKGROUND": "on"}
    else:
        library = BUILD / "peers" / f"{name}.so"
        chosen = {}
    if not library.exists():
        raise MissesError(f"{library.relative_to(ROOT)} is not built")
    return {"LD_PRELOAD": str(library)} | chosen


def simulate(command: list[str], name: str, levels: tuple[str, str]) -> Counts:
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | settings_of(name)
    with tempfile.TemporaryDirectory(prefix="loft-misses-") as folder:
        valgrind = [
            "valgrind",
            "--tool=callgrind",
            "--cache-sim=yes",
            "--separate-threads=yes",
            "--fair-sched=yes",
            f"--D1={levels[0]}",
            f"--LL={levels[1]}",
            f"--callgrind-out-file={folder}/profile",
        ]
        try:
            done = subprocess.run(
                [*valgrind, *command],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=TIMEOUT_S,
            )
        except FileNotFoundError:
            raise MissesError("valgrind is not installed") from None
        except subprocess.TimeoutExpired:
            raise MissesError(f"{name}: no end after {TIMEOUT_S} s") from None
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            raise MissesError(f"{name}: exit {done.returncode}: {last[0]}")
        profiles = [read_profile(p.read_text()) for p in Path(folder).iterdir() if p.stat().st_size]
    return sum((counts for counts in profiles if counts is not None), Counts())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--with",
        dest="names",
        default="thread,keeper,mimalloc3",
        help="owners of loft and peers in build/peers (default %(default)s)",
    )
    parser.add_argument("command", nargs="+", help="the program, after --")
    arguments = parser.parse_args()
    print("| misses per 1000 instructions | first level | last level | TLB | second TLB |")
    print("|---|---:|---:|---:|---:|")
    try:
        for name in arguments.names.split(","):
            caches = simulate(arguments.command, name, CACHES)
            pages = simulate(arguments.command, name, TLBS)
            cells = [
                caches.per_thousand(caches.first),
                caches.per_thousand(caches.last),
                pages.per_thousand(pages.first),
                pages.per_thousand(pages.last),
            ]
            print(f"| {name} | {' | '.join(f'{cell:.3f}' for cell in cells)} |", flush=True)
    except MissesError as error:
        print(f"misses: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
