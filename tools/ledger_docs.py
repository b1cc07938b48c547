"""The counts on pages that bench/ledger.toml holds: checked, or written."""

import re
from collections.abc import Iterator
from pathlib import Path

import result_pages
from ledger_counts import ROOT
from ledger_rows import Ledger

# Numbers in a text, by page: what has one group, and stands there once.
PAIRS = {"docs/threads.md": r"fastest malloc and free: (\d+) instructions"}


def wanted(ledger: Ledger, root: Path) -> Iterator[tuple[Path, str]]:
    """What each page has to say."""
    yield from result_pages.pages(ledger, root)
    for page, pattern in PAIRS.items():
        text = (root / page).read_text(encoding="utf-8")
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise ValueError(f"{page}: {pattern} is there {len(found)} times")
        now = f"{result_pages.pair(ledger).value:.0f}"
        yield root / page, text[: found[0].start(1)] + now + text[found[0].end(1) :]


def differences(ledger: Ledger, root: Path = ROOT) -> list[Path]:
    """The pages that say something else."""
    return [page for page, text in wanted(ledger, root) if page.read_text() != text]


def write(ledger: Ledger, root: Path = ROOT) -> None:
    for page, text in list(wanted(ledger, root)):
        page.write_text(text, encoding="utf-8")
