"""A profile as a page with a flame graph: one file that loads nothing."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2

from loft_malloc import places
from loft_malloc.printable import counted
from loft_malloc.profile import top, tree
from loft_malloc.profile.top import Sort
from loft_malloc.profile.tree import Tree

FOLDER = places.PACKAGE / "profile"
# Narrower than a pixel of the widest screen, and hidden in its caller's box.
SHARE_OF_CRUMBS = 1 / 20000
# The rows of the table for those whose browser runs no scripts.
PLAIN_ROWS = 50


def write(path: Path, made: Tree, title: str, remarks: list[str], sampled: str) -> None:
    nodes, gone = tree.without_crumbs(made, SHARE_OF_CRUMBS)
    if gone:
        remarks = [
            *remarks,
            f"the {counted(gone, 'smallest box is', 'smallest boxes are')} drawn in the caller's",
        ]
    template = jinja2.Template(
        (FOLDER / "page.html").read_text(encoding="utf-8"),
        autoescape=True,
        keep_trailing_newline=True,
    )
    column = top.columns(made)[0]
    page = template.render(
        title=title,
        version=places.version(),
        machine=f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}",
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        sampled=sampled,
        said=[*top.summary(made), *remarks],
        compared=made.compared,
        style=(FOLDER / "page.css").read_text(encoding="utf-8"),
        script="\n".join(
            (FOLDER / name).read_text(encoding="utf-8") for name in ("tree.js", "page.js")
        ),
        data=as_script(_data(made, nodes)),
        plain=[
            (
                top.amount(held.flat[column.index], column.kind.unit, made.compared),
                top.amount(held.cumulative[column.index], column.kind.unit, made.compared),
                held.function[0],
                top.place(held),
            )
            for held in top.ordered(made, Sort.FLAT)[:PLAIN_ROWS]
        ],
    )
    path.write_text(page, encoding="utf-8", errors="replace")


def as_script(data: Any) -> str:
    """As JSON that can stand in a page: no name in it can end the script that holds it."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _data(made: Tree, nodes: list[tree.Node]) -> dict[str, Any]:
    functions = {function: i for i, function in enumerate({n.function: 0 for n in nodes})}
    lines = {held.function: held.line for held in made.held}
    return {
        "kinds": [
            {"type": kind.type, "unit": kind.unit, "title": kind.title} for kind in made.kinds
        ],
        "main": made.main,
        "compared": made.compared,
        # Name, file, line.
        "functions": [[*function, lines.get(function, 0)] for function in functions],
        # Function, parent, its own values, and those of the base.
        "nodes": [
            [functions[n.function], n.parent, n.values, *([n.base] if made.compared else [])]
            for n in nodes
        ],
    }
