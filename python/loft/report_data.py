"""A comparison for machines: JSON with every run, CSV with what the tables hold."""

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loft import places
from loft.comparison import Comparison, Measured
from loft.metrics import Row

COLUMNS = ["allocator", "metric", "unit", "median", "spread", "ratio", "verdict"]


def write_json(
    path: Path, comparison: Comparison, rows: list[Row], verdict: str, remarks: list[str]
) -> None:
    plan = comparison.plan
    told = {
        "loft": places.version(),
        "command": plan.command,
        "runs": plan.runs,
        "allocators": [_allocator(each, rows) for each in comparison.measured],
        "verdict": verdict,
        "conclusions": {row.metric.key: row.conclusion for row in rows if row.conclusion},
        "remarks": remarks,
    }
    path.write_text(json.dumps(told, indent=1) + "\n")


def _allocator(measured: Measured, rows: list[Row]) -> dict[str, Any]:
    name, library = measured.allocator.name, measured.allocator.library
    return {
        "name": name,
        "library": None if library is None else str(library),
        "usable": measured.usable,
        "outcomes": [
            {"kind": outcome.kind, "number": outcome.number, "text": str(outcome), "runs": count}
            for outcome, count in measured.outcomes.items()
        ],
        "summary": {
            row.metric.key: asdict(row.summaries[name]) for row in rows if name in row.summaries
        },
        "runs": [asdict(usage) for usage in measured.usages],
        "counts": [
            {"instructions": counts.instructions, "cycles": counts.cycles}
            for counts in measured.counts
        ],
        # Seconds and KiB.
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
