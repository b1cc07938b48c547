"""Whether a difference between two allocators is one, or the noise of the machine.

The runs are interleaved, so each round gives one difference, taken while the machine was in one
state. If the two were alike, it would be above or below 0 with equal chances, however the times
are distributed: the sign test. Its confidence interval for the median difference lies between two
of the differences in order. A difference counts if that interval leaves 0 out, and if it is large
enough to matter.
"""

import math
import statistics
from dataclasses import dataclass

from loft.tables import Verdict

CONFIDENCE = 0.95
# With fewer rounds even a difference that always falls on the same side is not rare enough.
FEWEST_ROUNDS = 6
# Smaller differences are no reason to choose one allocator or the other.
SMALLEST_DIFFERENCE = 0.01


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


def judge(values: list[float], best: list[float]) -> Verdict:
    """How these values stand to the best allocator's, round by round; less is better."""
    bounds = interval([mine - least for mine, least in zip(values, best, strict=True)])
    if bounds is None:
        return "unknown"
    relevant = statistics.median(values) > statistics.median(best) * (1 + SMALLEST_DIFFERENCE)
    return "behind" if bounds[0] > 0 and relevant else "level"


def summarise(values: dict[str, list[float]], judged: bool) -> dict[str, Summary]:
    """By allocator. Values that do not come from rounds are not judged."""
    medians = {name: statistics.median(of_one) for name, of_one in values.items()}
    best = min(medians, key=lambda name: medians[name])
    made = {}
    for name, of_one in values.items():
        ratio = medians[name] / medians[best] if medians[best] > 0 else None
        verdict: Verdict = "unknown"
        if judged:
            verdict = "best" if name == best else judge(of_one, values[best])
        made[name] = Summary(medians[name], spread(of_one), ratio, verdict)
    return made


def conclusion(summaries: dict[str, Summary], rounds: int) -> str:
    """In words, for one metric."""
    if len(summaries) == 1:
        return "only one allocator, nothing to compare"
    if rounds < FEWEST_ROUNDS:
        return (
            f"{rounds} {'round is' if rounds == 1 else 'rounds are'} too few to tell a difference "
            f"from noise; take --runs {FEWEST_ROUNDS} or more"
        )
    best = next(name for name, summary in summaries.items() if summary.verdict == "best")
    level = [name for name, summary in summaries.items() if summary.verdict == "level"]
    behind = [(n, s) for n, s in summaries.items() if s.verdict == "behind"]
    if len(level) + 1 == len(summaries):
        return "the differences are within the noise"
    parts = [f"{best} is best"]
    if level:
        parts.append(f"within the noise of it: {', '.join(level)}")
    if behind:
        behind.sort(key=lambda entry: entry[1].median)
        times = [n if s.ratio is None else f"{n} {s.ratio:.2f}x" for n, s in behind]
        parts.append(f"behind: {', '.join(times)}")
    return "; ".join(parts)
