"""The tables of ratios to the best peer, and of figures beside those of the peers."""

import statistics
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from bench_results import Entry, Kind, Results, Run, believed

from loft_malloc.noise import spread
from loft_malloc.tables import Cell, Table

ROOT = Path(__file__).resolve().parent.parent
# Ratios nearer to 1 than this are called level: interleaved medians on a quiet machine move by
# about as much.
LEVEL = 0.03
# And a time is called better or worse where the difference is this many times the noise band of the
# rounds, or more; without a band, which takes three rounds, it is not judged.
BANDS = 2
# Below this much, what a process needs anyway is most of its memory.
MUCH_LIVE = 8 << 20

Counters = dict[str, float]


# By the table's title; all that is counted by perf has one.
NOTES = tomllib.loads((ROOT / "bench" / "tables.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Metric:
    title: str
    # Of a run and what was counted under its allocator; None if there is none.
    value: Callable[[Run, Counters], float | None]
    # How the best peer's absolute value reads.
    form: Callable[[float], str]
    higher_is_better: bool = False
    # Nothing is claimed without a noise band.
    is_time: bool = False
    # From one separate pass, so that the rounds have no spread.
    one_pass: bool = False
    # One-thread rows only; with more, waiting is part of the time.
    single: bool = False
    # Of a run that ran as it should, and has none of it.
    without: str = "-"
    # Of what was counted.
    per: str = ""


def _rate(value: float) -> str:
    for scale, unit in ((1e6, "M/s"), (1e3, "k/s")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} /s"


def _overhead(run: Run, counters: Counters) -> float | None:
    if run.peak_live_bytes < MUCH_LIVE:
        return None
    return (run.peak_rss_kib - run.table_kib) * 1024 / run.peak_live_bytes


def _counted(title: str, event: str, scale: int = 1) -> Metric:
    def value(run: Run, counters: Counters) -> float | None:
        return counters[event] / run.operations if event in counters else None

    per = "operation" if scale == 1 else "thousand operations"
    form = lambda figure: f"{figure * scale:.3g}"  # noqa: E731
    return Metric(title, value, form, is_time=event == "cycles", one_pass=True, per=per)


METRICS = [
    Metric(
        "Throughput",
        lambda run, _: run.ops_per_second,
        _rate,
        higher_is_better=True,
        is_time=True,
    ),
    Metric("Peak memory", lambda run, _: run.peak_rss_kib, lambda value: f"{value / 1024:.3g} MiB"),
    Metric("Memory per live byte", _overhead, "{:.3g}".format, without=f"< {MUCH_LIVE >> 20} MiB"),
    Metric(
        "CPU time",
        lambda run, _: run.cpu_seconds / run.operations,
        lambda value: f"{value * 1e9:.3g} ns",
        is_time=True,
        single=True,
    ),
    _counted("Cycles", "cycles"),
    _counted("Instructions", "instructions"),
    _counted("Cache misses", "cache-misses", 1000),
    _counted("Last-level load misses", "LLC-load-misses", 1000),
    _counted("TLB load misses", "dTLB-load-misses", 1000),
    _counted("TLB store misses", "dTLB-store-misses", 1000),
]


def judged(text: str, ratio: float, higher_is_better: bool = False, noise: float = 0.0) -> Cell:
    """The cell that shows a ratio to the best peer. `noise` is the band of the rounds, relative to
    the ratio."""
    gain = ratio if higher_is_better else 1 / max(ratio, 1e-9)
    if abs(ratio - 1) < BANDS * noise * ratio:
        return Cell(text, "level", gain)
    if gain < 1 - LEVEL:
        return Cell(text, "behind", gain)
    return Cell(text, "ahead" if gain > 1 + LEVEL else "level", gain)


def judged_time(
    text: str, ratio: float, higher_is_better: bool = False, noise: float | None = None
) -> Cell:
    cell = judged(text, ratio, higher_is_better, noise or 0.0)
    return cell if noise is not None else replace(cell, verdict="unknown")


def with_band(text: str, noise: float | None) -> str:
    return text if noise is None else f"{text} ±{noise * 100:.0f}%"


def begun(title: str, columns: list[str], **words: object) -> Table:
    """A table without rows yet, and with its note."""
    note = NOTES.get(title, NOTES["What was counted"])
    return Table(columns, title, note.format(title=title, **words), judged="loft")


def compared(
    data: Results, table: Table, label: str, figures: dict[str, float], form: Callable[[float], str]
) -> None:
    """Adds a row of absolute figures, of which less is better."""
    best = min((figures[name] for name in data.peers if name in figures), default=None)
    cells = []
    for name in data.allocators:
        if name not in figures:
            cells.append(Cell("-"))
        elif best:
            cells.append(judged(form(figures[name]), figures[name] / best))
        else:
            cells.append(Cell(form(figures[name])))
    table.rows.append((label, cells))


def within_rounds(values: pd.DataFrame, best: str) -> dict[str, pd.Series]:
    """The ratios to the best peer: within a round, where the machine was in one state; where modes
    left no common round, between the medians."""
    middles = values.median()
    ratios = values.div(values[best].where(values[best] != 0), axis="index")
    for name in ratios.columns[ratios.isna().all()]:
        ratios.loc[ratios.index[0], name] = middles[name] / middles[best]
    return {str(name): ratios[name].dropna() for name in ratios}


def compared_times(
    data: Results, table: Table, label: str, rounds: pd.DataFrame, form: Callable[[float], str]
) -> None:
    """Adds a row of times, a line of `rounds` for each round, and judges them as throughput is."""
    middles = rounds.median()
    peers = middles.reindex(data.peers).dropna()
    ratios = {} if peers.empty else within_rounds(rounds, str(peers.idxmin()))
    cells = []
    for name in data.allocators:
        if name not in middles:
            cells.append(Cell("-"))
            continue
        found = ratios.get(name, pd.Series(dtype=float))
        noise = spread(found.to_list()) if len(found) else None
        text = with_band(form(float(middles[name])), noise)
        ratio = float(found.median()) if len(found) else 1.0
        cells.append(judged_time(text, ratio, noise=noise))
    table.rows.append((label, cells))


def _values(row: Entry, metric: Metric, cores: int) -> pd.DataFrame:
    """The metric's values that count: a line for each round, a column for each allocator."""
    found = {
        name: {run.round: metric.value(run, row.counters.get(name, {})) for run in runs}
        for name, runs in row.valid(cores).runs.items()
    }
    return pd.DataFrame(found, dtype=float).dropna(axis="columns", how="all")


def _band(metric: Metric, ratios: pd.Series) -> float | None:
    return None if metric.one_pass or ratios.empty else spread(ratios.to_list())


def _cell(metric: Metric, row: Entry, name: str, ratios: pd.Series, cores: int) -> Cell:
    if name in row.failures:
        return Cell("failed", "behind", 0.0)
    if ratios.empty:
        if not row.runs.get(name):
            return Cell("-")
        measured = any(not run.invalid(row.threads, cores) for run in row.runs[name])
        return Cell(metric.without if measured else "invalid")
    ratio = float(ratios.median())
    noise = _band(metric, ratios)
    return _judged(metric, with_band(f"{ratio:.2f}", noise), ratio, noise)


def _judged(metric: Metric, text: str, ratio: float, noise: float | None) -> Cell:
    if metric.is_time:
        return judged_time(text, ratio, metric.higher_is_better, noise)
    return judged(text, ratio, metric.higher_is_better, noise or 0.0)


def metric_table(data: Results, metric: Metric) -> Table | None:
    cores, names = data.header.cores, data.allocators
    words = {"per": metric.per, "much_live": MUCH_LIVE >> 20}
    table = begun(metric.title, ["workload", *names, "best peer"], **words)
    # The ratios of whole rows that are believed, for their means.
    means: list[dict[str, object]] = []
    bands: list[dict[str, object]] = []
    for original in data.rows:
        if original.kind is not Kind.TIMED or (metric.single and original.threads != 1):
            continue
        for label, row in original.by_mode():
            values = _values(row, metric, cores)
            middles = values.median()
            peers = middles.reindex(data.peers).dropna()
            if peers.empty:
                continue
            best = str(peers.idxmax() if metric.higher_is_better else peers.idxmin())
            each = within_rounds(values, best)
            empty = pd.Series(dtype=float)
            cells = [_cell(metric, row, n, each.get(n, empty), cores) for n in names]
            named = row.label(cores, label)
            if row is original and believed(named):
                kept = {n: r for n, r in each.items() if n not in row.failures}
                means.append({"group": row.group} | {n: r.median() for n, r in kept.items()})
                bands.append({"group": row.group} | {n: _band(metric, r) for n, r in kept.items()})
            cells.append(Cell(f"{best} {metric.form(float(middles[best]))}"))
            table.rows.append((named, cells))
    if means:
        _add_means(table, pd.DataFrame(means), pd.DataFrame(bands), metric, names)
    return table if table.rows else None


def _mean_band(bands: pd.Series) -> float | None:
    """Of a mean of ratios: the mean of their bands, as if all were off to the same side. A row of
    too few rounds counts with the widest of the others."""
    known = bands.dropna()
    return None if known.empty else float(bands.fillna(known.max()).mean())


def _add_means(
    table: Table, ratios: pd.DataFrame, bands: pd.DataFrame, metric: Metric, names: list[str]
) -> None:
    """The geometric mean of each group, of those allocators that have every row of it."""
    for group, some in ratios.groupby("group", sort=False):
        figures = some.reindex(columns=names).astype(float)
        noise = bands.loc[some.index].reindex(columns=names).astype(float)
        whole = figures.columns[figures.count() == figures.count().max()]
        means = {name: statistics.geometric_mean(figures[name].dropna()) for name in whole}
        cells = {n: _judged(metric, f"{m:.2f}", m, _mean_band(noise[n])) for n, m in means.items()}
        shown = [cells.get(name, Cell("-")) for name in names]
        table.rows.append((f"geometric mean, {group}", [*shown, Cell("")]))
