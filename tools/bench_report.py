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
# A spinning thread that had its CPU for less than this part of the time shared it with something.
DISTURBED_SHARE = 0.9


@dataclass(frozen=True)
class Cell:
    text: str
    verdict: Verdict = "none"


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


METRICS = [
    Metric(
        "Throughput",
        "Operations per second as a ratio to the best peer's; above 1 is ahead of it.",
        True,
        lambda run: float(run["ops_per_second"]),
        _rate,
    ),
    Metric(
        "Peak memory",
        "Peak resident set as a ratio to the best peer's, the program's own tables included; "
        "below 1 is ahead of it.",
        False,
        lambda run: float(run["peak_rss_kib"]),
        lambda value: f"{value / 1024:.3g} MiB",
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
    Metric(
        "Cache misses",
        "User cache misses per operation as a ratio to the best peer's, from a separate pass.",
        False,
        _per_operation("cache-misses"),
        lambda value: f"{value:.3g}",
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
    for run in row["runs"].get(name, []):
        value = metric.value(run)
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
    if len(values) < 3 or middle == 0:
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


def judge(ratio: float, higher_is_better: bool) -> Verdict:
    gain = ratio if higher_is_better else 1 / ratio
    if gain < 1 - LEVEL:
        return "behind"
    return "ahead" if gain > 1 + LEVEL else "level"


def row_label(label: str, row: Json, cores: int) -> str:
    if fits(row, cores):
        return label
    return f"{label} (more threads than the {cores} CPUs)"


def metric_table(data: Json, metric: Metric) -> Table | None:
    cores = int(data["header"]["cores"])
    names: list[str] = data["allocators"]
    peers: list[str] = data["peers"]
    table = Table(metric.title, metric.note, ["workload", *names, "best peer"])
    means: dict[str, dict[str, list[float]]] = {}
    for original in data["rows"]:
        # Start-up has a table of its own.
        if original["name"] == "start-up" or (metric.single and original["threads"] != 1):
            continue
        for label, row in split_by_mode(original):
            best = best_peer(row, peers, metric, cores)
            if best is None:
                continue
            cells = []
            for name in names:
                values = _values(row, name, metric, cores)
                if name in row.get("failures", {}):
                    cells.append(Cell("failed", "behind"))
                elif values:
                    ratios = _ratios(values, best[1])
                    ratio = statistics.median(ratios)
                    if row is original:
                        group = means.setdefault(str(row["group"]), {})
                        group.setdefault(name, []).append(ratio)
                    cells.append(
                        Cell(
                            f"{ratio:.2f} ±{spread(ratios) * 100:.0f}%",
                            judge(ratio, metric.higher_is_better),
                        )
                    )
                elif row["runs"].get(name):
                    cells.append(Cell("invalid"))
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
                cells.append(Cell(f"{mean:.2f}", judge(mean, metric.higher_is_better)))
        table.rows.append((f"geometric mean, {kind}", [*cells, Cell("")]))
    return table


def startup_table(data: Json) -> Table | None:
    row = next((row for row in data["rows"] if row["name"] == "start-up"), None)
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
        cells = []
        for name in names:
            if name not in middle:
                cells.append(Cell("-"))
                continue
            text = form.format(middle[name])
            if name != "glibc" and "glibc" in middle:
                text += f" ({'{:+' + form[2:]})".format(middle[name] - middle["glibc"])
            cells.append(Cell(text))
        table.rows.append((title, cells))
    return table


def instruction_table(data: Json) -> Table | None:
    counted: dict[str, Json] = data.get("instructions", {})
    if not counted:
        return None
    names = [name for name in data["allocators"] if name in counted]
    table = Table(
        "Instructions of one call",
        "Counted by single-stepping, the loop and the PLT left out: malloc + free of a cached "
        "object, and a free of what another thread allocated, over 4096 such objects.",
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


def tables(data: Json) -> list[Table]:
    made = [metric_table(data, metric) for metric in METRICS]
    made += [startup_table(data), instruction_table(data)]
    return [table for table in made if table is not None]


def remarks(data: Json) -> list[str]:
    """What a reader must know before believing a row."""
    cores = int(data["header"]["cores"])
    said = []
    for row in data["rows"]:
        for name, message in row.get("failures", {}).items():
            said.append(f"{row['name']} under {name} failed: {message}")
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


def header_lines(data: Json) -> list[str]:
    header = data["header"]
    versions = ", ".join(f"{name} {text}" for name, text in header["versions"].items())
    return [
        f"{header['cpu']}, {header['cores']} CPUs{header['virtual']}, "
        f"{header['memory_gib']:.0f} GiB, {header['system']}, kernel {header['kernel']}",
        f"{header['date']}, {header['repeats']} interleaved runs of each after a warm-up",
        f"allocators: {versions}",
        f"counters: {header['counters']}",
        "CPUs the threads ran on: " + header["cpus_used"],
    ]
