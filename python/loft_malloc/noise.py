"""Whether a difference between two allocators is one, or the noise of the machine.

The runs are interleaved, so each round gives one difference, taken while the machine was in one
state. If the two were alike, it would be above or below 0 with equal chances, however the times
are distributed: the sign test. Its confidence interval for the median difference lies between two
of the differences in order. A difference counts if that interval leaves 0 out, and if it is large
enough to matter.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from loft_malloc.tables import Verdict

CONFIDENCE = 0.95
# With fewer rounds even a difference that always falls on the same side is not rare enough.
FEWEST_ROUNDS = 6
# Smaller differences are no reason to choose one allocator or the other.
SMALLEST_DIFFERENCE = 0.01
WITHIN_NOISE = "the differences are within noise"


@dataclass(frozen=True)
class Summary:
    """What the runs say together. The ratio is to the best allocator's median."""

    median: float
    # Half the range between the quartiles, relative to the median; None with too few values.
    spread: float | None
    ratio: float | None
    verdict: Verdict


def spread(values: list[float]) -> float | None:
    middle = statistics.median(values)
    if len(values) < 3 or middle == 0:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / middle


def interval(values: list[float]) -> tuple[float, float] | None:
    """The confidence interval of their median; None if they are too few for one."""
    count = len(values)
    outside = 0.0
    rank = 0
    # The chance that the median lies below the value of this rank, or above its mirror image.
    while (outside := outside + 2 * math.comb(count, rank) / 2**count) <= 1 - CONFIDENCE:
        rank += 1
    if rank == 0:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def judge(values: list[float], best: list[float], *, more: bool = False) -> Verdict:
    """How these values stand to the best allocator's, round by round; less is better, or `more`."""
    sign = -1 if more else 1
    bounds = interval([sign * (mine - other) for mine, other in zip(values, best)])
    if bounds is None:
        return "unknown"
    middle, least = statistics.median(values), statistics.median(best)
    low, high = (middle, least) if more else (least, middle)
    return "behind" if bounds[0] > 0 and high > low * (1 + SMALLEST_DIFFERENCE) else "level"


def summarise(
    values: dict[str, list[float]], judged: bool, *, more: bool = False
) -> dict[str, Summary]:
    """By allocator. Values that do not come from rounds are not judged."""
    medians = {name: statistics.median(of_one) for name, of_one in values.items()}
    best = (max if more else min)(medians, key=lambda name: medians[name])
    verdicts: dict[str, Verdict] = dict.fromkeys(values, "unknown")
    if judged:
        for name in values.keys() - {best}:
            verdicts[name] = judge(values[name], values[best], more=more)
        # The best is one only if another is behind: the least of equals is an accident.
        others = {verdicts[name] for name in values.keys() - {best}}
        if others & {"behind", "level"}:
            verdicts[best] = "best" if "behind" in others else "level"
    made = {}
    for name, of_one in values.items():
        ratio = medians[name] / medians[best] if medians[best] > 0 else None
        made[name] = Summary(medians[name], spread(of_one), ratio, verdicts[name])
    return made


def why_nothing_is_told(allocators: int, rounds: int) -> str:
    """Empty where a difference can be told from noise."""
    if allocators == 1:
        return "one allocator alone has nothing to be compared with"
    if rounds < FEWEST_ROUNDS:
        return (
            f"{rounds} {'round is' if rounds == 1 else 'rounds are'} too few to tell a difference "
            f"from noise; use --runs {FEWEST_ROUNDS} or more"
        )
    return ""


def conclusion(summaries: dict[str, Summary], rounds: int) -> str:
    """In words, for one metric."""
    if untold := why_nothing_is_told(len(summaries), rounds):
        return untold
    behind = in_order_of_being_behind(summaries)
    if not behind:
        return WITHIN_NOISE
    best = next(name for name, summary in summaries.items() if summary.verdict == "best")
    level = [name for name, summary in summaries.items() if summary.verdict == "level"]
    parts = [f"{best} is best"]
    if level:
        parts.append(f"within noise of it: {', '.join(level)}")
    times = [n if s.ratio is None else f"{n} {s.ratio:.2f}x" for n, s in behind]
    parts.append(f"behind: {', '.join(times)}")
    return "; ".join(parts)


def in_order_of_being_behind(summaries: dict[str, Summary]) -> list[tuple[str, Summary]]:
    """Those that are behind, the next to the best first."""
    best = next((s.median for s in summaries.values() if s.verdict == "best"), 0.0)
    behind = [(name, s) for name, s in summaries.items() if s.verdict == "behind"]
    return sorted(behind, key=lambda entry: abs(entry[1].median - best))


def chance_of_being_ahead(ahead: int, rounds: int) -> float:
    """How often one of two that are alike is ahead in so many of the rounds, or the other is."""
    tail = sum(math.comb(rounds, i) for i in range(rounds - ahead + 1))
    return min(1.0, 2.0 * tail / (1 << rounds))
