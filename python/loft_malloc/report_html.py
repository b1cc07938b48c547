"""A comparison as a page: one file that loads nothing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import jinja2

from loft_malloc import charts, host, places
from loft_malloc.comparison import Comparison
from loft_malloc.metrics import Row
from loft_malloc.printable import printable
from loft_malloc.report_text import conclusions, detail, groups, legend, marked, times
from loft_malloc.tables import Verdict
from loft_malloc.verdict import enumerated

PAGE = (places.PACKAGE / "report.html").read_text(encoding="utf-8")
# More names would fill the title.
MOST_NAMES = 3


@dataclass(frozen=True)
class Cell:
    value: str
    # What a narrow screen shows below the value.
    detail: str
    verdict: Verdict


@dataclass(frozen=True)
class Group:
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


def write(
    path: Path, comparison: Comparison, rows: list[Row], verdict: str, remarks: list[str]
) -> None:
    page = jinja2.Template(PAGE, autoescape=True, keep_trailing_newline=True).render(
        title=title(comparison),
        verdict=verdict,
        command=printable(shlex.join(comparison.plan.command)),
        runs=times(comparison).capitalize(),
        version=places.version(),
        machine=str(host.this()),
        date=comparison.started.strftime("%Y-%m-%d %H:%M %Z"),
        said=[*conclusions(rows), *remarks],
        groups=[_group(group) for group in groups(rows)],
        legend=legend(rows),
        charts=charts.draw(comparison, rows) if rows else None,
        tail_s=comparison.plan.tail_s,
    )
    path.write_text(page, encoding="utf-8")


def title(comparison: Comparison) -> str:
    """The program and the allocators; the whole command may be long."""
    names = [each.allocator.name for each in comparison.measured]
    under = f"{len(names)} allocators" if len(names) > MOST_NAMES else enumerated(names)
    return f"{printable(Path(comparison.plan.command[0]).name)} under {under}"


def _group(rows: list[Row]) -> Group:
    lines = []
    for name in rows[0].summaries:
        cells = []
        for row in rows:
            summary = row.summaries[name]
            value = row.metric.form(summary.median)
            cells.append(Cell(value, detail(summary), marked(row, name)))
        lines.append((name, cells))
    return Group([row.metric.title for row in rows], lines)
