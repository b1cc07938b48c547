"""The counts in the README and on other pages that bench/ledger.toml holds: checked, or written."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ledger_counts import ROOT, instructions_of
from ledger_rows import Ledger, plain

MALLOC, FREE = "malloc of 64 B", "free of 64 B"
# The columns of the row in docs/results.md, after loft's.
COLUMNS = ("mimalloc2", "mimalloc3", "snmalloc", "jemalloc", "tcmalloc", "tbbmalloc", "glibc")


def pair(ledger: Ledger, setting: str = "owner=thread") -> float:
    rows = ledger.groups[instructions_of(setting)].rows
    return rows[MALLOC].value + rows[FREE].value


def pair_of(ledger: Ledger, peer: str) -> float | None:
    rows = ledger.groups[instructions_of("owner=thread")].rows
    both = [rows[each].peers.get(peer) for each in (MALLOC, FREE)]
    return None if None in both else sum(each for each in both if each is not None)


def best_peer(ledger: Ledger) -> float | None:
    found = [pair_of(ledger, each) for each in COLUMNS if each != "glibc"]
    return min((each for each in found if each is not None), default=None)


@dataclass(frozen=True)
class Place:
    """A number in a text: the pattern has one group, and stands there once."""

    page: str
    pattern: str
    # None where nobody has counted it.
    value: Callable[[Ledger], float | None]


PLACES = [
    Place("README.md", r"take (\d+) instructions together", pair),
    Place("README.md", r"glibc takes (\d+), the best peer", lambda it: pair_of(it, "glibc")),
    Place("README.md", r"glibc takes \d+, the best peer (\d+)\.", best_peer),
    Place("docs/results.md", r"malloc and free \| (\d+) \|", pair),
    *(
        Place(
            "docs/results.md",
            rf"malloc and free(?: \| \d+){{{place}}} \| (\d+) \|",
            lambda it, name=name: pair_of(it, name),  # type: ignore[misc]
        )
        for place, name in enumerate(COLUMNS, 1)
    ),
    Place("docs/owners.md", r"fastest malloc and free: (\d+) instructions", pair),
]


def differences(ledger: Ledger, root: Path = ROOT) -> Iterator[tuple[Place, str, str]]:
    """Each place that says another number, what it says, and what the ledger does."""
    for place in PLACES:
        value = place.value(ledger)
        found = re.findall(place.pattern, (root / place.page).read_text(encoding="utf-8"))
        if len(found) != 1:
            raise ValueError(f"{place.page}: {place.pattern} is there {len(found)} times")
        if value is not None and found[0] != f"{value:.0f}":
            yield place, found[0], plain(value)


def write(ledger: Ledger, root: Path = ROOT) -> None:
    for place, _, now in list(differences(ledger, root)):
        path = root / place.page
        text = path.read_text(encoding="utf-8")
        match = re.search(place.pattern, text)
        assert match is not None
        path.write_text(text[: match.start(1)] + now + text[match.end(1) :], encoding="utf-8")
