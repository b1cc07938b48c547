#!/usr/bin/env python3
"""Peak memory of the real programs under loft, the C library and the peers.

    tools/program_rss.py [--runs N] [PROGRAM...]

Every program of tools/programs.py runs under each allocator in turn, and that some times over, so
that what changes on the machine meanwhile meets all of them. The figure is the largest resident set
that one process of the program reached; the medians are compared. loft should need at most 5 % more
than the best peer. The table goes to standard output, every run to build/program_rss.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from programs import PROGRAMS, ROOT, Program, library, prepare, run

ALLOWED = 1.05
REPORT = ROOT / "build" / "program_rss.json"
# A first sketch of loft, built beside the peers as a yardstick; it does not compete.
NO_PEER = {"prototype"}


@dataclass(frozen=True)
class Row:
    program: str
    runs_kib: dict[str, list[int]]
    median_kib: dict[str, float]
    failed: list[str]
    best_peer: str
    # loft's median over the best peer's.
    ratio: float

    @property
    def holds(self) -> bool:
        return "loft" not in self.failed and self.ratio <= ALLOWED


def allocators() -> dict[str, Path]:
    peers = sorted((ROOT / "build" / "peers").glob("*.so"))
    if not peers:
        sys.exit("program_rss: no peers in build/peers; run `make peers` first")
    # The C library's own too is preloaded: some programs bring another malloc along.
    libc = next(
        Path(line.split()[-1])
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/libc.so.6" in line
    )
    return {"glibc": libc, "loft": library()} | {peer.stem: peer for peer in peers}


def measure(program: Program, under: dict[str, Path], inputs: Path, runs: int) -> Row:
    peaks: dict[str, list[int]] = {name: [] for name in under}
    failed: list[str] = []
    for _ in range(runs):
        for name, preload in under.items():
            if name in failed:
                continue
            with tempfile.TemporaryDirectory(prefix="loft-rss-") as folder:
                outcome = run(program, Path(folder), inputs, preload)
            # A program that gave up early has held less than it would have.
            if outcome.status == 0:
                peaks[name].append(outcome.peak_kib)
            else:
                failed.append(name)
                peaks[name] = []
    median = {name: statistics.median(values) for name, values in peaks.items() if values}
    peers = median.keys() - NO_PEER - {"glibc", "loft"}
    best = min(peers, key=lambda name: median[name], default="")
    ratio = median["loft"] / median[best] if best and "loft" in median else float("nan")
    return Row(program.name, peaks, median, failed, best, ratio)


def table(rows: list[Row], names: list[str]) -> str:
    lines = ["| program | " + " | ".join(names) + " | best peer | loft / best |"]
    lines.append("|---|" + "---:|" * len(names) + "---|---:|")
    for row in rows:
        cells = [
            f"{row.median_kib[name] / 1024:.1f}" if name in row.median_kib else "fails"
            for name in names
        ]
        verdict = f"{row.ratio:.2f}" + ("" if row.holds else " over")
        lines.append(f"| {row.program} | {' | '.join(cells)} | {row.best_peer} | {verdict} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Peak memory of real programs, in MiB.")
    parser.add_argument("--runs", type=int, default=3, help="runs of each pair (default 3)")
    parser.add_argument("programs", nargs="*", help="only these (default all)")
    arguments = parser.parse_args()
    unknown = set(arguments.programs) - {program.name for program in PROGRAMS}
    if unknown:
        parser.error(f"no program named {', '.join(sorted(unknown))}")
    chosen = [p for p in PROGRAMS if not arguments.programs or p.name in arguments.programs]

    under = allocators()
    rows = []
    with tempfile.TemporaryDirectory(prefix="loft-rss-") as inputs:
        prepare(Path(inputs))
        for program in chosen:
            print(f"program_rss: {program.name}", file=sys.stderr)
            rows.append(measure(program, under, Path(inputs), arguments.runs))
    report = {"allowed": ALLOWED, "runs": arguments.runs, "programs": [asdict(row) for row in rows]}
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(table(rows, list(under)))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
