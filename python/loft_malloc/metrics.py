"""What is compared, and how its values read."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from loft_malloc.client_output import Quantity
from loft_malloc.comparison import Comparison, Measured
from loft_malloc.noise import Summary, conclusion, summarise, why_nothing_is_told


def seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def kibibytes(value: float) -> str:
    for size, unit in ((1 << 20, "GiB"), (1 << 10, "MiB")):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} KiB"


def number(value: float) -> str:
    # Small counts are shown to the last one.
    for above, size, unit in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= above:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"


@dataclass(frozen=True)
class Metric:
    key: str
    title: str
    unit: str
    group: str
    # One value for each run that counts; none if it was not measured.
    values: Callable[[Measured], list[float]]
    form: Callable[[float], str]
    # From the timed rounds, so that differences can be told from noise.
    judged: bool = True
    # A larger value is the better one.
    more: bool = False


def _values(runs: str, key: str, measured: Measured) -> list[float]:
    return [float(getattr(run, key)) for run in getattr(measured, runs)]


def _usage(key: str, title: str, unit: str, group: str, form: Callable[[float], str]) -> Metric:
    return Metric(key, title, unit, group, partial(_values, "usages", key), form)


def _counted(key: str) -> Metric:
    values = partial(_values, "counts", key)
    return Metric(key, key, key, "counters", values, number, judged=False)


PEAK = _usage("peak_rss_kib", "peak RSS", "KiB", "memory", kibibytes)


def _tree_peak(measured: Measured) -> list[float]:
    # Sampling can miss a peak, and the largest process alone may then be above the sum.
    if measured.memory is None:
        return []
    return [max([measured.memory.peak_kib, *PEAK.values(measured)])]


TREE_TITLE = "peak RSS, all processes"

METRICS = [
    _usage("wall_s", "wall time", "s", "time", seconds),
    _usage("user_s", "user time", "s", "time", seconds),
    _usage("system_s", "system time", "s", "time", seconds),
    PEAK,
    Metric("tree_peak_rss_kib", TREE_TITLE, "KiB", "memory", _tree_peak, kibibytes, judged=False),
    _usage("minor_faults", "minor faults", "faults", "faults", number),
    _usage("major_faults", "major faults", "faults", "faults", number),
    _counted("instructions"),
    _counted("cycles"),
]


@dataclass(frozen=True)
class Row:
    """One metric, of every allocator that could be measured."""

    metric: Metric
    summaries: dict[str, Summary]
    # In words; empty for what is not judged.
    conclusion: str
    # There are runs enough to tell a difference from noise.
    told: bool


# Under load the wall time is the client's, and the rest the server's.
UNDER_LOAD = {
    "wall_s": "client wall time",
    "user_s": "server user time",
    "system_s": "server system time",
}


def per_second(value: float) -> str:
    return f"{number(value)}/s"


def _read(quantity: Quantity, measured: Measured) -> list[float]:
    return [reading[quantity] for reading in measured.readings]


def _slow_run(measured: Measured) -> list[float]:
    walls = _values("usages", "wall_s", measured)
    if len(walls) < 2:
        return walls
    return [statistics.quantiles(walls, n=10, method="inclusive")[-1]]


# Of a client whose words are not known, its runs are all there is.
OF_RUNS = Metric(
    "wall_p90_s", "client wall time, p90", "s", "time", _slow_run, seconds, judged=False
)


def _of_quantity(quantity: Quantity) -> Metric:
    group = f"client {quantity.test}"
    values = partial(_read, quantity)
    if quantity.percentile:
        return Metric(quantity.key, quantity.title, "s", group, values, seconds)
    return Metric(quantity.key, quantity.title, "1/s", group, values, per_second, more=True)


def _metrics(comparison: Comparison) -> list[Metric]:
    if comparison.plan.load is None:
        return METRICS
    made = [replace(each, title=UNDER_LOAD.get(each.key, each.title)) for each in METRICS]
    readings = [reading for each in comparison.usable for reading in each.readings]
    # A percentile that one run lacks cannot be compared.
    common = set.intersection(*map(set, readings)) if readings else set()
    in_order = [quantity for quantity in (readings[0] if readings else []) if quantity in common]
    found = [_of_quantity(quantity) for quantity in in_order]
    at = [each.key for each in made].index("wall_s") + 1
    return [*found, *made] if found else [*made[:at], OF_RUNS, *made[at:]]


def rows(comparison: Comparison) -> list[Row]:
    made = []
    for metric in _metrics(comparison):
        values = {each.allocator.name: metric.values(each) for each in comparison.usable}
        if not values or not all(values.values()):
            continue
        summaries = summarise(values, metric.judged, more=metric.more)
        runs = comparison.plan.runs
        said = conclusion(summaries, runs) if metric.judged else ""
        told = metric.judged and not why_nothing_is_told(len(summaries), runs)
        made.append(Row(metric, summaries, said, told))
    return made
