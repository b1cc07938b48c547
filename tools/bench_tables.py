"""The tables of rows that are not about throughput: start-up, instructions, latencies, sweeps, and
memory: what programs keep at rest, and whether what they gave up comes back.

And all tables together, with the list of what loft loses.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from bench_beside import beside_table
from bench_report import METRICS, begun, compared, compared_times, metric_table
from bench_results import Entry, Kind, Results, Run

from loft_malloc.tables import Cell, Table


def startup_table(data: Results) -> Table | None:
    row = data.row("start-up")
    if row is None:
        return None
    table = begun("Hello, world", ["", *data.allocators])

    def beside_glibc(figure: Callable[[Run], float], form: str) -> Callable[[float], str]:
        base = row.medians(figure).get("glibc", 0.0)

        def text(value: float) -> str:
            added = f" ({value - base:+{form}})" if base and value != base else ""
            return f"{value:{form}}{added}"

        return text

    def add(title: str, figure: Callable[[Run], float], form: str) -> None:
        compared(data, table, title, row.medians(figure), beside_glibc(figure, form))

    start = attrgetter("median_start_ms")
    title = "start to exit, ms (median)"
    compared_times(data, table, title, row.rounds(start), beside_glibc(start, ".2f"))
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


def call_ns(call: str, quantile: str, run: Run) -> float:
    return float(getattr(run, f"{call}_ns")[quantile])


def quantiles(row: Entry, call: str) -> dict[str, dict[str, float]]:
    """Of the calls to malloc, to free, or to nothing ("clock"): by quantile, then by allocator."""
    return {quantile: row.medians(partial(call_ns, call, quantile)) for quantile in QUANTILES}


def latency_table(data: Results) -> Table | None:
    row = data.row("latency")
    if row is None:
        return None
    clock = statistics.median(run.clock_ns["p50"] for run in row.every_run())
    table = begun("Latency", ["", *data.allocators], clock=clock)
    for call in ("malloc", "free"):
        for quantile in QUANTILES:
            rounds = row.rounds(partial(call_ns, call, quantile))
            compared_times(data, table, f"{call} {quantile}", rounds, "{:.0f}".format)
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


def mib(kib: float) -> str:
    return f"{kib / 1024:.1f}"


def memory_table(data: Results) -> Table | None:
    """What programs keep once they have freed most: samples that they took of themselves."""
    table = begun("Memory at rest", ["", *data.allocators])
    for row in data.rows:
        first = {name: run for name, run in row.first_runs().items() if run.memory}
        if not first:
            continue
        # The last sample before the program cleaned up.
        at_rest = {
            name: next(s for s in reversed(run.memory) if s.label != "joined")
            for name, run in first.items()
        }
        peaks = row.medians(lambda run: max(sample.rss_kib for sample in run.memory))
        compared(data, table, f"{row.name}: most", peaks, mib)
        rest = {name: sample.rss_kib for name, sample in at_rest.items()}
        compared(data, table, f"{row.name}: at the end", rest, mib)
        over = {
            name: (rest[name] - run.table_kib) / run.survivor_pages_kib
            for name, run in first.items()
            if run.survivor_pages_kib
        }
        if over:
            label = f"{row.name}: over the survivors' pages"
            compared(data, table, label, over, "{:.2f}".format)
        lent = {name: mib(sample.lazy_free_kib) for name, sample in at_rest.items()}
        huge = {name: mib(sample.huge_kib) for name, sample in at_rest.items()}
        for label, texts in (("LazyFree", lent), ("in huge pages", huge)):
            table.add(f"{row.name}: {label}", *(texts.get(name, "-") for name in data.allocators))
    return table if table.rows else None


def after_a_second(run: Run) -> float:
    """Resident KiB in the first sample of at least a second of quiet."""
    end = run.at("freed").at + 0.99
    return next(sample.rss_kib for sample in run.memory if sample.at >= end)


def back_percent(run: Run) -> float:
    """Of what stood on no survivor's page, the part that is back."""
    most = max(sample.rss_kib for sample in run.memory)
    free = most - run.at("start").rss_kib - run.survivor_pages_kib
    return 100 * (most - after_a_second(run)) / free


def over_survivors(run: Run) -> float:
    return (after_a_second(run) - run.table_kib) / run.survivor_pages_kib


def over_live(run: Run) -> float:
    return (run.peak_rss_kib - run.table_kib) * 1024 / run.peak_live_bytes


def reused_percent(run: Run) -> float:
    return 100 * (1 - run.grown_kib / run.first_kib)


def kib_a_thread(run: Run) -> float:
    return (after_a_second(run) - run.at("start").rss_kib) / run.operations


@dataclass(frozen=True)
class Target:
    """A figure of the runs of some row, and where it should be."""

    row: str
    label: str
    value: Callable[[Run], float]
    form: str
    # At the least if more is better, else at the most.
    bound: float
    more_is_better: bool = False

    def cell(self, value: float) -> Cell:
        gain = value / self.bound if self.more_is_better else self.bound / max(value, 1e-9)
        return Cell(self.form.format(value), "level" if gain >= 1 else "behind", gain)


def growth_of(counts: str) -> Callable[[Run], float]:
    """How much more the last of a run's counts is than the first."""

    def growth(run: Run) -> float:
        first, *_, last = getattr(run, counts)
        return float(last / first)

    return growth


TARGETS = (
    Target("idle return", "back within a second, %", back_percent, "{:.1f}", 95, True),
    Target("idle return, freed by others", "back, %", back_percent, "{:.1f}", 95, True),
    Target("idle return, threads ended", "back, %", back_percent, "{:.1f}", 95, True),
    Target("holes of 256 B", "over the survivors' pages", over_survivors, "{:.2f}", 1.3),
    Target("holes of 64 B", "over the survivors' pages", over_survivors, "{:.2f}", 1.3),
    Target("reclaimer", "peak over live", over_live, "{:.2f}", 1.15),
    Target("sleeping producer", "used again, %", reused_percent, "{:.1f}", 99, True),
    Target("100 threads, every size", "KiB each", kib_a_thread, "{:.0f}", 64),
    Target("mappings", "most lines", attrgetter("most_mappings"), "{:.0f}", 999),
    Target("long mappings", "most lines", attrgetter("most_mappings"), "{:.0f}", 999),
    Target(
        "trims", "malloc_trim(0), 1 TiB over 1 GiB", growth_of("trim_instructions"), "{:.2f}", 1.2
    ),
    Target("trims", "idle tick, 1 TiB over 1 GiB", growth_of("tick_instructions"), "{:.2f}", 1.2),
)


def phase_over_live(number: int, run: Run) -> float:
    return run.phases[number].rss_kib / run.phases[number].live_kib


def return_table(data: Results) -> Table | None:
    """What was given up and comes back, beside what it should be."""
    table = begun("Memory that comes back", ["", "target", *data.allocators])
    for target in TARGETS:
        row = data.row(target.row)
        if row is None:
            continue
        figures = row.medians(target.value)
        bound = f"{'≥' if target.more_is_better else '≤'} {target.bound:g}"
        cells = [
            target.cell(figures[name])
            if name in figures
            else (Cell("failed", "behind", 0.0) if name in row.failures else Cell("-"))
            for name in data.allocators
        ]
        table.rows.append((f"{target.row}: {target.label}", [Cell(bound), *cells]))
    for row in filter(None, map(data.row, ("phases", "long phases"))):
        for number in range(len(row.every_run()[0].phases)):
            figures = row.medians(partial(phase_over_live, number))
            compared(data, table, f"{row.name}: after {number + 1}", figures, "{:.2f}".format)
            table.rows[-1][1].insert(0, Cell("best peer"))
    return table if table.rows else None


def wake_table(data: Results) -> Table | None:
    """What threads cost that sleep nearly all the time."""
    row = data.row("2000 threads that wake now and then")
    if row is None:
        return None
    table = begun("Threads that wake now and then", ["", *data.allocators])
    wake_us = row.rounds(lambda run: 1e6 * run.cpu_seconds / run.operations)
    compared_times(data, table, "CPU time a wake, us", wake_us, "{:.0f}".format)
    compared(data, table, "most resident, MiB", row.medians(lambda run: run.peak_rss_kib), mib)
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
    "locks waited for": "locks_waited_for",
    "maps": "os_maps",
    "purges": "os_purges",
}


def statistics_table(data: Results) -> Table | None:
    """loft's own counters, by row."""
    table = begun("What loft counted", ["workload", *STATISTICS])
    for row in data.rows:
        if row.statistics and row.kind is not Kind.SWEEP:
            each = counted_per(row, "batch_objects", "batches_sent")
            texts = [
                str(row.statistics.get(key, "-")) if key else each for key in STATISTICS.values()
            ]
            table.add(row.name, *texts)
    return table if table.rows else None


def tables(data: Results) -> list[Table]:
    made = [metric_table(data, metric) for metric in METRICS]
    made += [
        beside_table(data),
        latency_table(data),
        return_table(data),
        memory_table(data),
        wake_table(data),
    ]
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
