"""The tables of rows that are not about throughput: start-up, instructions, latencies, sweeps.

And all tables together, with the list of what loft loses.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench_memory import memory_table, mib, return_table, wake_table
from bench_report import METRICS, begun, compared, metric_table
from bench_results import Entry, Kind, Results, Run

from loft.tables import Table


def startup_table(data: Results) -> Table | None:
    row = data.row("start-up")
    if row is None:
        return None
    table = begun("Hello, world", ["", *data.allocators])

    def add(title: str, figure: Callable[[Run], float], form: str) -> None:
        middle = row.medians(figure)
        base = middle.get("glibc", 0.0)

        def text(value: float) -> str:
            added = f" ({value - base:+{form}})" if base and value != base else ""
            return f"{value:{form}}{added}"

        compared(data, table, title, middle, text)

    add("start to exit, ms (median)", lambda run: run.median_start_ms, ".2f")
    add("peak RSS, KiB", lambda run: run.hello_peak_rss_kib, ".0f")
    add("system calls", lambda run: run.hello_system_calls, ".0f")
    return table


def instruction_table(data: Results) -> Table | None:
    names = [name for name in data.allocators if name in data.instructions]
    if not names:
        return None
    counted = [data.instructions[name] for name in names]
    objects = counted[0]["remote_free"]["objects"]
    table = begun("Instructions of one call", ["", *names], objects=objects)
    for i, pair in enumerate(counted[0]["pairs"]):
        pairs = [each["pairs"][i] for each in counted]
        texts = [
            f"{each['pair']} ({each['malloc']} + {each['free']})"
            + "".join(f", {each[what]} {what}" for what in ("calls", "locked") if each[what])
            for each in pairs
        ]
        table.add(f"malloc + free of {pair['size']} B", *texts)
    for label, key, form in (
        ("remote free of 64 B: median", "median", ""),
        ("remote free of 64 B: mean", "mean", ".1f"),
        ("locked instructions per remote free", "locked_per_object", ".4f"),
    ):
        table.add(label, *(f"{each['remote_free'][key]:{form}}" for each in counted))
    return table


QUANTILES = ("p50", "p99", "p99.9", "p99.99", "p99.999", "max")


def quantile_of(call: str, quantile: str, run: Run) -> float:
    return float(getattr(run, f"{call}_ns")[quantile])


def quantiles(row: Entry, call: str) -> dict[str, dict[str, float]]:
    """Of the calls to malloc, to free, or to nothing ("clock"): by quantile, then by allocator."""
    return {each: row.medians(partial(quantile_of, call, each)) for each in QUANTILES}


def latency_table(data: Results) -> Table | None:
    row = data.row("latency")
    if row is None:
        return None
    clock = statistics.median(run.clock_ns["p50"] for run in row.every_run())
    table = begun("Latency", ["", *data.allocators], clock=clock)
    for call in ("malloc", "free"):
        for quantile, figures in quantiles(row, call).items():
            compared(data, table, f"{call} {quantile}", figures, "{:.0f}".format)
    for quantile, figures in quantiles(row, "clock").items():
        texts = (f"{figures[n]:.0f}" if n in figures else "-" for n in data.allocators)
        table.add(f"nothing {quantile}", *texts)
    return table


def warm_up_table(data: Results) -> Table | None:
    row = data.row("malloc-test, from the start")
    if row is None:
        return None
    table = begun("From the start", ["", *data.allocators])
    shown = {}
    for name, run in row.first_runs().items():
        marks = run.marks
        each = run.operations / len(marks) / 1e6
        early, half = len(marks) // 20, len(marks) // 2
        first = each * early / marks[early - 1]
        second = each * (len(marks) - half) / (marks[-1] - marks[half - 1])
        shown[name] = f"{first:.1f}", f"{second:.1f}", f"{first / second:.2f}"
    for i, label in enumerate(("first twentieth", "second half", "ratio")):
        table.add(label, *(shown[n][i] if n in shown else "-" for n in data.allocators))
    return table


def speed(row: Entry) -> float:
    return row.medians(lambda run: run.ops_per_second)["loft"]


def counted_per(row: Entry, what: str, each: str, scale: int = 1) -> str:
    counted = row.statistics
    return f"{scale * counted[what] / counted[each]:.1f}" if counted.get(each) else "-"


def most_in_huge_pages(row: Entry) -> str:
    if not row.runs["loft"][0].phases:
        return "-"
    return mib(row.medians(lambda run: max(phase.huge_kib for phase in run.phases))["loft"])


def misses(row: Entry, event: str) -> str:
    counted = row.counters.get("loft", {})
    if event not in counted:
        return "-"
    return f"{1000 * counted[event] / row.medians(lambda run: run.operations)['loft']:.3g}"


# What a sweep shows, where its rows have it.
SWEEP_COLUMNS: dict[str, Callable[[Entry], str]] = {
    "peak MiB": lambda row: mib(row.medians(lambda run: run.peak_rss_kib)["loft"]),
    "objects a batch": lambda row: counted_per(row, "batch_objects", "batches_sent"),
    "objects a message": lambda row: counted_per(row, "batch_objects", "batch_messages"),
    "messages a thousand objects": lambda row: counted_per(
        row, "batch_messages", "batch_objects", 1000
    ),
    "most MiB in huge pages": most_in_huge_pages,
    "TLB load misses a thousand operations": lambda row: misses(row, "dTLB-load-misses"),
    "TLB store misses a thousand operations": lambda row: misses(row, "dTLB-store-misses"),
}


def sweep_tables(data: Results) -> list[Table]:
    """loft under one option, or built otherwise; the default is the measure."""
    groups: dict[str, list[Entry]] = {}
    for row in data.rows:
        if row.kind is Kind.SWEEP and row.runs.get("loft"):
            groups.setdefault(row.group, []).append(row)
    made = []
    for title, rows in groups.items():
        base = speed(rows[0])
        columns = {name: [text(row) for row in rows] for name, text in SWEEP_COLUMNS.items()}
        shown = {name: texts for name, texts in columns.items() if set(texts) != {"-"}}
        head = ["", "million operations/s", "to the default", *shown]
        table = Table(head, title[0].upper() + title[1:], "loft alone.")
        for row, *texts in zip(rows, *shown.values(), strict=True):
            figures = f"{speed(row) / 1e6:.1f}", f"{speed(row) / base:.2f}"
            table.add(row.name.removeprefix(f"{title}: "), *figures, *texts)
        made.append(table)
    return made


# Column, and what loft calls it.
STATISTICS = {
    "refills": "refills",
    "flushes": "flushes",
    "batches": "batches_sent",
    "objects a batch": "",
    "posts": "posts",
    "drains": "drains",
    "slabs made": "slabs_created",
    "locks": "locks_taken",
    "maps": "os_maps",
    "purges": "os_purges",
}


def statistics_table(data: Results) -> Table | None:
    """loft's own counters, by row."""
    table = begun("What loft counted", ["workload", *STATISTICS])
    for row in data.rows:
        if row.statistics and row.kind is not Kind.SWEEP:
            each = counted_per(row, "batch_objects", "batches_sent")
            texts = [str(row.statistics[key]) if key else each for key in STATISTICS.values()]
            table.add(row.name, *texts)
    return table if table.rows else None


def tables(data: Results) -> list[Table]:
    made = [metric_table(data, metric) for metric in METRICS]
    made += [latency_table(data), return_table(data), memory_table(data), wake_table(data)]
    made += [warm_up_table(data), startup_table(data), instruction_table(data)]
    made += sweep_tables(data)
    made.append(statistics_table(data))
    return [table for table in made if table is not None]


# The tables whose losses are listed; of figures that move together only the first is.
COUNTED = (
    "Throughput",
    "Peak memory",
    "Latency",
    "Memory that comes back",
    "Memory at rest",
    "Threads that wake now and then",
    "Hello, world",
)


@dataclass(frozen=True)
class Loss:
    row: str
    table: str
    # How often as good as the best peer.
    gain: float


def losses(data: Results) -> list[Loss]:
    """Where loft is behind the best peer, the worst first; of tables that move together, one."""
    found = [
        Loss(label, table.title, cells["loft"].gain)
        for table in tables(data)
        if table.title in COUNTED and "loft" in table.columns
        for label, cells in table.lines().items()
        if cells["loft"].verdict == "behind" and not label.startswith("geometric mean")
    ]
    return sorted(found, key=lambda loss: loss.gain)
