#!/usr/bin/env python3
"""Peak memory of the real programs under loft, the C library and the peers.

    tools/program_rss.py [--runs N] [PROGRAM...]

Every program of test/programs/programs.py runs under each allocator in turn, and that some times
over, so that what changes on the machine meanwhile meets all of them. The figure is the largest
resident set that one process of the program reached; the medians are compared. loft should need at
most 5 % more than the best peer. The table goes to standard output, every run to
build/program_rss.json.
"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from loft_malloc import launch, linked
from loft_malloc.allocators import PEERS, Allocator, built
from loft_malloc.tables import Cell, Table, as_markdown

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "test" / "programs"))
from programs import PROGRAMS, Program, environment, prepare, script  # noqa: E402

ALLOWED = 1.05
REPORT = ROOT / "build" / "program_rss.json"


def allocators() -> list[Allocator]:
    # The C library's own too is preloaded: some programs bring another malloc along.
    libc = linked.libc(Path(sys.executable))
    there = [each for each in built(ROOT / "build")[1:] if not each.variables]
    if not any(each.name in PEERS for each in there):
        sys.exit("program_rss: no peers in build/peers; run `make peers` first")
    return [Allocator("glibc", libc), *there]


def peak_kib(program: Program, allocator: Allocator, inputs: Path) -> float | None:
    """None where it fails: what gave up early has held less than it would have."""
    with tempfile.TemporaryDirectory(prefix="loft-rss-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        variables = environment(Path(folder)) | {"INPUT": str(inputs)} | dict(program.env)
        command = ["bash", "-c", script(program)]
        job = launch.Job(
            command, str(allocator.library), program.timeout, environment=variables, folder=work
        )
        done = launch.run(job)
    return None if done.complaint or done.usage is None else done.usage.peak_rss_kib


def table(runs: pd.DataFrame, names: list[str]) -> Table:
    made = Table(["program, MiB", *names, "best peer", "loft / best"])
    for program, some in runs.groupby("program", sort=False):
        # Of an allocator under which one run failed none counts.
        medians = some.groupby("allocator")["peak_kib"].apply(
            lambda each: each.median(skipna=False)
        )
        peers = medians.reindex(PEERS).dropna()
        best = str(peers.idxmin()) if not peers.empty else ""
        ratio = medians["loft"] / peers[best] if best else float("nan")
        texts = ["fails" if pd.isna(kib) else f"{kib / 1024:.1f}" for kib in medians[names]]
        verdict = Cell(f"{ratio:.2f}", "level" if ratio <= ALLOWED else "behind")
        made.rows.append((str(program), [*map(Cell, texts), Cell(best), verdict]))
    return made


def main(
    programs: Annotated[list[str] | None, typer.Argument(help="only these")] = None,
    runs: Annotated[int, typer.Option(min=1, help="runs of each pair")] = 3,
) -> None:
    """Peak memory of real programs, in MiB."""
    if unknown := set(programs or ()) - {program.name for program in PROGRAMS}:
        sys.exit(f"program_rss: no program named {', '.join(sorted(unknown))}")
    under = allocators()
    measured = []
    with tempfile.TemporaryDirectory(prefix="loft-rss-") as inputs:
        prepare(Path(inputs))
        for program in [each for each in PROGRAMS if not programs or each.name in programs]:
            print(f"program_rss: {program.name}", file=sys.stderr)
            for _ in range(runs):
                for each in under:
                    peak = peak_kib(program, each, Path(inputs))
                    measured.append((program.name, each.name, peak))
    frame = pd.DataFrame(measured, columns=["program", "allocator", "peak_kib"])
    REPORT.write_text(frame.to_json(orient="records", indent=2) + "\n")
    made = table(frame, [each.name for each in under])
    print("\n".join(as_markdown(made)))
    if any(cells[-1].verdict == "behind" for _, cells in made.rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
