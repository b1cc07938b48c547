"""What `make run` and the table of real programs' memory make of their runs."""

from __future__ import annotations

import json

import pandas as pd
import program_rss
import run_demo

from loft_malloc.tables import as_markdown


def test_the_story_tells_what_statistics_there_are() -> None:
    said = {"refills": 12345, "batch_objects": 30, "batches_sent": 4, "posts": 0, "other": "text"}
    lines = run_demo.story(f"a warning\n{json.dumps(said)}\n")
    assert [line.split()[0] for line in lines] == ["12,345", "30", "4", "7.5", "0"]
    assert run_demo.story("nothing\n") == []


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
