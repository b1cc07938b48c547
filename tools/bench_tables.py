"""The tables of rows that are not about throughput: start-up, instructions, latencies, sweeps.

And all tables together, with the list of what loft loses.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench_memory import memory_table, mib, return_table, wake_table
from bench_report import METRICS, Cell, Json, Table, compared, find_row, medians, metric_table


def startup_table(data: Json) -> Table | None:
    row = find_row(data, "start-up")
    if row is None or not any(row["runs"].values()):
        return None
    names: list[str] = data["allocators"]
    table = Table(
        "Hello, world",
        "A program that does nothing: what loading the allocator costs. Absolute, and in "
        "parentheses the difference from glibc.",
        ["", *names],
    )
    for title, key, form in (
        ("start to exit, ms (median)", "median_start_ms", "{:.2f}"),
        ("peak RSS, KiB", "hello_peak_rss_kib", "{:.0f}"),
        ("system calls", "hello_system_calls", "{:.0f}"),
    ):
        middle = {
            name: statistics.median(float(run[key]) for run in runs)
            for name, runs in row["runs"].items()
            if runs
        }
        base = middle.get("glibc", 0.0)

        def text(value: float, form: str = form, base: float = base) -> str:
            added = f" ({'{:+' + form[2:]})".format(value - base) if base and value != base else ""
            return form.format(value) + added

        compared(data, table, title, middle, text)
    return table


def instruction_table(data: Json) -> Table | None:
    counted: dict[str, Json] = data.get("instructions", {})
    if not counted:
        return None
    names = [name for name in data["allocators"] if name in counted]
    objects = counted[names[0]]["remote_free"]["objects"]
    table = Table(
        "Instructions of one call",
        "Counted by single-stepping, the loop and the PLT left out: malloc + free of a cached "
        f"object, and a free of what another thread allocated, over {objects} such objects.",
        ["", *names],
    )
    sizes = [pair["size"] for pair in counted[names[0]]["pairs"]]
    for i, size in enumerate(sizes):
        cells = []
        for name in names:
            pair = counted[name]["pairs"][i]
            text = f"{pair['pair']} ({pair['malloc']} + {pair['free']})"
            if pair["calls"]:
                text += f", {pair['calls']} calls"
            if pair["locked"]:
                text += f", {pair['locked']} locked"
            cells.append(Cell(text))
        table.rows.append((f"malloc + free of {size} B", cells))
    remote = {name: counted[name]["remote_free"] for name in names}
    table.rows.append(
        ("remote free of 64 B: median", [Cell(str(remote[n]["median"])) for n in names])
    )
    table.rows.append(
        ("remote free of 64 B: mean", [Cell(f"{remote[n]['mean']:.1f}") for n in names])
    )
    table.rows.append(
        (
            "locked instructions per remote free",
            [Cell(f"{remote[n]['locked_per_object']:.4f}") for n in names],
        )
    )
    return table


QUANTILES = ("p50", "p99", "p99.9", "p99.99", "p99.999", "max")


def quantile_of(call: str, quantile: str, run: Json) -> float:
    return float(run[f"{call}_ns"][quantile])


def latency_table(data: Json) -> Table | None:
    row = find_row(data, "latency")
    if row is None or not any(row["runs"].values()):
        return None
    clocks = [run["clock_ns"]["p50"] for runs in row["runs"].values() for run in runs]
    table = Table(
        "Latency",
        "Nanoseconds of single calls, by two threads that replace objects of 16 to 1024 bytes in a "
        "table of 20 000 that they share; the median over the rounds. "
        f"{statistics.median(clocks):.0f} ns of each are the clock's. Where nothing is called "
        "between two looks at it, the far end is the system's alone: interrupts, and whoever else "
        "runs.",
        ["", *data["allocators"]],
    )
    for call in ("malloc", "free"):
        for quantile in QUANTILES:
            figures = medians(row, partial(quantile_of, call, quantile))
            compared(data, table, f"{call} {quantile}", figures, "{:.0f}".format)
    for quantile in QUANTILES:
        figures = medians(row, partial(quantile_of, "clock", quantile))
        cells = [Cell(f"{figures[n]:.0f}" if n in figures else "-") for n in data["allocators"]]
        table.rows.append((f"nothing {quantile}", cells))
    return table


def warm_up_table(data: Json) -> Table | None:
    row = find_row(data, "malloc-test, from the start")
    if row is None or not any(row["runs"].values()):
        return None
    table = Table(
        "From the start",
        "malloc-test 1:1: millions of objects a second in the first twentieth of the run, in its "
        "second half, and the ratio.",
        ["", *data["allocators"]],
    )

    def rates(run: Json) -> tuple[float, float]:
        marks = run["marks"]
        each = run["operations"] / len(marks) / 1e6
        early, half = len(marks) // 20, len(marks) // 2
        second = each * (len(marks) - half) / (marks[-1] - marks[half - 1])
        return each * early / marks[early - 1], second

    found = {name: rates(runs[0]) for name, runs in row["runs"].items() if runs}
    lines: dict[str, list[Cell]] = {"first twentieth": [], "second half": [], "ratio": []}
    for name in data["allocators"]:
        early, late = found.get(name, (0.0, 0.0))
        texts = (f"{early:.1f}", f"{late:.1f}", f"{early / late:.2f}" if late else "")
        for cells, text in zip(lines.values(), texts, strict=True):
            cells.append(Cell(text if name in found else "-"))
    table.rows = list(lines.items())
    return table


def middle(row: Json, key: str) -> float:
    return statistics.median(float(run[key]) for run in row["runs"]["loft"])


def counted_per(row: Json, what: str, each: str, scale: int = 1) -> str | None:
    counted = row.get("statistics", {})
    return f"{scale * counted[what] / counted[each]:.1f}" if counted.get(each) else None


def most_in_huge_pages(row: Json) -> str | None:
    runs = [run["phases"] for run in row["runs"]["loft"] if "phases" in run]
    most = [max(phase["huge_kib"] for phase in phases) for phases in runs]
    return mib(statistics.median(most)) if most else None


def misses(row: Json, event: str) -> str | None:
    counted = row.get("counters", {}).get("loft", {})
    if event not in counted:
        return None
    return f"{1000 * counted[event] / middle(row, 'operations'):.3g}"


# What a sweep shows, where its rows have it.
SWEEP_COLUMNS: tuple[tuple[str, Callable[[Json], str | None]], ...] = (
    ("peak MiB", lambda row: mib(middle(row, "peak_rss_kib"))),
    ("objects a batch", lambda row: counted_per(row, "batch_objects", "batches_sent")),
    ("objects a message", lambda row: counted_per(row, "batch_objects", "batch_messages")),
    (
        "messages a thousand objects",
        lambda row: counted_per(row, "batch_messages", "batch_objects", 1000),
    ),
    ("most MiB in huge pages", most_in_huge_pages),
    ("TLB load misses a thousand operations", lambda row: misses(row, "dTLB-load-misses")),
    ("TLB store misses a thousand operations", lambda row: misses(row, "dTLB-store-misses")),
)


def sweep_tables(data: Json) -> list[Table]:
    """loft under one option, or built otherwise; the default is the measure."""
    groups: dict[str, list[Json]] = {}
    for row in data["rows"]:
        if row["kind"] == "sweep" and row["runs"].get("loft"):
            groups.setdefault(row["group"], []).append(row)
    made = []
    for title, rows in groups.items():
        base = middle(rows[0], "ops_per_second")
        texts = {name: [text(row) for row in rows] for name, text in SWEEP_COLUMNS}
        shown = {name: column for name, column in texts.items() if any(column)}
        head = ["", "million operations/s", "to the default", *shown]
        table = Table(title[0].upper() + title[1:], "loft alone.", head)
        for number, row in enumerate(rows):
            speed = middle(row, "ops_per_second")
            cells = [Cell(f"{speed / 1e6:.1f}"), Cell(f"{speed / base:.2f}")]
            cells += [Cell(column[number] or "-") for column in shown.values()]
            table.rows.append((row["name"].removeprefix(f"{title}: "), cells))
        made.append(table)
    return made


def statistics_table(data: Json) -> Table | None:
    """loft's own counters, by row."""
    table = Table(
        "What loft counted",
        "loft's own statistics in a separate run of the whole program: how often it left its fast "
        "paths, and what it asked of the system.",
        [
            "workload",
            "refills",
            "flushes",
            "batches",
            "objects a batch",
            "posts",
            "drains",
            "slabs made",
            "locks",
            "maps",
            "purges",
        ],
    )
    for row in data["rows"]:
        counted = row.get("statistics")
        if counted is None or row["kind"] == "sweep":
            continue
        batches = counted["batches_sent"]
        each = f"{counted['batch_objects'] / batches:.1f}" if batches else "-"
        cells = [str(counted[key]) for key in ("refills", "flushes", "batches_sent")]
        cells.append(each)
        cells += [
            str(counted[key])
            for key in ("posts", "drains", "slabs_created", "locks_taken", "os_maps", "os_purges")
        ]
        table.rows.append((row["name"], [Cell(text) for text in cells]))
    return table if table.rows else None


def tables(data: Json) -> list[Table]:
    made = [metric_table(data, metric) for metric in METRICS]
    made += [latency_table(data), return_table(data), memory_table(data), wake_table(data)]
    made += [warm_up_table(data), startup_table(data), instruction_table(data)]
    made += sweep_tables(data)
    made.append(statistics_table(data))
    return [table for table in made if table is not None]


@dataclass(frozen=True)
class Loss:
    row: str
    table: str
    # How often as good as the best peer.
    gain: float


def losses(data: Json) -> list[Loss]:
    """Where loft is behind the best peer, the worst first; of tables that move together, one."""
    counted = [metric_table(data, metric) for metric in METRICS if metric.counts]
    counted += [latency_table(data), return_table(data), memory_table(data), wake_table(data)]
    counted += [startup_table(data)]
    found = []
    for table in counted:
        if table is None or "loft" not in table.columns:
            continue
        column = table.columns.index("loft") - 1
        for label, cells in table.rows:
            cell = cells[column]
            if cell.verdict == "behind" and not label.startswith("geometric mean"):
                found.append(Loss(label, table.title, cell.gain))
    return sorted(found, key=lambda loss: loss.gain)
