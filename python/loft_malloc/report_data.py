"""A comparison for machines: JSON with every run, CSV with what the tables hold.

compare.schema.json describes the JSON.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loft_malloc import host, places
from loft_malloc.comparison import Comparison, Measured
from loft_malloc.launch import COUNTS_UNITS, USAGE_UNITS
from loft_malloc.metrics import Metric, Row

# The version of what compare.schema.json describes.
SCHEMA = 1
STATS_SCHEMA = 1
COLUMNS = ["allocator", "metric", "unit", "median", "spread", "ratio", "verdict"]


def write_json(
    path: Path, comparison: Comparison, rows: list[Row], verdict: str, remarks: list[str]
) -> None:
    load = comparison.plan.load
    told = {
        "schema": SCHEMA,
        **_head(comparison),
        "load": None if load is None else {"client": load.client, "port": load.port},
        "runs": comparison.plan.runs,
        "units": {**USAGE_UNITS, **COUNTS_UNITS, "memory": "s, KiB"},
        "metrics": {row.metric.key: _metric(row.metric) for row in rows},
        "allocators": [_allocator(each, rows) for each in comparison.measured],
        "verdict": verdict,
        "conclusions": {row.metric.key: row.conclusion for row in rows if row.conclusion},
        "remarks": remarks,
    }
    path.write_text(json.dumps(told, indent=1) + "\n")


def write_stats(path: Path, comparison: Comparison) -> None:
    """What loft's rows said of themselves, process by process."""
    told = {
        "schema": STATS_SCHEMA,
        **_head(comparison),
        "rows": [
            {
                "name": each.allocator.name,
                "variables": dict(each.allocator.variables),
                "processes": [{"pid": pid, "stats": stats} for pid, stats in each.stats],
            }
            for each in comparison.measured
            if each.stats is not None
        ],
    }
    path.write_text(json.dumps(told, indent=1) + "\n")


def _head(comparison: Comparison) -> dict[str, Any]:
    return {
        "loft": places.version(),
        "command": comparison.plan.command,
        "started": comparison.started.isoformat(timespec="seconds"),
        "machine": asdict(host.this()),
    }


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "title": metric.title,
        "unit": metric.unit,
        "better": "more" if metric.more else "less",
        "judged": metric.judged,
    }


def _allocator(measured: Measured, rows: list[Row]) -> dict[str, Any]:
    name, library = measured.allocator.name, measured.allocator.library
    return {
        "name": name,
        "library": None if library is None else str(library),
        "variables": dict(measured.allocator.variables),
        "usable": measured.usable,
        "outcomes": [
            {"kind": outcome.kind, "number": outcome.number, "text": str(outcome), "runs": count}
            for outcome, count in measured.outcomes.items()
        ],
        "summary": {
            row.metric.key: asdict(row.summaries[name]) for row in rows if name in row.summaries
        },
        "runs": [asdict(usage) for usage in measured.usages],
        "client": [
            {quantity.key: value for quantity, value in reading.items()}
            for reading in measured.readings
            if reading
        ],
        "counts": [
            {"instructions": counts.instructions, "cycles": counts.cycles}
            for counts in measured.counts
        ],
        "memory": [] if measured.memory is None else measured.memory.samples,
    }


def write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            for name, summary in row.summaries.items():
                values = asdict(summary)
                key, unit = row.metric.key, row.metric.unit
                writer.writerow([name, key, unit, *(values[column] for column in COLUMNS[3:])])
