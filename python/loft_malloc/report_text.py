"""A comparison on the terminal: the verdict, tables, and what they say in words."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.markup import escape

from loft_malloc.comparison import Comparison
from loft_malloc.metrics import TREE_TITLE, Row
from loft_malloc.noise import Summary
from loft_malloc.printable import printable
from loft_malloc.tables import Cell, Table, Verdict, for_terminal


def detail(summary: Summary) -> str:
    """The spread, and the ratio to the best."""
    parts = []
    if summary.spread is not None:
        parts.append(f"±{summary.spread * 100:.0f}%")
    if summary.ratio is not None:
        parts.append(f"{summary.ratio:.2f}x")
    return " ".join(parts)


def marked(row: Row, name: str) -> Verdict:
    """What exceeds the noise: all that nobody is ahead of are best, if somebody is behind them."""
    verdicts = {summary.verdict for summary in row.summaries.values()}
    mine = row.summaries[name].verdict
    if mine == "level" and "behind" in verdicts:
        return "best"
    return mine


def times(comparison: Comparison) -> str:
    runs = comparison.plan.runs
    counted = "one run" if runs == 1 else f"{runs} interleaved runs"
    load = comparison.plan.load
    asked = "" if load is None else f", with the client {printable(shlex.join(load.client))}"
    return f"{counted} under each allocator after a warm-up{asked}"


def heading(comparison: Comparison) -> str:
    return f"{printable(shlex.join(comparison.plan.command))}: {times(comparison)}"


def legend(rows: list[Row]) -> str:
    said = "median, ± half the range between the quartiles, ratio to the best"
    if any(row.metric.title == TREE_TITLE for row in rows):
        said += (
            "; peak RSS is that of the largest process; for all processes it is sampled in one run"
        )
    return said


def groups(rows: list[Row]) -> list[list[Row]]:
    """Those that share a table."""
    names = dict.fromkeys(row.metric.group for row in rows)
    return [[row for row in rows if row.metric.group == name] for name in names]


def table(rows: list[Row]) -> Table:
    """A line for each allocator, and a column for each metric."""
    made = Table(["allocator", *(row.metric.title for row in rows)])
    for name in rows[0].summaries:
        cells = []
        for row in rows:
            summary = row.summaries[name]
            text = f"{row.metric.form(summary.median)} {detail(summary)}".rstrip()
            cells.append(Cell(text, marked(row, name)))
        made.rows.append((name, cells))
    return made


def conclusions(rows: list[Row]) -> list[str]:
    """What holds for several metrics is said once, of all of them."""
    titles: dict[str, list[str]] = {}
    for row in rows:
        if row.told:
            titles.setdefault(row.conclusion, []).append(row.metric.title)
    return [f"{', '.join(of)}: {conclusion}" for conclusion, of in titles.items()]


def show(
    console: Console, comparison: Comparison, rows: list[Row], verdict: str, remarks: list[str]
) -> None:
    console.print(escape(f"Verdict: {verdict}"), style="bold", highlight=False, soft_wrap=True)
    if rows:
        console.print(escape(heading(comparison)), style="bold", soft_wrap=True)
    for group in groups(rows):
        console.print(for_terminal(table(group)))
    if rows:
        console.print(legend(rows), style="dim", soft_wrap=True)
        console.print()
    for line in [*conclusions(rows), *remarks]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
