"""The table that shows faults and waits beside time, of the rows that bench/beside.toml names."""

import tomllib
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from bench_report import begun, compared_times
from bench_results import Entry, Kind, Results, Run

from loft_malloc.tables import Cell, Table

WRITTEN = Path(__file__).resolve().parent.parent / "bench" / "beside.toml"
# Patterns of rows, in their order.
PATTERNS = [
    pattern
    for group in tomllib.loads(WRITTEN.read_text(encoding="utf-8")).values()
    for pattern in group
]


def _a_thousand(count: float | None, run: Run) -> float | None:
    return None if count is None else 1000 * count / run.operations


def _form(value: float) -> str:
    return "<0.001" if 0 < value < 0.0005 else f"{value:.3g}"


# What the system says of every allocator alike.
COUNTS: dict[str, Callable[[Run], float | None]] = {
    "page faults": lambda run: _a_thousand(run.faults, run),
    "sleeps": lambda run: _a_thousand(run.sleeps, run),
}
# What loft says of itself.
LOCKS = {"locks taken": "locks_taken", "locks waited for": "locks_waited_for"}


def entries(data: Results) -> list[Entry]:
    timed = [row for row in data.rows if row.kind is Kind.TIMED]
    return [row for pattern in PATTERNS for row in timed if fnmatchcase(row.name, pattern)]


def beside_table(data: Results) -> Table | None:
    table = begun("Faults and waits", ["", *data.allocators])
    for original in entries(data):
        label = original.label(data.header.cores, original.name)
        row = original.valid(data.header.cores)
        counts = {what: row.rounds(figure).median() for what, figure in COUNTS.items()}
        # A run of before they were kept.
        if all(middles.empty for middles in counts.values()):
            continue
        time = row.rounds(lambda run: 1e9 / run.ops_per_second)
        compared_times(data, table, f"time, ns: {label}", time, "{:.3g}".format)
        for what, middles in counts.items():
            texts = (_form(middles[n]) if n in middles else "-" for n in data.allocators)
            table.add(f"{what}: {label}", *texts)
        _add_locks(data, table, label, row)
    return table if table.rows else None


def _add_locks(data: Results, table: Table, label: str, row: Entry) -> None:
    operations = row.medians(lambda run: run.operations).get("loft")
    for what, field in LOCKS.items():
        if operations and field in row.statistics:
            text = _form(1000 * row.statistics[field] / operations)
            cells = [Cell(text if name == "loft" else "-") for name in data.allocators]
            table.rows.append((f"{what}: {label}", cells))
