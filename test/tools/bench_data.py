"""What the JSON of a benchmark run says of its machine, for the tests of runner and tables."""

from __future__ import annotations

from typing import Any

from bench_results import Header


def header(**changed: Any) -> Header:
    base = {
        "date": "2026-01-01 00:00 UTC",
        "cpu": "a CPU",
        "cores": 2,
        "virtual": "",
        "memory_gib": 8.0,
        "system": "Debian",
        "kernel": "6",
        "huge_pages": "madvise",
        "versions": {"snmalloc": "1"},
        "counters": "none",
    }
    return Header.model_validate(base | changed)
