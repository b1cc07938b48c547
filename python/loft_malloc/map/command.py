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
from loft_malloc.live.reading import Reading, Usage, parsed
from loft_malloc.map import model, told
from loft_malloc.map.model import Kind, Map
from loft_malloc.printable import counted, one_line
from loft_malloc.profile.steps import Steps
from loft_malloc.profile.top import amount, percent

STATS = "/stats.json"
WIDTH_IN_PIPE = 1000
MOST_CLASSES = 10
TITLES = {
    Kind.SLAB: ("slab", "slabs"),
    Kind.MEDIUM: ("medium run", "medium runs"),
    Kind.LARGE: ("large object", "large objects"),
    Kind.FREE: ("free span", "free spans"),
    Kind.HEAP: ("extent of a heap of the program's own", "extents of heaps of the program's own"),
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
            raise UserError(f"{subject.title}: the heap is empty; there is nothing to draw", 1)
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
    stats = parsed(client.json(STATS), 0.0, Usage.of(client.pid))
    name = find.name_of(client.pid or 0)
    title = f"{one_line(name)} {client.pid or socket}".strip()
    return Subject(title, f"map.{client.pid or 'heap'}", found, answer, stats)


def _write(subject: Subject, wanted: Wanted, steps: Steps) -> list[str]:
    """Whatever draws is loaded here, since that takes longer than reading a small map."""
    said = []
    if wanted.save is not None:
        if subject.told is None:
            raise UserError("--save needs a process: this map is a file already")
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


def summary(found: Map, stats: Reading | None) -> list[str]:
    """A line for each kind of thing that there is."""
    lines = [] if stats is None else [stats.heap]
    if not found.is_resident_known:
        lines.append("it is not known what is resident: sizes are address space")
    for kind, (one, many) in TITLES.items():
        pieces = list(found.of(kind))
        if not pieces:
            continue
        size, resident, free = (
            sum(values) for values in zip(*((p.bytes, p.resident, p.hole_bytes) for p in pieces))
        )
        line = f"{counted(len(pieces), one, many)}: "
        line += amount(resident, "bytes") + (" resident" if found.is_resident_known else "")
        if kind not in (Kind.FREE, Kind.HEAP):
            line += f", {amount(free, 'bytes')} of it free inside"
        if size > resident:
            line += f"; {amount(size - resident, 'bytes')} not resident"
        lines.append(line)
    return lines


HEADS = ("class", "slabs", "resident", "free inside", "% free", "not resident")


def class_rows(found: Map, most: int) -> list[list[str]]:
    """By what is free inside."""
    classes = sorted(found.classes(), key=lambda each: each.hole_bytes, reverse=True)
    return [
        [
            str(each.object_bytes),
            f"{each.slabs:,}",
            amount(each.resident, "bytes"),
            amount(each.hole_bytes, "bytes"),
            percent(each.hole_bytes, each.resident),
            amount(each.bytes - each.resident, "bytes"),
        ]
        for each in classes[:most]
    ]


def _summary(subject: Subject, written: list[str]) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH_IN_PIPE

    def say(line: Any, style: str = "") -> None:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

    say(subject.title, "bold")
    for line in summary(subject.found, subject.stats):
        say(line)
    if rows := class_rows(subject.found, MOST_CLASSES):
        for text in grid([Column(name) for name in HEADS], rows, console.width):
            say(text)
    for line in written:
        say(line)
