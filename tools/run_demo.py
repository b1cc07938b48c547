#!/usr/bin/env python3
"""Runs a real program under libc's malloc and under loft, side by side: `make run`.

The program is Python itself with its own allocator switched off, so that every object goes through
malloc. Two threads build JSON documents and parse them, two others take what was parsed, write it
out again and drop it: each document is allocated by one thread and freed by another.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from loft import launch, places
from loft.allocators import Allocator
from loft.errors import UserError
from loft.metrics import kibibytes, number, seconds
from loft.tables import Table, for_terminal

PROGRAM = Path(__file__).resolve().parent.parent / "bench" / "documents.py"
ROUNDS = 5
TIME_LIMIT_S = 120
FIGURES = {
    "time": ("wall_s", seconds),
    "peak memory": ("peak_rss_kib", kibibytes),
    "page faults": ("faults", number),
}
# What loft did for the program: a statistic, or one by another, and what is said of it.
STORY = {
    "threads_started": "threads had a cache of their own",
    "refills": "times a cache was refilled",
    "flushes": "times a cache that was full gave half of it back",
    "batch_objects": "objects freed by another thread than allocated them, in",
    "batches_sent": "batches, each of one slab, which makes",
    "batch_objects/batches_sent": "objects a batch; they went home with",
    "posts": "atomic exchanges, so that one of these served",
    "batch_objects/posts": "objects",
    "turnarounds": "objects kept by the thread that freed them, for its next calls",
    "slabs_created": "slabs were cut,",
    "slabs_released": "of them became empty and were given back",
    "large_allocations": "large objects,",
    "large_cache_hits": "of them without a system call",
    "os_maps": "calls mapped memory,",
    "os_purges": "calls gave memory back",
}


def run_program(allocator: Allocator) -> dict[str, Any]:
    python = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(PROGRAM)]
    done = launch.run(launch.job(command, allocator, TIME_LIMIT_S, {**os.environ, **python}))
    if done.usage is None or done.outcome.exit_code != 0:
        raise UserError(f"the program: {done.outcome} under {allocator.name}:\n{done.stderr}", 1)
    return {
        "allocator": allocator.name,
        "wall_s": done.usage.wall_s,
        "peak_rss_kib": done.usage.peak_rss_kib,
        "faults": done.usage.minor_faults + done.usage.major_faults,
        "output": done.stdout,
        "errors": done.stderr,
    }


def comparison(runs: pd.DataFrame) -> Table:
    medians = runs.groupby("allocator").median(numeric_only=True)
    table = Table(["", "libc", "loft", "loft / libc"])
    for label, (key, form) in FIGURES.items():
        libc, loft = (float(medians[key][name]) for name in ("libc", "loft"))
        table.add(label, form(libc), form(loft), f"{loft / libc:.2f}" if libc else "")
    return table


def story(errors: str) -> list[str]:
    """From whichever of its statistics there are: it prints them when a program ends."""
    said = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    stats = said[-1] if said else {}
    lines = []
    for key, text in STORY.items():
        over, _, under = key.partition("/")
        if over in stats and (not under or stats.get(under)):
            value = f"{stats[over] / stats[under]:,.1f}" if under else f"{stats[over]:,}"
            lines.append(f"  {value:>14}  {text}")
    return lines


def main() -> None:
    libc = Allocator("libc", None)
    loft = Allocator("loft", places.library(), {"LOFT_STATS": "json"})
    print(__doc__.split("\n\n")[1])
    print(f"\n{ROUNDS} runs under each, in turn:", end="", flush=True)
    told = []
    for _ in range(ROUNDS):
        told += [run_program(libc), run_program(loft)]
        print(".", end="", flush=True)
    print("\n")
    runs = pd.DataFrame(told)
    Console().print(for_terminal(comparison(runs)))
    if lines := story(told[-1]["errors"]):
        print("\nWhat loft did in the last of these runs:\n")
        print("\n".join(lines))
    if runs["output"].nunique() != 1:
        raise UserError("the outputs differ", 1)
    print("\nThe program wrote the same in every run.")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"run_demo: {error}")
