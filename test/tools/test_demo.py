"""What `make run` and the table of real programs' memory make of their runs."""

from __future__ import annotations

import json
import re

import pandas as pd
import program_rss
import run_demo
from run_demo import Compared, Run

from loft_malloc.tables import as_markdown


def runs(seconds: list[float], peak_mib: float, alive: int = 0) -> list[Run]:
    output = json.dumps({"peak_live_bytes": alive << 20})
    return [Run(each, peak_mib, output) for each in seconds]


def test_the_demo_ends_with_three_lines() -> None:
    glibc, loft = runs([9.0, 2.0, 1.0], 300, 200), runs([0.5, 0.5, 7.0], 75, 50)
    messages = Compared.of("messages", glibc, loft)
    stats = {"batch_objects": 6000, "posts": 100}
    time, memory, why = run_demo.summary(messages, glibc[0], loft[0], stats)
    assert time == "Faster by 75 %: 0.50 s of processor time; 2.00 s under glibc."
    assert memory.startswith("Smaller by 75 %: 75 MiB at the peak, 50 of them in the queue;")
    assert "6,000 objects" in why and "100 atomic operations, one for 60" in why
    # A loss is told as one.
    other_way = Compared.of("messages", loft, glibc)
    time, memory, _ = run_demo.summary(other_way, loft[0], glibc[0], stats)
    assert time.startswith("Slower by 300 %") and memory.startswith("Larger by 300 %")


def test_the_demo_names_what_loft_loses() -> None:
    documents = Compared.of("documents", runs([2.0], 50), runs([1.0], 60))
    assert documents.losses() == ["documents take 20 % more memory under loft"]
    assert Compared.of("documents", runs([2.0], 50), runs([2.0], 50)).losses() == []
    *_, row = run_demo.table([documents])
    assert re.sub(" +", " ", row) == "documents 2.00 s 1.00 s -50 % 50 MiB 60 MiB +20 %"


def test_memory_of_programs_is_compared_with_the_best_peer() -> None:
    measured = [
        ("good", "loft", 1040),
        ("good", "jemalloc", 1000),
        ("good", "snmalloc", 2000),
        # The sketch is no peer.
        ("good", "prototype", 1),
        ("large", "loft", 1100),
        ("large", "jemalloc", 1000),
        # One run of it failed.
        ("large", "snmalloc", 100),
        ("large", "snmalloc", None),
        ("large", "prototype", 1),
        ("fails", "loft", None),
        ("fails", "jemalloc", 1000),
        ("fails", "snmalloc", 1000),
        ("fails", "prototype", 1),
    ]
    frame = pd.DataFrame(measured, columns=["program", "allocator", "peak_kib"])
    names = ["loft", "jemalloc", "snmalloc", "prototype"]
    table = program_rss.table(frame, names)
    assert {label: cells[-1].verdict for label, cells in table.rows} == {
        "good": "level",
        "large": "behind",
        "fails": "behind",
    }
    lines = as_markdown(table)
    assert lines[2] == "| good | 1.0 | 1.0 | 2.0 | 0.0 | jemalloc | 1.04 |"
    assert lines[3] == "| large | 1.1 | 1.0 | fails | 0.0 | jemalloc | **1.10** ▼ |"
