"""Hardware counters of a run, by perf, where the kernel and the machine offer them.

They come from a pass of their own: perf slows down programs that switch often, so no elapsed time
is ever taken under it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from bench_programs import command_of, run_program
from bench_rows import Row

EVENTS = (
    "instructions",
    "cycles",
    "cache-misses",
    "LLC-load-misses",
    "dTLB-load-misses",
    "dTLB-store-misses",
)


def parse(report: str) -> dict[str, float]:
    """What `perf stat -x ,` counted; events that it could not count are left out."""
    counted = {}
    for line in report.splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[0].isdigit():
            counted[fields[2].split(":")[0]] = float(fields[0])
    return counted


def events() -> tuple[list[str], str | None]:
    """The events that can be counted here, and if there are none, why not."""
    if shutil.which("perf") is None:
        return [], "perf is not installed"
    wanted = ",".join(f"{event}:u" for event in EVENTS)
    done = subprocess.run(
        ["perf", "stat", "-x", ",", "-e", wanted, "true"], capture_output=True, text=True
    )
    if done.returncode != 0:
        return [], "perf is not allowed to count"
    found = list(parse(done.stderr))
    return found, None if found else "this (virtual) machine has no hardware counters"


def count_events(
    row: Row, library: Path | None, wanted: list[str], extra: dict[str, str]
) -> dict[str, float]:
    preload = [] if library is None else [f"LD_PRELOAD={library}"]
    with tempfile.NamedTemporaryFile(prefix="loft-perf-") as report:
        perf = ["perf", "stat", "-x", ",", "-o", report.name]
        perf += ["-e", ",".join(f"{event}:u" for event in wanted)]
        run_program([*perf, "--", "env", *preload, *command_of(row)], None, extra | row.environment)
        return parse(Path(report.name).read_text())
