"""A table of figures, of which the same one is printed, written as Markdown and put into a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rich import table as rich_table
from rich.markup import escape

# "ahead" and "best" are good news, "behind" is bad; "unknown" and "none" are no verdict.
Verdict = Literal["ahead", "best", "level", "behind", "unknown", "none"]

STYLES: dict[Verdict, str] = {"ahead": "green", "best": "bold green", "behind": "yellow"}


@dataclass(frozen=True)
class Cell:
    text: str
    verdict: Verdict = "none"
    # How often as good as the best of the others; above 1 is ahead of it.
    gain: float = 1.0


@dataclass
class Table:
    columns: list[str]
    title: str = ""
    note: str = ""
    rows: list[tuple[str, list[Cell]]] = field(default_factory=list)
    # The one column whose verdicts matter, the others being there to compare with; none: all do.
    judged: str | None = None

    def add(self, label: str, *texts: str) -> None:
        self.rows.append((label, [Cell(text) for text in texts]))

    def lines(self) -> dict[str, dict[str, Cell]]:
        """By label and column."""
        names = self.columns[1:]
        return {label: dict(zip(names, cells)) for label, cells in self.rows}

    def counts(self, column: str) -> bool:
        return self.judged in (None, column)


def for_terminal(table: Table) -> rich_table.Table:
    shown = rich_table.Table(*table.columns, box=None, pad_edge=False)
    for label, cells in table.rows:
        painted = []
        for column, cell in zip(table.columns[1:], cells):
            style = STYLES.get(cell.verdict) if table.counts(column) else None
            text = escape(cell.text)
            painted.append(f"[{style}]{text}[/{style}]" if style else text)
        shown.add_row(escape(label), *painted)
    return shown


def as_markdown(table: Table) -> list[str]:
    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [line(table.columns), "|" + " --- |" * len(table.columns)]
    for label, cells in table.rows:
        texts = [
            f"**{cell.text}** ▼" if cell.verdict == "behind" and table.counts(column) else cell.text
            for column, cell in zip(table.columns[1:], cells)
        ]
        lines.append(line([label, *texts]))
    return lines
