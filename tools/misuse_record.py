"""What test/misuse/outcomes.json keeps of the cases; docs/internals/misuse.md follows from it."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path

import jinja2
from misuse_runs import BUILD, CONFIGURATIONS, GOOD, MODES, ROOT, SOURCES, WORDS, Case

from loft_malloc.tables import Cell, Table, as_markdown

OUTCOMES = SOURCES / "outcomes.json"
PAGE = ROOT / "docs" / "internals" / "misuse.md"

# By case and configuration: one of WORDS, or several with their numbers.
Outcomes = dict[str, dict[str, str]]

# What does no harm under a mode of loft and is no promise: the program is small, or nobody else has
# needed that memory yet.
LUCK = {
    "off": (
        # There is nothing behind or before the few objects of a case.
        "*-1m-*",
        # Memory that was purged, or that has stayed with another thread or size.
        "fresh-*",
        "reuse-*",
        # The system has moved the pages.
        "read-after-realloc-8m",
    )
}


def as_text(words: Iterable[str]) -> str:
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{word} {counts[word]}" for word in WORDS if word in counts)


def words_in(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text))


def does_no_harm(text: str) -> bool:
    """Each time that it ran; "-" says that it never did."""
    words = words_in(text)
    return bool(words) and words <= GOOD


def is_luck(case: Case, column: str) -> bool:
    return any(fnmatchcase(case.name, pattern) for pattern in LUCK.get(column, ()))


def is_promised(case: Case, column: str, outcomes: Outcomes) -> bool:
    return does_no_harm(outcomes[case.name].get(column, "-")) and not is_luck(case, column)


def merged(old: Outcomes, new: Outcomes, cases: list[Case]) -> Outcomes:
    """The new ones, and of the old ones what did not run; in the order of the program."""
    order = [configuration.name for configuration in CONFIGURATIONS]
    result: Outcomes = {}
    for case in cases:
        found = {**old.get(case.name, {}), **new.get(case.name, {})}
        result[case.name] = {name: found[name] for name in order if name in found}
    return result


def columns_of(outcomes: Outcomes) -> list[str]:
    named = {name for found in outcomes.values() for name in found}
    return [each.name for each in CONFIGURATIONS if each.name in named]


def cell(family: list[Case], outcomes: Outcomes, column: str) -> str:
    """One word, if all sizes have it; otherwise each word, with the sizes."""
    found = []
    for case in family:
        text = outcomes[case.name].get(column, "-")
        lucky = does_no_harm(text) and is_luck(case, column)
        found.append((f"{text}, by luck" if lucky else text, case.size))
    if len({word for word, _ in found}) == 1:
        return found[0][0]
    parts = []
    for word, group in groupby(found, key=lambda each: each[0]):
        parts.append(f"{', '.join(size for _, size in group)}: {word}")
    return "; ".join(parts)


def tables(cases: list[Case], outcomes: Outcomes) -> list[Table]:
    """One for each section: a row for what differs in size alone."""
    columns, made = columns_of(outcomes), []
    for section, group in groupby(cases, key=lambda case: case.section):
        table = Table(["", "name", *columns], title=section)
        for _, each in groupby(group, key=lambda case: case.family):
            family = list(each)
            cells = [Cell(cell(family, outcomes, column)) for column in columns]
            table.rows.append((family[0].says, [Cell(f"`{family[0].family}`"), *cells]))
        made.append(table)
    return made


def one_a_line(cases: list[Case], outcomes: Outcomes) -> Table:
    """What is printed."""
    columns = columns_of(outcomes)
    table = Table(["", *columns])
    for case in cases:
        table.add(case.name, *(outcomes[case.name].get(column, "-") for column in columns))
    return table


def summary(cases: list[Case], outcomes: Outcomes) -> Table:
    """By section, how many of the cases do no harm."""
    columns = columns_of(outcomes)
    table = Table(["", "cases", *columns])
    groups = [(title, list(group)) for title, group in groupby(cases, lambda each: each.section)]
    for title, group in [*groups, ("all", cases)]:
        held = [sum(is_promised(each, c, outcomes) for each in group) for c in columns]
        table.add(title, str(len(group)), *map(str, held))
    return table


def versions() -> dict[str, str]:
    path = BUILD / "peers" / "versions.json"
    known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return {
        each.name: known[each.library.stem]
        for each in CONFIGURATIONS
        if each.library is not None and each.library.stem in known
    }


def page(cases: list[Case], outcomes: Outcomes, of_peers: Mapping[str, str]) -> str:
    template = (ROOT / "tools" / "misuse.md.jinja").read_text(encoding="utf-8")
    made = jinja2.Template(template, trim_blocks=True, keep_trailing_newline=True)
    return str(
        made.render(
            as_markdown=as_markdown,
            summary=summary(cases, outcomes),
            tables=tables(cases, outcomes),
            modes=[each.name for each in MODES if each.name in columns_of(outcomes)],
            versions=of_peers,
        )
    )


@dataclass
class Record:
    """What the file keeps: the page follows from it."""

    cases: list[Case]
    outcomes: Outcomes
    versions: dict[str, str]

    @staticmethod
    def read(path: Path = OUTCOMES) -> "Record":
        if not path.exists():
            return Record([], {}, {})
        given = json.loads(path.read_text(encoding="utf-8"))
        cases = [Case(name, *each["case"]) for name, each in given["cases"].items()]
        outcomes = {name: each["outcomes"] for name, each in given["cases"].items()}
        return Record(cases, outcomes, given["versions"])

    def as_json(self) -> str:
        # One line a case.
        lines = [
            f"  {json.dumps(case.name)}: "
            + json.dumps(
                {
                    "case": [case.section, case.says, case.size],
                    "outcomes": self.outcomes[case.name],
                }
            )
            for case in self.cases
        ]
        body = ",\n".join(lines)
        of_peers = json.dumps(self.versions, indent=1).replace("\n", "\n ")
        return f'{{\n "versions": {of_peers},\n "cases": {{\n{body}\n }}\n}}\n'

    def page(self) -> str:
        return page(self.cases, self.outcomes, self.versions)
