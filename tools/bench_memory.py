"""The tables of memory: what programs keep at rest, and whether what they gave up comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench_report import Cell, Json, Table, compared, find_row, medians


def mib(kib: float) -> str:
    return f"{kib / 1024:.1f}"


def memory_table(data: Json) -> Table | None:
    """What programs keep once they have freed most: samples that they took of themselves."""
    table = Table(
        "Memory at rest",
        "Resident MiB of the program when it had the most, and at the end, after some quiet time; "
        "how much of that is only lent by the kernel (LazyFree), and how much stands in huge "
        "pages. The pages that survivors stand on are the least that anybody can keep; the table "
        "of the program's own pointers is left out of the ratio to them.",
        ["", *data["allocators"]],
    )
    for row in data["rows"]:
        with_samples = [run for runs in row["runs"].values() for run in runs if "memory" in run]
        if not with_samples:
            continue
        name = row["name"]
        # The last sample before the program cleaned up.
        at_rest = {
            allocator: next(s for s in reversed(runs[0]["memory"]) if s["label"] != "joined")
            for allocator, runs in row["runs"].items()
            if runs
        }
        peaks = medians(row, lambda run: float(max(s["rss_kib"] for s in run["memory"])))
        compared(data, table, f"{name}: most", peaks, mib)
        rest = {allocator: float(s["rss_kib"]) for allocator, s in at_rest.items()}
        compared(data, table, f"{name}: at the end", rest, mib)
        if "survivor_pages_kib" in with_samples[0]:
            over = {
                allocator: (rest[allocator] - float(runs[0]["table_kib"]))
                / float(runs[0]["survivor_pages_kib"])
                for allocator, runs in row["runs"].items()
                if runs
            }
            compared(data, table, f"{name}: over the survivors' pages", over, "{:.2f}".format)
        for label, key in (("LazyFree", "lazy_free_kib"), ("in huge pages", "huge_kib")):
            cells = [
                Cell(mib(at_rest[allocator][key]) if allocator in at_rest else "-")
                for allocator in data["allocators"]
            ]
            table.rows.append((f"{name}: {label}", cells))
    return table if table.rows else None


def sample_of(run: Json, label: str) -> Json:
    found: Json = next(s for s in run["memory"] if s["label"] == label)
    return found


def after_a_second(run: Json) -> float:
    """Resident KiB in the first sample of at least a second of quiet."""
    end = sample_of(run, "freed")["at"] + 0.99
    return float(next(s for s in run["memory"] if s["at"] >= end)["rss_kib"])


def back_percent(run: Json) -> float:
    """Of what stood on no survivor's page, the part that is back."""
    most = float(max(s["rss_kib"] for s in run["memory"]))
    free = most - float(sample_of(run, "start")["rss_kib"]) - float(run["survivor_pages_kib"])
    return 100 * (most - after_a_second(run)) / free


def over_survivors(run: Json) -> float:
    return (after_a_second(run) - float(run["table_kib"])) / float(run["survivor_pages_kib"])


def over_live(run: Json) -> float:
    resident = (float(run["peak_rss_kib"]) - float(run["table_kib"])) * 1024
    return resident / float(run["peak_live_bytes"])


def reused_percent(run: Json) -> float:
    return 100 * (1 - float(run["grown_kib"]) / float(run["first_kib"]))


def kib_a_thread(run: Json) -> float:
    grown = after_a_second(run) - float(sample_of(run, "start")["rss_kib"])
    return grown / float(run["operations"])


def most_mappings(run: Json) -> float:
    return float(run["most_mappings"])


@dataclass(frozen=True)
class Target:
    """A figure of the runs of some row, and where it should be."""

    row: str
    label: str
    value: Callable[[Json], float]
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
    Target("mappings", "most lines", most_mappings, "{:.0f}", 999),
    Target("long mappings", "most lines", most_mappings, "{:.0f}", 999),
)


def phase_over_live(number: int) -> Callable[[Json], float]:
    def value(run: Json) -> float:
        phase = run["phases"][number]
        return float(phase["rss_kib"]) / float(phase["live_kib"])

    return value


def return_table(data: Json) -> Table | None:
    """What was given up and comes back, beside what it should be."""
    table = Table(
        "Memory that comes back",
        "Without a call of the program: what a second of quiet brings back of what stood on no "
        "survivor's page; what others can use of a sleeper's memory; what a sleeping thread "
        "keeps; the most mappings of a heap of 100 GiB; and how much is resident, over what is "
        "alive, at the end of each phase of a program that changes. The target of the phases is "
        "the best peer.",
        ["", "target", *data["allocators"]],
    )
    rows = {row["name"]: row for row in data["rows"]}
    for target in TARGETS:
        row = rows.get(target.row)
        if row is None or not any(row["runs"].values()):
            continue
        figures = medians(row, target.value)
        bound = f"{'≥' if target.more_is_better else '≤'} {target.bound:g}"
        cells = [
            target.cell(figures[name])
            if name in figures
            else (Cell("failed", "behind", 0.0) if name in row["failures"] else Cell("-"))
            for name in data["allocators"]
        ]
        table.rows.append((f"{target.row}: {target.label}", [Cell(bound), *cells]))
    for name in ("phases", "long phases"):
        row = rows.get(name, {"runs": {}})
        runs = [run for some in row["runs"].values() for run in some]
        for number in range(len(runs[0]["phases"]) if runs else 0):
            figures = medians(row, phase_over_live(number))
            compared(data, table, f"{name}: after {number + 1}", figures, "{:.2f}".format)
            table.rows[-1][1].insert(0, Cell("best peer"))
    return table if table.rows else None


def cpu_us(run: Json) -> float:
    return 1e6 * float(run["cpu_seconds"]) / float(run["operations"])


def wake_table(data: Json) -> Table | None:
    """What threads cost that sleep nearly all the time."""
    row = find_row(data, "2000 threads that wake now and then")
    if row is None or not any(row["runs"].values()):
        return None
    table = Table(
        "Threads that wake now and then",
        "Each of 2000 threads wakes every 0.7 seconds, allocates 38 KiB in a hundred objects, "
        "frees them and sleeps again. CPU time is that of the whole process for each wake, "
        "threads of the allocator's own included; the first wakes of all are in it.",
        ["", *data["allocators"]],
    )
    compared(data, table, "CPU time a wake, us", medians(row, cpu_us), "{:.0f}".format)
    most = medians(row, lambda run: float(run["peak_rss_kib"]))
    compared(data, table, "most resident, MiB", most, mib)
    return table
