"""What is compared, and how its values read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loft.comparison import Comparison, Measured
from loft.noise import Summary, conclusion, summarise


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


def _of_usage(key: str) -> Callable[[Measured], list[float]]:
    return lambda measured: [float(getattr(usage, key)) for usage in measured.usages]


def _of_counts(key: str) -> Callable[[Measured], list[float]]:
    return lambda measured: [float(getattr(counts, key)) for counts in measured.counts]


def _tree_peak(measured: Measured) -> list[float]:
    # Sampling can miss a peak, and the largest process alone may then be above the sum.
    if measured.memory is None:
        return []
    return [max([measured.memory.peak_kib, *_of_usage("peak_rss_kib")(measured)])]


METRICS = [
    Metric("wall_s", "wall time", "s", "time", _of_usage("wall_s"), seconds),
    Metric("user_s", "user time", "s", "time", _of_usage("user_s"), seconds),
    Metric("system_s", "system time", "s", "time", _of_usage("system_s"), seconds),
    Metric("peak_rss_kib", "peak RSS", "KiB", "memory", _of_usage("peak_rss_kib"), kibibytes),
    Metric(
        "tree_peak_rss_kib",
        "peak RSS, all processes",
        "KiB",
        "memory",
        _tree_peak,
        kibibytes,
        False,
    ),
    Metric("minor_faults", "minor faults", "faults", "faults", _of_usage("minor_faults"), number),
    Metric("major_faults", "major faults", "faults", "faults", _of_usage("major_faults"), number),
    Metric(
        "instructions",
        "instructions",
        "instructions",
        "counters",
        _of_counts("instructions"),
        number,
        False,
    ),
    Metric("cycles", "cycles", "cycles", "counters", _of_counts("cycles"), number, False),
]


@dataclass(frozen=True)
class Row:
    """One metric, of every allocator that could be measured."""

    metric: Metric
    summaries: dict[str, Summary]
    # In words; empty where the runs cannot tell.
    conclusion: str


def rows(comparison: Comparison) -> list[Row]:
    made = []
    for metric in METRICS:
        values = {each.allocator.name: metric.values(each) for each in comparison.usable}
        if not values or not all(values.values()):
            continue
        summaries = summarise(values, metric.judged)
        said = conclusion(summaries, comparison.plan.runs) if metric.judged else ""
        made.append(Row(metric, summaries, said))
    return made
