"""What a comparison comes to, in one sentence: which allocator, by how much, and how sure."""

from __future__ import annotations

from collections.abc import Iterable

from loft_malloc import noise
from loft_malloc.comparison import Comparison
from loft_malloc.metrics import Row


def sentence(comparison: Comparison, rows: list[Row]) -> str:
    """Without the word before it, and without a full stop."""
    if not rows:
        return "no winner: no run ended well under any allocator"
    names = [each.allocator.name for each in comparison.usable]
    if untold := noise.why_nothing_is_told(len(names), comparison.plan.runs):
        return f"no winner: {untold}{_out(comparison)}"
    speed, size = _speed(rows), _row(rows, "peak_rss_kib")
    rounds = comparison.plan.runs
    if told := _told(comparison, speed):
        said = f"{_leaders(speed)} fastest: {told}"
    else:
        said = f"no winner: {rounds} rounds show no difference in {speed.metric.title} beyond noise"
    if told := _told(comparison, size):
        said += f"; {_leaders(size)} smallest: {told}"
    return said + _out(comparison)


def _row(rows: list[Row], key: str) -> Row:
    return next(row for row in rows if row.metric.key == key)


def _speed(rows: list[Row]) -> Row:
    """A client may take as long as it was told to, and say how much it got in that time."""
    rates = [row for row in rows if row.metric.more]
    return rates[0] if len(rates) == 1 else _row(rows, "wall_s")


def _leaders(row: Row) -> str:
    summaries = row.summaries
    names = [name for name, summary in summaries.items() if summary.verdict in ("best", "level")]
    names.sort(key=lambda name: summaries[name].verdict != "best")
    return f"{enumerated(names)} {'is' if len(names) == 1 else 'are'}"


def _told(comparison: Comparison, row: Row) -> str:
    """How far the best is ahead of the next that is behind it, and in how many rounds."""
    behind = noise.in_order_of_being_behind(row.summaries)
    if not behind:
        return ""
    best = next(name for name, summary in row.summaries.items() if summary.verdict == "best")
    second, summary = behind[0]
    values = {each.allocator.name: row.metric.values(each) for each in comparison.usable}
    pairs = list(zip(values[best], values[second]))
    more = row.metric.more
    ahead = sum(mine > other if more else mine < other for mine, other in pairs)
    part = abs(1 - row.summaries[best].median / summary.median) if summary.median else 0.0
    chance = noise.chance_of_being_ahead(ahead, len(pairs))
    level = any(summary.verdict == "level" for summary in row.summaries.values())
    who, than = f"{best} has " if level else "", "more" if more else "less"
    return (
        f"{who}{percent(part)} {than} {row.metric.title} than {second} "
        f"(ahead in {ahead} of {len(pairs)} rounds; by chance alone: {percent(chance)})"
    )


def _out(comparison: Comparison) -> str:
    out = [each.allocator.name for each in comparison.measured if not each.usable]
    return f"; {enumerated(out)} failed" if out else ""


def percent(part: float) -> str:
    return f"{part * 100:.2g}%" if part < 0.1 else f"{part * 100:.0f}%"


def enumerated(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
