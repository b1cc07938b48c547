"""The tables of memory: what programs keep at rest, and whether what they gave up comes back."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from bench_report import begun, compared
from bench_results import Results, Run

from loft.tables import Cell, Table


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
    wake_us = row.medians(lambda run: 1e6 * run.cpu_seconds / run.operations)
    compared(data, table, "CPU time a wake, us", wake_us, "{:.0f}".format)
    compared(data, table, "most resident, MiB", row.medians(lambda run: run.peak_rss_kib), mib)
    return table
