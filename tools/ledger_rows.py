"""The ledger's rows: how bench/ledger.toml is read and written, and what may get worse.

A count that is exact may not rise at all, bytes only within their tolerance, unless the commit that
makes it rise writes the new value and the reason beside it. And how far a row has been above what
it was at the last tag stays within 2 %, or two and a half where that is more: a comparison on a
fast path. What falls is written, too.
"""

import itertools
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from pydantic import BaseModel, ConfigDict

# Of a row, since the last tag.
MOST_RISE, LEAST_MOST_RISE = 0.02, 2.5
# Of bytes that another machine's libc and system have a share in.
BYTES_SHARE, BYTES_LEAST = 0.02, 64 << 10
PAGES = 8 << 10
CHANCE_SHARE = 0.01
PLACES_SHARE = 0.1
STEADY_SHARE = 0.001
HEAD = """\
# What loft costs, counted: `make ledger` shows it, `make test` checks it, and
# tools/ledger.py --update writes it.
#
# A value that rises is a failure, unless the commit writes it here, with a reason beside it that
# is a new one. Since the last tag a row rises by 2 % at most, or by two and a half where that is
# more. What is not exact says within what: "bytes" is 2 % or 64 KiB, "pages" two pages, "chance"
# 1 %, "steady" a thousandth, "places" 10 %: it depends on which words the linker puts into one
# line. The peers are there for comparison; tools/ledger.py --context writes them. `method` is
# raised, by hand, where the counting itself changes: what was written before is not compared with.
"""


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    value: float
    reason: str = ""
    peers: dict[str, float] = {}


class Group(BaseModel):
    """Rows of one unit."""

    model_config = ConfigDict(extra="forbid")

    unit: str
    within: str = ""
    # Only at night.
    night: bool = False
    rows: dict[str, Row] = {}

    def tolerance(self, value: float) -> float:
        return {
            "": 0,
            "pages": PAGES,
            "bytes": max(BYTES_SHARE * value, BYTES_LEAST),
            "chance": CHANCE_SHARE * value,
            "steady": STEADY_SHARE * value,
            "places": PLACES_SHARE * value,
        }[self.within]


class Ledger(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # Raised where the counting itself changes: values before are of another count.
    method: int = 1
    compiler: str = ""
    # Debian's packages of the programs that run, with their versions.
    packages: dict[str, str] = {}
    groups: dict[str, Group] = {}

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls.model_validate(tomllib.loads(text))

    def each(self) -> Iterator[tuple[str, str, Group, Row]]:
        for title, group in self.groups.items():
            for name, row in group.rows.items():
                yield title, name, group, row

    def find(self, title: str, name: str) -> Row | None:
        group = self.groups.get(title)
        return None if group is None else group.rows.get(name)

    def text(self) -> str:
        lines = [
            HEAD,
            f"method = {self.method}",
            f"compiler = {quoted(self.compiler)}",
            "",
            "[packages]",
        ]
        lines += [f"{quoted(name)} = {quoted(version)}" for name, version in self.packages.items()]
        for title, group in self.groups.items():
            lines += ["", f"[groups.{quoted(title)}]", f"unit = {quoted(group.unit)}"]
            lines += [f"within = {quoted(group.within)}"] if group.within else []
            lines += ["night = true"] if group.night else []
            lines += [f"[groups.{quoted(title)}.rows]"]
            lines += [f"{quoted(name)} = {_row(row)}" for name, row in group.rows.items()]
        return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def plain(value: float) -> str:
    """Without a fraction where there is none."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _row(row: Row) -> str:
    parts = [f"value = {plain(row.value)}"]
    parts += [f"reason = {quoted(row.reason)}"] if row.reason else []
    peers = ", ".join(f"{name} = {plain(value)}" for name, value in row.peers.items())
    parts += [f"peers = {{{peers}}}"] if peers else []
    return "{" + ", ".join(parts) + "}"


@dataclass
class Findings:
    """What a check has found: only what is worse is a failure."""

    worse: list[str] = field(default_factory=list)
    better: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


# By group, and in it by row.
Counts = dict[str, dict[str, float]]


def compare(ledger: Ledger, measured: Counts, findings: Findings) -> None:
    for title, name, group, row in ledger.each():
        if title not in measured:
            continue
        now = measured[title].get(name)
        if now is None:
            continue
        said = f"{title}: {name}: {plain(row.value)} {group.unit} are now {plain(now)}"
        tolerance = group.tolerance(row.value)
        if now > row.value + tolerance:
            findings.worse.append(said)
        elif now < row.value - tolerance:
            findings.better.append(said)
    for title, rows in measured.items():
        for name in rows:
            if ledger.find(title, name) is None:
                findings.worse.append(f"{title}: {name}: a row that bench/ledger.toml lacks")


def look_at_history(versions: list[Ledger], findings: Findings) -> None:
    """The ledger as it was at the last tag, as each commit since left it, and as it is now."""
    versions = [each for each in versions if each.method == versions[-1].method]
    rises: dict[tuple[str, str], float] = {}
    firsts: dict[tuple[str, str], float] = {}
    for before, after in itertools.pairwise(versions):
        # Another version of a program, or another compiler, is no change of loft's.
        same = (before.compiler, before.packages) == (after.compiler, after.packages)
        for title, name, _, row in after.each():
            old = before.find(title, name)
            if old is None:
                continue
            if row.value <= old.value:
                firsts.setdefault((title, name), old.value)
                continue
            what = f"{title}: {name}: {plain(old.value)} became {plain(row.value)}"
            if not row.reason or row.reason == old.reason:
                findings.worse.append(f"{what} without a new reason beside it")
            # What it regains of a fall is no rise: it was as high before.
            start = firsts[title, name] = firsts.get((title, name), old.value)
            if same:
                rises[title, name] = max(rises.get((title, name), 0), row.value - start)
            else:
                firsts[title, name] = start + row.value - old.value
    for (title, name), rise in rises.items():
        # A whole group goes where another one measures better what it was for.
        if title not in versions[-1].groups:
            continue
        # What it has lost again is no rise any more.
        last = versions[-1].find(title, name)
        left = rise if last is None else min(rise, last.value - firsts[title, name])
        first = next(each for it in versions if (each := it.find(title, name)) is not None)
        group = versions[-1].groups[title]
        allowed = max(MOST_RISE * first.value, LEAST_MOST_RISE, group.tolerance(first.value))
        if left > allowed:
            findings.worse.append(
                f"{title}: {name}: since the last tag it has risen by {plain(left)}, "
                f"more than {plain(allowed)}"
            )


def update(ledger: Ledger, measured: Counts, reason: str) -> list[str]:
    """Writes what was measured, and says what rose: it takes a reason."""
    rose = []
    for title, rows in measured.items():
        group = ledger.groups[title]
        for name, value in rows.items():
            row = group.rows.setdefault(name, Row(value=value))
            if value > row.value + group.tolerance(row.value):
                rose.append(f"{title}: {name}: {plain(row.value)} became {plain(value)}")
                row.reason = reason
            # Within its tolerance it stays, or each writer would write his machine's.
            if abs(value - row.value) > group.tolerance(row.value):
                row.value = value
        for name in [each for each in group.rows if each not in rows]:
            del group.rows[name]
    return rose
