"""`loft map`: from a process or a file to a page, a picture and a summary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from loft_malloc import output
from loft_malloc.errors import UserError
from loft_malloc.live import find
from loft_malloc.live.lines import Column, grid
from loft_malloc.live.reading import Reading, parsed
from loft_malloc.map import model, told
from loft_malloc.map.model import Kind, Map
from loft_malloc.printable import one_line
from loft_malloc.profile.steps import Steps
from loft_malloc.profile.top import amount, percent

STATS = "/stats.json"
WIDTH_IN_PIPE = 1000
MOST_CLASSES = 10
TITLES = {
    Kind.SLAB: "slabs",
    Kind.MEDIUM: "medium runs",
    Kind.LARGE: "large objects",
    Kind.FREE: "free spans",
    Kind.HEAP: "own heaps",
}


@dataclass(frozen=True)
class Wanted:
    html: Path | None
    png: Path | None
    save: Path | None

    def check(self) -> None:
        output.check_all((self.html, self.png, self.save))


@dataclass(frozen=True)
class Subject:
    title: str
    # Of the page, where no name was given.
    stem: str
    found: Map
    # As it was told, to be saved.
    told: dict[str, Any] | None = None
    # What only the statistics know: rounding and caches, by class.
    stats: Reading | None = None


def draw(pid: int | None, socket: Path | None, read: Path | None, wanted: Wanted) -> int:
    with Steps() as steps:
        if read is not None:
            steps.step(f"reading {read.name}")
            subject = Subject(read.name, read.stem, model.read(read))
        else:
            steps.step("asking the process")
            subject = _asked(pid, socket)
        if not subject.found.pieces:
            raise UserError(f"{subject.title}: there is nothing in the heap to draw", 1)
        html = wanted.html
        if html is None and wanted.png is None and wanted.save is None:
            html = Path(f"{subject.stem}.html")
        wanted = Wanted(html, wanted.png, wanted.save)
        wanted.check()
        written = _write(subject, wanted, steps)
    _summary(subject, written)
    return 0


def _asked(pid: int | None, socket: Path | None) -> Subject:
    client = find.client_of(pid, socket)
    answer = told.ask(client)
    found = model.parsed(answer, str(client.path))
    stats = parsed(client.json(STATS), 0.0)
    name = find.name_of(client.pid or 0)
    title = f"{one_line(name)} {client.pid or socket}".strip()
    return Subject(title, f"map.{client.pid or 'heap'}", found, answer, stats)


def _write(subject: Subject, wanted: Wanted, steps: Steps) -> list[str]:
    """Whatever draws is loaded here, since that takes longer than reading a small map."""
    said = []
    if wanted.save is not None:
        if subject.told is None:
            raise UserError("--save is for a process's map; this one is a file already")
        with output.writing(wanted.save):
            wanted.save.write_text(json.dumps(subject.told), encoding="utf-8")
        said.append(f"saved in {wanted.save}")
    if wanted.html is not None:
        from loft_malloc.map import page

        steps.step(f"drawing {wanted.html.name}")
        with output.writing(wanted.html):
            page.write(wanted.html, subject.found, subject.title, subject.stats)
        said.append(f"drawn in {wanted.html}")
    if wanted.png is not None:
        from loft_malloc.map import picture

        steps.step(f"drawing {wanted.png.name}")
        with output.writing(wanted.png):
            picture.write(wanted.png, subject.found, subject.title)
        said.append(f"drawn in {wanted.png}")
    return said


def summary(found: Map) -> list[str]:
    """A line for each kind of thing that there is."""
    lines = []
    for kind, title in TITLES.items():
        pieces = list(found.of(kind))
        if not pieces:
            continue
        total, used = (sum(values) for values in zip(*((p.bytes, p.used_bytes) for p in pieces)))
        line = f"{len(pieces):,} {title}: {amount(total, 'bytes')}"
        if kind not in (Kind.FREE, Kind.HEAP):
            line += f", {percent(used, total)} used"
        lines.append(line)
    return lines


def _summary(subject: Subject, written: list[str]) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH_IN_PIPE

    def say(line: Any, style: str = "") -> None:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

    say(subject.title, "bold")
    for line in summary(subject.found):
        say(line)
    classes = sorted(subject.found.classes(), key=lambda each: each.hole_bytes, reverse=True)
    if classes:
        rows = [
            [
                str(each.object_bytes),
                f"{each.slabs:,}",
                amount(each.bytes, "bytes"),
                amount(each.hole_bytes, "bytes"),
                percent(each.hole_bytes, each.bytes),
            ]
            for each in classes[:MOST_CLASSES]
        ]
        heads = [Column(name) for name in ("class", "slabs", "memory", "free inside", "")]
        for text in grid(heads, rows, console.width):
            say(text)
    for line in written:
        say(line)
