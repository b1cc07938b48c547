"""A comparison as a page: one file that loads nothing."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from pathlib import Path

import jinja2

from loft import charts, places
from loft.comparison import Comparison
from loft.metrics import Row
from loft.report_text import LEGEND, heading, table

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ title }}</title>
<style>
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
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p class="faint">loft {{ version }}, {{ machine }}, {{ date }}</p>
{% if said %}<ul>{% for line in said %}<li>{{ line }}</li>{% endfor %}</ul>{% endif %}
{% if table %}
<div class="wide">
<table><tr>{% for title in table.columns %}<th>{{ title }}</th>{% endfor %}</tr>
{% for name, cells in table.rows -%}
<tr><th>{{ name }}</th>
{%- for cell in cells %}<td class="{{ cell.verdict }}">{{ cell.text }}</td>{% endfor %}</tr>
{% endfor %}</table>
</div>
<p class="faint">{{ legend }}.</p>
<h2>Charts</h2>
{{ charts | safe }}
<p class="faint">Memory over time is the sum over the command and all that it starts, from one run
of its own under each allocator, sampled until the command exits.
{%- if tail_s %} At its end the command was held for {{ "%g" % tail_s }} s: the quiet tail.
{%- endif %}</p>
{% endif %}
</body>
</html>
"""


def write(path: Path, comparison: Comparison, rows: list[Row], remarks: list[str]) -> None:
    path.write_text(page(comparison, rows, remarks), encoding="utf-8")


def page(comparison: Comparison, rows: list[Row], remarks: list[str]) -> str:
    said = [f"{row.metric.title}: {row.conclusion}" for row in rows if row.conclusion]
    text: str = jinja2.Template(PAGE, autoescape=True, keep_trailing_newline=True).render(
        title=heading(comparison),
        version=places.version(),
        machine=f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}",
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        said=[*said, *remarks],
        table=table(rows) if rows else None,
        legend=LEGEND,
        charts=charts.draw(comparison, rows) if rows else "",
        tail_s=comparison.plan.tail_s,
    )
    return text
