"""What papers/figures.toml and papers/coverage.toml say, and what each figure has to measure."""

import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Self

from bench_rows import Row
from pydantic import BaseModel, ConfigDict, model_validator

ROOT = Path(__file__).resolve().parent.parent
# The first rows of every table: loft, and loft without its central mechanism.
FIRST = {"loft", "loft-unbatched"}


class Kind(StrEnum):
    TIMED = "timed"
    WHOLE = "whole"
    PROGRAM = "program"
    MISSES = "misses"
    SIMULATED = "simulated"
    SIZE = "size"


# Where a second round would say the same.
ONCE = (Kind.MISSES, Kind.SIMULATED, Kind.SIZE)
# What the checks alone may say.
VERDICT = re.compile(r"\b(dis)?agree|\bopen\b", re.IGNORECASE)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Metric(Strict):
    label: str
    form: str = ".3g"
    more_is_better: bool = False
    # Preemption decides it where threads share a processor.
    timed: bool = False

    @property
    def title(self) -> str:
        return f"{self.label} {'↑' if self.more_is_better else '↓'}"


class Contestant(Strict):
    """A library, below a folder of engines, and what is set for it."""

    file: str = ""
    set: dict[str, str] = {}


@dataclass(frozen=True)
class Point:
    """A column, and what runs for it."""

    x: str
    command: str
    limit_s: float = 20

    @property
    def row(self) -> Row:
        return Row(self.x, "", 0, self.command)


class Check(Strict):
    """What a paper says: a cell, which is an allocator and a column, or its ratio to another one,
    and the band."""

    says: str
    of: tuple[str, str]
    to: tuple[str, str] | None = None
    least: float = 0
    most: float = math.inf
    # The figure's first.
    metric: str = ""

    @property
    def cells(self) -> list[tuple[str, str]]:
        return [self.of, *([self.to] if self.to else [])]

    @property
    def band(self) -> str:
        if math.isinf(self.most):
            return f"≥ {self.least:g}"
        return f"{self.least:g} to {self.most:g}" if self.least else f"≤ {self.most:g}"

    @model_validator(mode="after")
    def bounded(self) -> Self:
        if not 0 <= self.least < self.most or (self.least == 0 and math.isinf(self.most)):
            raise ValueError(f"{self.says}: no band")
        return self


class Figure(Strict):
    name: str
    paper: str
    at: str
    title: str
    kind: Kind = Kind.TIMED
    x: str = ""
    run: str = ""
    work: int = 0
    # Of a run; what takes longer fails.
    limit_s: float = 20
    values: list[int | str] = []
    full: list[int | str] = []
    runs: dict[str, str] = {}
    full_runs: dict[str, str] = {}
    full_only: bool = False
    under: list[str]
    metrics: list[str]
    against: dict[str, str] = {}
    claims: dict[str, int | float | str] = {}
    checks: list[Check] = []
    reading: str = ""
    # Whether the page shows it as a picture, too.
    picture: bool = False

    def called(self, word: str) -> bool:
        """By its name, a pattern of names, or its number in any paper: fig5."""
        return fnmatchcase(self.name, word) or word == "fig" + self.name.split("-", 1)[-1]

    def points(self, full: bool) -> Iterator[Point]:
        for name, command in (self.runs | (self.full_runs if full else {})).items():
            yield Point(name, command, self.limit_s)
        for x in [*self.values, *(self.full if full else [])]:
            number = x if isinstance(x, int) else 0
            words = {"x": x, "half": number // 2, "share": self.work // max(1, number)}
            yield Point(str(x), self.run.format(**words), self.limit_s)


class Catalogue(Strict):
    metrics: dict[str, Metric]
    allocators: dict[str, Contestant]
    groups: dict[str, list[str]]
    figures: list[Figure]
    missing: list[dict[Literal["what", "why"], str]]

    @model_validator(mode="after")
    def whole(self) -> Self:
        for figure in self.figures:
            named = {n for word in figure.under for n in self.groups.get(word, [word])} | FIRST
            pairs = {*figure.against, *figure.against.values()}
            if unknown := (named | pairs) - self.allocators.keys():
                raise ValueError(f"{figure.name}: no allocator {', '.join(sorted(unknown))}")
            if unknown := set(figure.metrics) - self.metrics.keys():
                raise ValueError(f"{figure.name}: no metric {', '.join(sorted(unknown))}")
            if bool(figure.runs) == bool(figure.values):
                raise ValueError(f"{figure.name}: either runs or values")
            figure.under = [name for name in self.allocators if name in named]
            for check in figure.checks:
                check.metric = check.metric or figure.metrics[0]
                if check.metric not in figure.metrics:
                    raise ValueError(f"{figure.name}: no metric {check.metric}")
                columns = {point.x for point in figure.points(True)}
                for allocator, x in check.cells:
                    if allocator not in figure.under or x not in columns:
                        raise ValueError(f"{figure.name}: no cell {allocator}, {x}")
            if said := VERDICT.search(figure.reading):
                raise ValueError(f"{figure.name}: '{said[0]}' is for its checks to say")
        return self


class Form(StrEnum):
    FAITHFUL = "faithful"
    OTHER = "another form"
    OUT = "out of scope"


class Item(Strict):
    """One thing that a text describes, and what became of it."""

    at: str
    what: str
    form: Form
    # And the measurement of another form, or the reason for none.
    where: str = ""
    note: str = ""

    @model_validator(mode="after")
    def explained(self) -> Self:
        if not (self.where if self.form is Form.FAITHFUL else self.note):
            raise ValueError(f"{self.at}, {self.what}: where, or why not?")
        return self


def catalogue(path: Path = ROOT / "papers" / "figures.toml") -> Catalogue:
    return Catalogue.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


def coverage(path: Path = ROOT / "papers" / "coverage.toml") -> dict[str, list[Item]]:
    """By text."""
    texts = tomllib.loads(path.read_text(encoding="utf-8"))
    return {text: [Item.model_validate(each) for each in items] for text, items in texts.items()}
