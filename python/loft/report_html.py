"""A comparison as a page: one file that loads nothing."""

import os
import platform
from datetime import datetime
from pathlib import Path

import jinja2

from loft import charts, places
from loft.comparison import Comparison
from loft.metrics import Row
from loft.report_text import LEGEND, conclusions, heading, table

PAGE = (places.PACKAGE / "report.html").read_text(encoding="utf-8")


def write(path: Path, comparison: Comparison, rows: list[Row], remarks: list[str]) -> None:
    page = jinja2.Template(PAGE, autoescape=True, keep_trailing_newline=True).render(
        title=heading(comparison),
        version=places.version(),
        machine=f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}",
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        said=[*conclusions(rows), *remarks],
        table=table(rows) if rows else None,
        legend=LEGEND,
        charts=charts.draw(comparison, rows) if rows else "",
        tail_s=comparison.plan.tail_s,
    )
    path.write_text(page, encoding="utf-8")
