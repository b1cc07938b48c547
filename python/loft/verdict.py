"""What a comparison comes to, in one sentence: which allocator, by how much, and how sure."""

from collections.abc import Iterable

from loft import noise
from loft.comparison import Comparison
from loft.metrics import Row


def sentence(comparison: Comparison, rows: list[Row]) -> str:
    """Without the word before it, and without a full stop."""
    if not rows:
        return "none, no run ended well under any allocator"
    names = [each.allocator.name for each in comparison.usable]
    if untold := noise.why_nothing_is_told(len(names), comparison.plan.runs):
        return f"none, {untold}{_out(comparison)}"
    time, memory = (_told(comparison, rows, key) for key in ("wall_s", "peak_rss_kib"))
    rounds = comparison.plan.runs
    if time:
        said = f"{_leaders(rows, 'wall_s')} fastest, {time}"
    else:
        said = f"none is faster, {rounds} rounds tell no difference in wall time from noise"
    said += f"; {_leaders(rows, 'peak_rss_kib')} smallest, {memory}" if memory else ""
    return said + _out(comparison)


def _row(rows: list[Row], key: str) -> Row:
    return next(row for row in rows if row.metric.key == key)


def _leaders(rows: list[Row], key: str) -> str:
    summaries = _row(rows, key).summaries
    names = [name for name, summary in summaries.items() if summary.verdict in ("best", "level")]
    names.sort(key=lambda name: summaries[name].verdict != "best")
    return f"{enumerated(names)} {'is' if len(names) == 1 else 'are'}"


def _told(comparison: Comparison, rows: list[Row], key: str) -> str:
    """How far the best is ahead of the next that is behind it, and in how many rounds."""
    row = _row(rows, key)
    behind = noise.in_order_of_being_behind(row.summaries)
    if not behind:
        return ""
    best = next(name for name, summary in row.summaries.items() if summary.verdict == "best")
    second, summary = behind[0]
    values = {each.allocator.name: row.metric.values(each) for each in comparison.usable}
    pairs = list(zip(values[best], values[second], strict=True))
    ahead = sum(mine < other for mine, other in pairs)
    less = 1 - row.summaries[best].median / summary.median
    chance = noise.chance_of_being_ahead(ahead, len(pairs))
    level = any(summary.verdict == "level" for summary in row.summaries.values())
    return (
        f"{f'{best} ' if level else ''}with {percent(less)} less {row.metric.title} than {second} "
        f"(ahead in {ahead} of {len(pairs)} rounds; by chance: {percent(chance)})"
    )


def _out(comparison: Comparison) -> str:
    out = [each.allocator.name for each in comparison.measured if not each.usable]
    return f"; {enumerated(out)} {'is' if len(out) == 1 else 'are'} out" if out else ""


def percent(part: float) -> str:
    return f"{part * 100:.2g} %" if part < 0.1 else f"{part * 100:.0f} %"


def enumerated(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
