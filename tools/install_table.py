#!/usr/bin/env python3
"""Writes the table of docs/internals/proofs.md: each way to install loft, its tests, and their day.

The ways are those of proofs.toml there. A way names the tests that prove it, or the reason why it
cannot be run here. The day stands in the table alone: it is of the last run whose reports were
recorded.

tools/install_table.py                    write the table, with the days that it has
tools/install_table.py --record REPORT... and put the reports' day where all tests of a way passed
tools/install_table.py --check            exit 1 if the table is not what would be written
"""

import argparse
import re
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAYS = ROOT / "docs" / "internals" / "proofs.toml"
DOCUMENT = ROOT / "docs" / "internals" / "proofs.md"

BEGINS = "| system | line to type | what was run to prove it | when |\n|---|---|---|---|\n"
ROW = re.compile(r"^\| (?P<system>.*?) \| (?P<line>.*?) \| .* \| (?P<when>.*?) \|$", re.MULTILINE)
NOT_RUN = "not run"


class TableError(Exception):
    pass


@dataclass(frozen=True)
class Way:
    system: str
    line: str  # what is typed
    what: str  # what the tests do, or what of it can be done here
    tests: list[str] = field(default_factory=list)  # path::name, without parameters
    why: str = ""  # it cannot be run here

    @property
    def key(self) -> tuple[str, str]:
        return self.system, f"`{self.line}`"

    def row(self, when: str) -> str:
        proof = f"{self.what} Not run: {self.why}" if self.why else self.what
        places = dict.fromkeys(test.partition("::")[0] for test in self.tests)
        links = ", ".join(f"[{Path(place).name}](../../{place})" for place in places)
        proof = f"{proof} ({links})" if links else proof
        return f"| {self.system} | {self.key[1]} | {proof} | {when} |\n"


def read_ways(text: str) -> list[Way]:
    ways = [Way(**entry) for entry in tomllib.loads(text)["way"]]
    for way in ways:
        if not way.tests and not way.why:
            raise TableError(f"{WAYS.name}: {way.line}: names neither tests nor a reason")
        if "|" in way.system + way.line + way.what + way.why:
            raise TableError(f"{WAYS.name}: {way.line}: a | ends a cell; say it another way")
    return ways


def missing_tests(ways: Iterable[Way]) -> Iterator[str]:
    """The tests that are named and nowhere to be found."""
    for test in (test for way in ways for test in way.tests):
        path, _, name = test.partition("::")
        file = ROOT / path
        if not file.exists() or not re.search(rf"\bdef {name}\b", file.read_text("utf-8")):
            yield test


def days(table: str) -> dict[tuple[str, str], str]:
    return {(row["system"], row["line"]): row["when"] for row in ROW.finditer(table)}


@dataclass
class Results:
    """Of reports in JUnit's form: which tests passed, and which did not in some form."""

    passed: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)
    day: str = ""

    def read(self, report: Path) -> None:
        root = ET.parse(report).getroot()
        for suite in root.iter("testsuite"):
            self.day = max(self.day, suite.get("timestamp", "")[:10])
        for case in root.iter("testcase"):
            name = case.get("name", "").partition("[")[0]
            test = f"{case.get('classname', '').replace('.', '/')}.py::{name}"
            bad = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
            (self.other if bad else self.passed).add(test)

    def prove(self, way: Way) -> bool:
        return bool(way.tests) and all(
            test in self.passed and test not in self.other for test in way.tests
        )


def write_table(document: str, ways: Iterable[Way], results: Results) -> str:
    before, begins, table = document.partition(BEGINS)
    if not begins:
        raise TableError(f"{DOCUMENT.name}: the table's head is not there")
    rows, _, after = table.partition("\n\n")
    known = days(rows)
    written = [
        way.row(results.day if results.prove(way) else known.get(way.key, NOT_RUN)) for way in ways
    ]
    return f"{before}{begins}{''.join(written)}\n{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", nargs="+", type=Path, default=[], metavar="REPORT")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    results = Results()
    try:
        for report in arguments.record:
            results.read(report)
        ways = read_ways(WAYS.read_text("utf-8"))
        if missing := sorted(set(missing_tests(ways))):
            raise TableError(f"{WAYS.name}: no such test: {', '.join(missing)}")
        now = DOCUMENT.read_text("utf-8")
        text = write_table(now, ways, results)
    except (TableError, OSError, ET.ParseError) as error:
        sys.exit(f"install_table: {error}")
    if arguments.check:
        if text != now:
            sys.exit("docs/internals/proofs.md is not proofs.toml's: run tools/install_table.py")
    else:
        DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
