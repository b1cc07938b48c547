"""What docs/results.json holds, and the pages that show it: docs/results.md, and README's table.

Whatever bench/ledger.toml counts is shown as it stands there, whenever the rest was measured.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import ledger_counts
from ledger_rows import Ledger, Row
from parts import git
from pydantic import BaseModel, ConfigDict

from loft_malloc.tables import Cell, Table, Verdict, as_markdown

ROOT = Path(__file__).resolve().parent.parent
# Tables of results, of rows, of what these are called on the short page.
CHOSEN = tomllib.loads((ROOT / "bench" / "short.toml").read_text(encoding="utf-8"))
# Of these rows, what README calls them.
IN_README: dict[str, str] = CHOSEN.pop("README")
# The row that the ledger counts, too.
PAIR = CHOSEN["Instructions of one call"]["malloc + free of 64 B"]
README_TABLE = re.compile(r"(<!-- tools/results\.py -->\n).*?(<!-- end -->\n)", re.DOTALL)
# Commits of src after which what was measured says nothing of today's loft.
OLD = 100
NUMBER = re.compile(r"[\d.]+(e[+-]\d+)?")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Line(Strict):
    """By column of the record, and what loft's says."""

    label: str
    texts: dict[str, str]
    verdict: Verdict = "none"

    def number(self, name: str) -> float | None:
        text = self.texts.get(name, "")
        return float(text) if NUMBER.fullmatch(text) else None

    def best(self, names: list[str]) -> str:
        """Of them. The label has an arrow that says what is better."""
        found = {name: number for name in names if (number := self.number(name)) is not None}
        return (max if "↑" in self.label else min)(found, key=found.__getitem__, default="")


class Lost(Strict):
    row: str
    table: str
    gain: float
    why: str


class Record(Strict):
    """One run, of one commit."""

    commit: str
    head: list[str]
    columns: list[str]
    peers: list[str]
    rows: list[Line]
    beside: list[Line]
    losses: list[Lost]

    def line(self, label: str) -> Line | None:
        return next((line for line in self.rows if line.label == label), None)

    def counted(self, ledger: Ledger) -> "Record":
        """With the ledger's counts."""
        told, now = self.model_copy(deep=True), pair(ledger)
        if line := told.line(PAIR):
            line.texts = {name: f"{n:.0f}" for name, n in {"loft": now.value, **now.peers}.items()}
            best = line.number(line.best(self.peers))
            line.verdict = "behind" if best is not None and now.value > best else "ahead"
        return told


def pair(ledger: Ledger) -> Row:
    return ledger.groups[ledger_counts.instructions_of("owner=thread")].rows[ledger_counts.PAIR]


def read_record(path: Path) -> Record:
    return Record.model_validate_json(path.read_text(encoding="utf-8"))


def filled(template: str, **words: Any) -> str:
    text = (ROOT / "tools" / template).read_text(encoding="utf-8")
    made = jinja2.Template(text, trim_blocks=True, keep_trailing_newline=True)
    return str(made.render(as_markdown=as_markdown, **words))


def as_table(record: Record, lines: list[Line]) -> Table:
    table = Table(["", *record.columns], judged="loft")
    for line in lines:
        cells = [
            Cell(line.texts.get(name, "-"), line.verdict if name == "loft" else "none")
            for name in record.columns
        ]
        table.rows.append((line.label, cells))
    return table


def page(record: Record) -> str:
    return filled(
        "short.md.jinja",
        record=record,
        rows=as_table(record, record.rows),
        beside=as_table(record, record.beside),
    )


def readme_table(record: Record) -> Iterator[str]:
    yield "| | loft | glibc | best peer |"
    yield "|---|---:|---:|---|"
    for label, called in IN_README.items():
        line = record.line(label)
        if line is None:
            continue
        mine = line.texts.get("loft", "-")
        mine = f"**{mine}** ▼" if line.verdict == "behind" else mine
        peer = line.best(record.peers)
        best = f"{line.texts[peer]}, {peer}" if peer else "-"
        yield f"| {called} | {mine} | {line.texts.get('glibc', '-')} | {best} |"
    machine, when = (
        line.partition(mark)[0] for line, mark in zip(record.head, (", transp", ";"), strict=False)
    )
    yield f"\nMeasured {when} at {record.commit}: {machine}."


def with_table(text: str, record: Record) -> str:
    """README's text. Its table stands between two comments."""
    if len(README_TABLE.findall(text)) != 1:
        raise ValueError("README.md has no place for the table of results")
    table = "\n".join(readme_table(record))
    return README_TABLE.sub(lambda place: f"{place[1]}{table}\n{place[2]}", text)


def pages(ledger: Ledger, root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """What they have to say."""
    told = read_record(root / "docs" / "results.json").counted(ledger)
    yield root / "docs" / "results.md", page(told)
    readme = root / "README.md"
    yield readme, with_table(readme.read_text(encoding="utf-8"), told)


def changes(old: Record, new: Record) -> Iterator[str]:
    """What loft has in both."""
    for line in new.rows:
        before, now = old.line(line.label), line.texts.get("loft", "-")
        if before is not None and (then := before.texts.get("loft", "-")) != now:
            yield f"{line.label}: {then}, now {now}"


def record_of_tag() -> tuple[str, Record] | None:
    """Of the last tag that has one."""
    tag = git("describe", "--tags", "--abbrev=0")
    text = git("show", f"{tag}:docs/results.json") if tag else None
    return (tag, Record.model_validate_json(text)) if tag and text else None
