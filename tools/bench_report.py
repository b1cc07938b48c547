"""What a set of benchmark runs says: tables of ratios to the best peer, from the runner's JSON.

Shared by bench.py, which prints the tables, and results.py, which writes docs/results.md, so that
both always say the same. A table is built of plain text cells with a verdict each; only the two
callers know colours or Markdown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Verdict = Literal["ahead", "level", "behind", "none"]

# Ratios nearer to 1 than this are called level: interleaved medians on a quiet machine move by
# about as much.
LEVEL = 0.03
# Quartiles of fewer say nothing.
ROUNDS_FOR_SPREAD = 3
# A spinning thread that had its CPU for less than this part of the time shared it with something.
DISTURBED_SHARE = 0.9
# What the label of a row says if most of its runs were disturbed so.
SHARED = " (the CPUs were shared with others: do not believe it)"


@dataclass(frozen=True)
class Cell:
    text: str
    verdict: Verdict = "none"
    # How often as good as the best peer; above 1 is ahead of it.
    gain: float = 1.0


@dataclass
class Table:
    title: str
    note: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]] = field(default_factory=list)


@dataclass(frozen=True)
class Metric:
    title: str
    note: str
    higher_is_better: bool
    value: Callable[[Json], float | None]
    # How the best peer's absolute value reads.
    form: Callable[[float], str]
    # One-thread rows only; with more, waiting is part of the time.
    single: bool = False
    # Its losses are listed; of figures that move together only the first is.
    counts: bool = False
    # Of a run that ran as it should, and has none of it.
    without: str = "-"


def _rate(value: float) -> str:
    for scale, unit in ((1e6, "M/s"), (1e3, "k/s")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} /s"


def _per_operation(event: str) -> Callable[[Json], float | None]:
    def value(run: Json) -> float | None:
        counters = run.get("counters", {})
        if event not in counters:
            return None
        return float(counters[event]) / float(run["operations"])

    return value


# Below this much, what a process needs anyway is most of its memory.
MUCH_LIVE = 8 << 20


def _overhead(run: Json) -> float | None:
    live = float(run.get("peak_live_bytes", 0))
    if live < MUCH_LIVE:
        return None
    return (float(run["peak_rss_kib"]) - float(run["table_kib"])) * 1024 / live


METRICS = [
    Metric(
        "Throughput",
        "Operations per second as a ratio to the best peer's; above 1 is ahead of it.",
        True,
        lambda run: float(run["ops_per_second"]),
        _rate,
        counts=True,
    ),
    Metric(
        "Peak memory",
        "Peak resident set as a ratio to the best peer's, the program's own tables included; "
        "below 1 is ahead of it.",
        False,
        lambda run: float(run["peak_rss_kib"]),
        lambda value: f"{value / 1024:.3g} MiB",
        counts=True,
    ),
    Metric(
        "Memory per live byte",
        "Peak resident set without the program's own tables, divided by the most bytes that the "
        "program had asked for at a time, as a ratio to the best peer's; below 1 is ahead of it. "
        f"Rows with {MUCH_LIVE >> 20} MiB or more.",
        False,
        _overhead,
        lambda value: f"{value:.3g}",
        without=f"< {MUCH_LIVE >> 20} MiB",
    ),
    Metric(
        "CPU time",
        "CPU time per operation of the rows with one thread as a ratio to the best peer's; below 1 "
        "is ahead of it. Other programs disturb it less than the elapsed time.",
        False,
        lambda run: float(run["cpu_seconds"]) / float(run["operations"]),
        lambda value: f"{value * 1e9:.3g} ns",
        single=True,
    ),
    Metric(
        "Cycles",
        "User cycles per operation as a ratio to the best peer's, from a separate pass; below 1 "
        "is ahead of it.",
        False,
        _per_operation("cycles"),
        lambda value: f"{value:.3g}",
    ),
    Metric(
        "Instructions",
        "User instructions per operation as a ratio to the best peer's, from a separate pass.",
        False,
        _per_operation("instructions"),
        lambda value: f"{value:.3g}",
    ),
    *(
        Metric(
            title,
            f"{title} per thousand operations in user mode as a ratio to the best peer's, from a "
            "separate pass.",
            False,
            _per_operation(event),
            lambda value: f"{value * 1e3:.3g}",
        )
        for title, event in (
            ("Cache misses", "cache-misses"),
            ("Last-level load misses", "LLC-load-misses"),
            ("TLB load misses", "dTLB-load-misses"),
            ("TLB store misses", "dTLB-store-misses"),
        )
    ),
]


def fits(row: Json, cores: int) -> bool:
    return int(row["threads"]) <= cores


def invalid(row: Json, run: Json, cores: int) -> bool:
    """Two busy threads on one CPU although there was one for each: the run measured nothing."""
    cpus = run["cpus"]
    return fits(row, cores) and (len(set(cpus)) < int(run["threads"]) or bool(run["migrated"]))


def disturbed(row: Json, run: Json, cores: int) -> bool:
    return (
        fits(row, cores)
        and run.get("mode") != "waiting"
        and float(run["least_cpu_share"]) < DISTURBED_SHARE
    )


def split_by_mode(row: Json) -> list[tuple[str, Json]]:
    """A row whose runs fall into modes that do not compare becomes one row for each mode."""
    label = str(row["name"])
    modes = sorted(
        {
            run["mode"]
            for runs in row["runs"].values()
            for run in runs
            if run.get("mode") in ("full", "empty")
        }
    )
    if not modes:
        return [(label, row)]
    return [
        (
            f"{label}, ring {mode}",
            {
                **row,
                "runs": {
                    name: [r for r in runs if r["mode"] == mode]
                    for name, runs in row["runs"].items()
                },
            },
        )
        for mode in modes
    ]


def _values(row: Json, name: str, metric: Metric, cores: int) -> dict[int, float]:
    """The metric's value in each round in which this allocator's run counts."""
    found = {}
    counters = row.get("counters", {}).get(name, {})
    for run in row["runs"].get(name, []):
        value = metric.value({**run, "counters": counters})
        if value is not None and not invalid(row, run, cores):
            found[int(run["round"])] = value
    return found


def _ratios(mine: dict[int, float], best: dict[int, float]) -> list[float]:
    # Within a round, where the machine was in one state; where modes left no common round, between
    # the medians.
    common = [mine[r] / best[r] for r in mine if best.get(r)]
    if common:
        return common
    return [statistics.median(mine.values()) / statistics.median(best.values())]


def spread(values: list[float]) -> float:
    """Half the range between the quartiles, relative to the median."""
    middle = statistics.median(values)
    if len(values) < ROUNDS_FOR_SPREAD or middle == 0:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / middle


def best_peer(
    row: Json, peers: Iterable[str], metric: Metric, cores: int
) -> tuple[str, dict[int, float]] | None:
    measured = [(name, _values(row, name, metric, cores)) for name in peers]
    measured = [(name, values) for name, values in measured if values]
    if not measured:
        return None
    pick = max if metric.higher_is_better else min
    return pick(measured, key=lambda entry: statistics.median(entry[1].values()))


def judged(text: str, ratio: float, higher_is_better: bool, noise: float = 0.0) -> Cell:
    """The cell that shows a ratio to the best peer; within the noise it is level."""
    gain = ratio if higher_is_better else 1 / max(ratio, 1e-9)
    level = max(LEVEL, noise)
    if gain < 1 - level:
        return Cell(text, "behind", gain)
    return Cell(text, "ahead" if gain > 1 + level else "level", gain)


def compared(
    data: Json,
    table: Table,
    label: str,
    figures: dict[str, float],
    form: Callable[[float], str],
) -> None:
    """Adds a row of absolute figures, of which less is better."""
    best = min((figures[name] for name in data["peers"] if name in figures), default=None)
    cells = []
    for name in data["allocators"]:
        if name not in figures:
            cells.append(Cell("-"))
        elif best:
            cells.append(judged(form(figures[name]), figures[name] / best, False))
        else:
            cells.append(Cell(form(figures[name])))
    table.rows.append((label, cells))


def find_row(data: Json, name: str) -> Json | None:
    return next((row for row in data["rows"] if row["name"] == name), None)


def medians(row: Json, figure: Callable[[Json], float]) -> dict[str, float]:
    return {
        name: statistics.median(figure(run) for run in runs)
        for name, runs in row["runs"].items()
        if runs
    }


def row_label(label: str, row: Json, cores: int) -> str:
    if not fits(row, cores):
        return f"{label} (more threads than the {cores} CPUs)"
    runs = [run for runs in row["runs"].values() for run in runs]
    if 2 * sum(disturbed(row, run, cores) for run in runs) > len(runs):
        return label + SHARED
    return label


def believed(label: str) -> bool:
    """Of a row_label. Other rows are in no mean, and are not published."""
    return not label.endswith(SHARED)


def metric_table(data: Json, metric: Metric) -> Table | None:
    cores = int(data["header"]["cores"])
    names: list[str] = data["allocators"]
    peers: list[str] = data["peers"]
    table = Table(metric.title, metric.note, ["workload", *names, "best peer"])
    means: dict[str, dict[str, list[float]]] = {}
    for original in data["rows"]:
        if original["kind"] != "timed" or (metric.single and original["threads"] != 1):
            continue
        for label, row in split_by_mode(original):
            best = best_peer(row, peers, metric, cores)
            if best is None:
                continue
            cells = []
            for name in names:
                values = _values(row, name, metric, cores)
                if name in row.get("failures", {}):
                    cells.append(Cell("failed", "behind", 0.0))
                elif values:
                    ratios = _ratios(values, best[1])
                    ratio = statistics.median(ratios)
                    if row is original and believed(row_label(label, row, cores)):
                        group = means.setdefault(str(row["group"]), {})
                        group.setdefault(name, []).append(ratio)
                    text = f"{ratio:.2f}"
                    noise = spread(ratios)
                    if len(ratios) >= ROUNDS_FOR_SPREAD:
                        text += f" ±{noise * 100:.0f}%"
                    cells.append(judged(text, ratio, metric.higher_is_better, noise))
                elif runs := row["runs"].get(name):
                    measured = any(not invalid(row, run, cores) for run in runs)
                    cells.append(Cell(metric.without if measured else "invalid"))
                else:
                    cells.append(Cell("-"))
            middle = statistics.median(best[1].values())
            cells.append(Cell(f"{best[0]} {metric.form(middle)}"))
            table.rows.append((row_label(label, row, cores), cells))
    if not table.rows:
        return None
    for kind, by_name in means.items():
        counts = max(len(ratios) for ratios in by_name.values())
        cells = []
        for name in names:
            ratios = by_name.get(name, [])
            if len(ratios) < counts:
                cells.append(Cell("-"))
            else:
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                cells.append(judged(f"{mean:.2f}", mean, metric.higher_is_better))
        table.rows.append((f"geometric mean, {kind}", [*cells, Cell("")]))
    return table


def remarks(data: Json) -> list[str]:
    """What a reader must know before believing a row."""
    cores = int(data["header"]["cores"])
    said = []
    for row in data["rows"]:
        for name, message in row.get("failures", {}).items():
            said.append(f"{row['name']} under {name} failed: {message}")
        if row["kind"] != "timed":
            continue
        runs = [(name, run) for name, runs in row["runs"].items() for run in runs]
        bad = sum(invalid(row, run, cores) for _, run in runs)
        if bad:
            said.append(
                f"{row['name']}: {bad} of {len(runs)} runs left out, busy threads shared a CPU"
            )
        noisy = sum(disturbed(row, run, cores) for _, run in runs)
        if noisy:
            said.append(
                f"{row['name']}: in {noisy} of {len(runs)} runs something else ran on the "
                "threads' CPUs"
            )
    return said


def rounds_of(data: Json) -> str:
    counts = [max(map(len, row["runs"].values()), default=0) for row in data["rows"]]
    fewest, most = min(counts, default=0), max(counts, default=0)
    return f"{most}" if fewest == most else f"{fewest} to {most}"


def header_lines(data: Json) -> list[str]:
    header = data["header"]
    versions = ", ".join(f"{name} {text}" for name, text in header["versions"].items())
    commits: dict[str, int] = {}
    for row in data["rows"]:
        commits[row["commit"]] = commits.get(row["commit"], 0) + 1
    dates = sorted(row["date"] for row in data["rows"]) or [header["date"]]
    measured = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    cpus = {
        cpu
        for row in data["rows"]
        for runs in row["runs"].values()
        for run in runs
        for cpu in run["cpus"]
    }
    return [
        f"{header['cpu']}, {header['cores']} CPUs{header['virtual']}, "
        f"{header['memory_gib']:.0f} GiB, {header['system']}, kernel {header['kernel']}, "
        f"transparent huge pages: {header['huge_pages']}",
        f"{measured}; {rounds_of(data)} interleaved rounds",
        "loft "
        + ", ".join(
            mark if len(commits) == 1 else f"{mark} ({count} rows)"
            for mark, count in commits.items()
        ),
        f"other allocators, preloaded like loft: {versions}",
        f"counters: {header['counters']}",
        "CPUs the threads ran on: " + ", ".join(map(str, sorted(cpus))),
    ]
