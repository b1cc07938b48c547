"""A comparison as a page: one file that loads nothing."""

from __future__ import annotations

import html
import os
import platform
from datetime import datetime
from pathlib import Path

from loft import charts, places
from loft.comparison import Comparison
from loft.metrics import Row
from loft.report_text import LEGEND, cell, heading

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #ddd; }
.wide { overflow-x: auto; }
.best { font-weight: 600; color: #0a6b2b; }
.behind { color: #8a4b00; }
.faint { color: #555; }
svg { width: 100%; height: auto; font-family: system-ui, sans-serif; }
"""


def write(path: Path, comparison: Comparison, rows: list[Row], remarks: list[str]) -> None:
    path.write_text(page(comparison, rows, remarks), encoding="utf-8")


def page(comparison: Comparison, rows: list[Row], remarks: list[str]) -> str:
    title = html.escape(heading(comparison))
    body = [f"<h1>{title}</h1>", f'<p class="faint">{html.escape(_where())}</p>']
    said = [f"{row.metric.title}: {row.conclusion}" for row in rows if row.conclusion]
    if said or remarks:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in [*said, *remarks])
        body.append(f"<ul>{items}</ul>")
    if rows:
        body += [
            '<div class="wide">',
            _table(rows),
            "</div>",
            f'<p class="faint">{html.escape(LEGEND)}.</p>',
            "<h2>Charts</h2>",
            charts.draw(comparison, rows),
            f'<p class="faint">{html.escape(_about_memory(comparison.plan.tail_s))}</p>',
        ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _where() -> str:
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return (
        f"loft {places.version()}, {platform.machine()}, {os.cpu_count()} CPUs, "
        f"{platform.system()} {platform.release()}, {now}"
    )


def _table(rows: list[Row]) -> str:
    head = "".join(f"<th>{html.escape(row.metric.title)}</th>" for row in rows)
    lines = []
    for name in rows[0].summaries:
        cells = "".join(
            f'<td class="{row.summaries[name].verdict}">'
            f"{html.escape(cell(row.metric, row.summaries[name]))}</td>"
            for row in rows
        )
        lines.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    return f"<table><tr><th>allocator</th>{head}</tr>{''.join(lines)}</table>"


def _about_memory(tail_s: float) -> str:
    text = (
        "Memory over time is the sum over the command and all that it starts, from one run of its "
        "own under each allocator, sampled until the command exits."
    )
    if tail_s:
        text += f" At its end the command was held for {tail_s:g} s: the quiet tail."
    return text
