"""The counts in the README and on other pages that bench/ledger.toml holds: checked, or written."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ledger_counts import PAIR, ROOT, instructions_of
from ledger_rows import Ledger, Row

# The columns of the row in docs/results.md, after loft's.
COLUMNS = ("mimalloc2", "mimalloc3", "snmalloc", "jemalloc", "tcmalloc", "tbbmalloc", "glibc")


def row(ledger: Ledger) -> Row:
    return ledger.groups[instructions_of("owner=thread")].rows[PAIR]


def pair(ledger: Ledger) -> float:
    return row(ledger).value


def pair_of(ledger: Ledger, peer: str) -> float | None:
    return row(ledger).peers.get(peer)


def best_peer(ledger: Ledger) -> float | None:
    """None where one of them has not been counted: it may be the best."""
    found = [pair_of(ledger, each) for each in COLUMNS if each != "glibc"]
    counted = [each for each in found if each is not None]
    return min(counted) if len(counted) == len(found) else None


@dataclass(frozen=True)
class Place:
    """A number in a text: the pattern has one group, and stands there once."""

    page: str
    pattern: str
    # None where nobody has counted it.
    value: Callable[[Ledger], float | None]


PLACES = [
    Place("README.md", r"cached object \| (\d+) \|", pair),
    Place("README.md", r"cached object \| \d+ \| (\d+) \|", lambda it: pair_of(it, "glibc")),
    Place("README.md", r"cached object \| \d+ \| \d+ \| (\d+), ", best_peer),
    Place("docs/results.md", r"malloc and free \| (\d+) \|", pair),
    *(
        Place(
            "docs/results.md",
            rf"malloc and free(?: \| \d+){{{place}}} \| (\d+) \|",
            lambda it, name=name: pair_of(it, name),  # type: ignore[misc]
        )
        for place, name in enumerate(COLUMNS, 1)
    ),
    Place("docs/threads.md", r"fastest malloc and free: (\d+) instructions", pair),
]


def differences(ledger: Ledger, root: Path = ROOT) -> Iterator[tuple[Place, str, str]]:
    """Each place that says another number, what it says, and what the ledger does."""
    for place in PLACES:
        value = place.value(ledger)
        found = re.findall(place.pattern, (root / place.page).read_text(encoding="utf-8"))
        if len(found) != 1:
            raise ValueError(f"{place.page}: {place.pattern} is there {len(found)} times")
        if value is not None and found[0] != f"{value:.0f}":
            yield place, found[0], f"{value:.0f}"


def write(ledger: Ledger, root: Path = ROOT) -> None:
    for place, _, now in list(differences(ledger, root)):
        path = root / place.page
        text = path.read_text(encoding="utf-8")
        match = re.search(place.pattern, text)
        assert match is not None
        path.write_text(text[: match.start(1)] + now + text[match.end(1) :], encoding="utf-8")
