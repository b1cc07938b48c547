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

from loft_malloc import compare_command, launch, places
from loft_malloc.allocators import Allocator
from loft_malloc.comparison import Plan
from loft_malloc.errors import UserError

PROGRAM = Path(__file__).resolve().parent.parent / "bench" / "documents.py"
ROUNDS = 6
TIME_LIMIT_S = 120
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
    print(__doc__.split("\n\n")[1], flush=True)
    os.environ |= {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(PROGRAM)]
    under = [Allocator("glibc", None), Allocator("loft", places.library())]
    plan = Plan(command, under, ROUNDS, TIME_LIMIT_S, tail_s=0, show_output=False)
    if code := compare_command.compare(plan, compare_command.Files()):
        sys.exit(code)
    os.environ["LOFT_STATS"] = "json"
    libc, loft = (launch.run(launch.job(command, each, TIME_LIMIT_S)) for each in under)
    if lines := story(loft.stderr):
        print("\nWhat loft did in one more run:\n")
        print("\n".join(lines))
    if (libc.stdout, libc.complaint) != (loft.stdout, loft.complaint):
        raise UserError("the outputs differ", 1)
    print("\nThe program wrote the same under both.")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"run_demo: {error}")
