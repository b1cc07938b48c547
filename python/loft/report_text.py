"""A comparison on the terminal: tables, and what they say in words."""

import shlex

from rich.console import Console
from rich.markup import escape

from loft.comparison import Comparison
from loft.metrics import Metric, Row
from loft.noise import Summary
from loft.printable import printable
from loft.tables import Cell, Table, for_terminal


def cell(metric: Metric, summary: Summary) -> Cell:
    """The median, its spread, and the ratio to the best."""
    parts = [metric.form(summary.median)]
    if summary.spread is not None:
        parts.append(f"±{summary.spread * 100:.0f}%")
    if summary.ratio is not None:
        parts.append(f"{summary.ratio:.2f}x")
    return Cell(" ".join(parts), summary.verdict)


def heading(comparison: Comparison) -> str:
    plan = comparison.plan
    times = "one run" if plan.runs == 1 else f"{plan.runs} interleaved runs"
    return f"{printable(shlex.join(plan.command))}: {times} under each allocator after a warm-up"


LEGEND = (
    "median, ± half the range between the quartiles, ratio to the best; peak RSS is of the largest "
    "process, that of all processes is sampled in one run"
)


def table(rows: list[Row]) -> Table:
    """A line for each allocator, and a column for each metric."""
    made = Table(["allocator", *(row.metric.title for row in rows)])
    for name in rows[0].summaries:
        made.rows.append((name, [cell(row.metric, row.summaries[name]) for row in rows]))
    return made


def conclusions(rows: list[Row]) -> list[str]:
    return [f"{row.metric.title}: {row.conclusion}" for row in rows if row.conclusion]


def show(console: Console, comparison: Comparison, rows: list[Row], remarks: list[str]) -> None:
    if rows:
        console.print(escape(heading(comparison)), style="bold", soft_wrap=True)
    for group in dict.fromkeys(row.metric.group for row in rows):
        console.print(for_terminal(table([row for row in rows if row.metric.group == group])))
    if rows:
        console.print(LEGEND, style="dim", soft_wrap=True)
        console.print()
    for line in [*conclusions(rows), *remarks]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
