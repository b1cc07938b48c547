"""What is measured, as bench/rows.toml says: one row for each workload."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench_results import Kind
from pydantic import BaseModel, ConfigDict
from variants import VARIANTS

FOLDER = Path(__file__).resolve().parent.parent / "bench"
WRITTEN = FOLDER / "rows.toml"
# By name: for each allocator, its variables.
SETTINGS: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    (FOLDER / "settings.toml").read_text(encoding="utf-8")
)


def variant_path(variant: str) -> str:
    """Where the build puts the library, below build/."""
    return f"variants/{variant}.so"


@dataclass(frozen=True)
class Row:
    name: str
    group: str
    threads: int
    # Words with a = before the program are its environment.
    command: str
    full_only: bool = False
    kind: Kind = Kind.TIMED
    # No more than so many; 0: all that there are.
    rounds: int = 0
    # The only allocators that this row is for, and those that it is not for.
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    # The library that stands for loft in this row, one of tools/variants.py's.
    variant: str = ""
    # One of SETTINGS.
    settings: str = ""

    @property
    def environment(self) -> dict[str, str]:
        words = self.command.split()
        return dict(word.split("=", 1) for word in words[: words.index(self.program)])

    @property
    def program(self) -> str:
        return next(word for word in self.command.split() if "=" not in word)

    @property
    def arguments(self) -> list[str]:
        words = self.command.split()
        return words[words.index(self.program) + 1 :]


class Line(BaseModel):
    """As it is written there."""

    model_config = ConfigDict(extra="forbid")

    name: str
    run: str
    threads: int = 1
    threads_each: int = 0
    each: list[int] = []
    work: int = 0
    full: bool | list[int] = False
    kind: Kind = Kind.TIMED
    rounds: int = 0
    without: tuple[str, ...] = ()
    settings: str = ""
    # Of a sweep.
    option: str = ""
    values: str = ""
    variants: bool = False

    def rows(self, group: str) -> Iterator[Row]:
        for n in self.each or [0]:
            words = {
                "n": n,
                "threads": f"{n} thread{'s' if n > 1 else ''}",
                "share": self.work // max(n, 1),
            }
            yield Row(
                self.name.format(**words),
                group,
                n * self.threads_each or self.threads,
                self.run.format(**words),
                n in self.full if isinstance(self.full, list) else self.full,
                self.kind,
                self.rounds,
                without=self.without,
                settings=self.settings,
            )

    def swept(self) -> Iterator[tuple[str, str, str]]:
        """What each row is called, what stands before its program, and its variant of loft."""
        if self.variants:
            default, *others = VARIANTS
            yield "default", "", default
            yield from ((name, "", name) for name in others)
        else:
            yield "default", "", ""
            yield from ((each, f"{self.option}={each} ", "") for each in self.values.split())

    def sweep(self) -> Iterator[Row]:
        for name, setting, variant in self.swept():
            yield Row(
                f"{self.name}: {name}",
                self.name,
                self.threads,
                setting + self.run,
                full_only=True,
                kind=Kind.SWEEP,
                only=("loft",),
                variant=variant,
            )


def read_rows(text: str) -> Iterator[Row]:
    groups = tomllib.loads(text)
    sweeps = groups.pop("sweeps", [])
    for group, lines in groups.items():
        for line in lines:
            yield from Line.model_validate(line).rows(group)
    for line in sweeps:
        yield from Line.model_validate(line).sweep()


ROWS = tuple(read_rows(WRITTEN.read_text(encoding="utf-8")))
