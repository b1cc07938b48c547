"""Whether a figure says what its paper says: judged by the numbers that the page shows alone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from paper_figures import Catalogue, Check, Figure, Metric

from loft_malloc.tables import Table

MANY = "†"
# A median as the tables show it, and its spread.
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]\d+)?)(?: ±(\d+)%)?")


class Verdict(StrEnum):
    AGREE = "agrees"
    DISAGREE = "disagrees"
    OPEN = "open"


@dataclass
class Shown:
    """What was measured, as the page shows it."""

    # The machine, the date and the like.
    head: list[str]
    # By figure.
    tables: dict[str, list[Table]]
    failures: list[str] = field(default_factory=list)

    def cell(self, figure: str, metric: Metric, allocator: str, x: str) -> tuple[str, bool]:
        """Its text, and whether its threads shared processors."""
        for table in self.tables.get(figure, []):
            for title in (x, f"{x} {MANY}"):
                places = {(metric.title, title), (title, metric.title)}
                for column in table.columns[1:]:
                    row = table.lines().get(allocator)
                    if row and (table.columns[0], column) in places:
                        return row[column].text, title != x
        return "-", False


def judge(check: Check, metric: Metric, cells: list[tuple[str, bool]]) -> tuple[str, Verdict, str]:
    """The number or the ratio, what follows, and why nothing does."""
    found = [there for text, _ in cells if (there := NUMBER.fullmatch(text))]
    if len(found) < len(cells) or (found[1:] and float(found[1][1]) == 0):
        failed = "failed" in {text for text, _ in cells}
        return "-", Verdict.OPEN, "a run failed" if failed else "not measured"
    ratio = float(found[0][1]) / (float(found[1][1]) if found[1:] else 1)
    noise = sum(int(there[2] or 0) for there in found) / 100
    text = f"{ratio:.3g}" + (f" ±{noise * 100:.0f}%" if noise else "")
    low, high = ratio * (1 - noise), ratio * (1 + noise)
    if metric.timed and any(many for _, many in cells):
        return text, Verdict.OPEN, "threads share processors"
    if check.least <= low and high <= check.most:
        return text, Verdict.AGREE, ""
    if high < check.least or low > check.most:
        return text, Verdict.DISAGREE, ""
    return text, Verdict.OPEN, "within the noise"


def verdicts(
    shown: Shown, book: Catalogue, figure: Figure
) -> Iterator[tuple[Check, str, Verdict, str]]:
    for check in figure.checks:
        metric = book.metrics[check.metric]
        cells = [shown.cell(figure.name, metric, *place) for place in check.cells]
        yield check, *judge(check, metric, cells)


def as_table(shown: Shown, book: Catalogue, figure: Figure) -> Table:
    table = Table(["checked", "cell, or ratio of two", "measured", "should be", ""])
    for check, ratio, verdict, why in verdicts(shown, book, figure):
        (first, x), (second, other) = check.of, check.to or check.of
        if check.to is None:
            pair = f"{first}, {x}"
        elif first == second:
            pair = f"{first}, {x} / {other}"
        elif x == other:
            pair = f"{first} / {second}, {x}"
        else:
            pair = f"{first}, {x} / {second}, {other}"
        if check.metric != figure.metrics[0]:
            pair += f": {book.metrics[check.metric].label}"
        said = f"{verdict}: {why}" if why else f"**{verdict}**"
        table.add(check.says, pair, ratio, check.band, said)
    return table
