"""The pictures of a set of runs: which there are, and what each shows, as plain figures.

results.py links them and picture.py draws them; only the latter needs anything to draw with.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field

from bench_report import METRICS, Json, find_row, metric_table
from bench_tables import QUANTILES

# File, and what it shows.
PICTURES = {
    "results.svg": "Throughput of loft and its peers, a line a workload",
    "owners.svg": "Throughput of loft by its three owners, against the best peer",
    "scaling.svg": "Throughput over threads, a field for each benchmark of the a3alloc report",
    "sizes.svg": "Throughput of malloc-test by object size",
    "start.svg": "Throughput of malloc-test from its start on",
    "idle.svg": "Resident memory over time: allocate, free nineteen in twenty, do nothing",
    "latency.svg": "Latency of malloc and free by quantile",
    "sweeps.svg": "loft under its own options, and with other batch caches",
}


@dataclass
class Field:
    """One set of axes with a line for each allocator (or each of something else)."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    # Names for the places on the x axis, if they are not numbers.
    ticks: list[str] = field(default_factory=list)


def speed(runs: list[Json]) -> float:
    return statistics.median(float(run["ops_per_second"]) for run in runs) / 1e6


def lines_over(data: Json, pattern: str) -> dict[str, Field]:
    """Rows whose names match, by the first group, over the number in the second."""
    fields: dict[str, Field] = {}
    for row in data["rows"]:
        found = re.fullmatch(pattern, row["name"])
        if found is None or row["kind"] != "timed":
            continue
        shown = fields.setdefault(found[1], Field(found[1], "", "million operations/s"))
        for name, runs in row["runs"].items():
            if runs:
                shown.lines.setdefault(name, []).append((float(found[2]), speed(runs)))
    return {
        title: shown
        for title, shown in fields.items()
        if max(map(len, shown.lines.values()), default=0) > 1
    }


def scaling(data: Json) -> list[Field]:
    fields = list(lines_over(data, r"([a-z-]+), (\d+) threads?").values())
    for shown in fields:
        shown.x = "threads"
    return fields


def sizes(data: Json) -> list[Field]:
    fields = list(lines_over(data, r"(malloc-test) of (\d+) B").values())
    for shown in fields:
        shown.x, shown.log_x, shown.log_y = "bytes of an object", True, True
    return fields


def start(data: Json) -> list[Field]:
    shown = Field("malloc-test 1:1", "seconds since the start", "million objects/s")
    for row in data["rows"]:
        for name, runs in row["runs"].items():
            if not runs or "marks" not in runs[0]:
                continue
            marks = [0.0, *runs[0]["marks"]]
            # Every second one: single steps are jagged.
            each = 2 * runs[0]["operations"] / (len(marks) - 1) / 1e6
            shown.lines[name] = [
                (b, each / (b - a)) for a, b in zip(marks[::2], marks[2::2], strict=False) if b > a
            ]
    return [shown] if shown.lines else []


def idle(data: Json) -> list[Field]:
    row = find_row(data, "idle return")
    shown = Field("", "seconds since all was freed", "MiB resident, LazyFree left out")
    for name, runs in (row["runs"] if row else {}).items():
        if not runs:
            continue
        samples = runs[0]["memory"]
        freed = next(s["at"] for s in samples if s["label"] == "freed")
        shown.lines[name] = [
            (s["at"] - freed, (s["rss_kib"] - s["lazy_free_kib"]) / 1024)
            for s in samples
            if s["label"] != "start"
        ]
    return [shown] if shown.lines else []


def latency(data: Json) -> list[Field]:
    row = find_row(data, "latency")
    fields = []
    for call in ("malloc", "free"):
        shown = Field(call, "", "ns", log_y=True, ticks=list(QUANTILES))
        for name, runs in (row["runs"] if row else {}).items():
            if runs:
                shown.lines[name] = [
                    (float(i), statistics.median(float(run[f"{call}_ns"][q]) for run in runs))
                    for i, q in enumerate(QUANTILES)
                ]
        if shown.lines:
            fields.append(shown)
    return fields


def bytes_of(text: str) -> float:
    return float(text.rstrip("KMG")) * 1024.0 ** " KMG".index(text[-1])


def sweeps(data: Json) -> list[Field]:
    fields: dict[str, Field] = {}
    for row in data["rows"]:
        setting = re.match(r"LOFT_\w+=(\d+[KMG])", row["command"])
        runs = row["runs"].get("loft")
        if row["kind"] != "sweep" or setting is None or not runs:
            continue
        shown = fields.setdefault(
            row["group"], Field(row["group"], "bytes", "million objects/s", log_x=True)
        )
        shown.lines.setdefault("loft", []).append((bytes_of(setting[1]), speed(runs)))
    return [*fields.values(), *batch_cache(data)]


def batch_cache(data: Json) -> list[Field]:
    """Objects a message, which no other program disturbs, over the number of open batches."""
    fields: dict[str, Field] = {}
    for row in data["rows"]:
        counted = row.get("statistics", {})
        variant = re.fullmatch(r"(\d+)x(\d+)(?:-(.*))?", row.get("variant", ""))
        if variant is None or not counted.get("batch_messages"):
            continue
        shown = fields.setdefault(
            row["group"], Field(row["group"], "open batches", "objects a message", log_x=True)
        )
        ways, sets = int(variant[1]), int(variant[2])
        name = variant[3] or ("1 way" if ways == 1 else f"{ways} ways")
        each = counted["batch_objects"] / counted["batch_messages"]
        shown.lines.setdefault(name, []).append((ways * sets, each))
    return list(fields.values())


def overview(data: Json) -> tuple[str, list[str], dict[str, list[tuple[float, float]]]]:
    """Title, the rows, and for each allocator its ratio in each row (by position)."""
    table = metric_table(data, METRICS[0])
    if table is None:
        return "", [], {}
    rows = [entry for entry in table.rows if not entry[0].startswith("geometric")]
    points: dict[str, list[tuple[float, float]]] = {}
    for column, name in enumerate(table.columns[1:-1]):
        for position, (_, cells) in enumerate(rows):
            text = cells[column].text.split()[0]
            if text[0].isdigit():
                points.setdefault(name, []).append((float(text), float(position)))
    return table.title, [label for label, _ in rows], points
