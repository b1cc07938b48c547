"""The pages for readers: their links, their size, and the first commands."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT,
    capture_output=True,
    text=True,
).stdout.split()
# Packages have some of them by a link.
PAGES = [name for name in PAGES if not (ROOT / name).is_symlink()]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def links(page: Path) -> list[str]:
    """Those that lead to a file here."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize(
    "name",
    [
        "python/README.md",
        "bindings/rust/loft-malloc/README.md",
        "bindings/rust/loft-malloc-sys/README.md",
    ],
)
def test_registries_show_pages_without_links_into_the_repository(name: str) -> None:
    """There they would lead nowhere; and each says how to report a security fault."""
    text = (ROOT / name).read_text()
    assert re.findall(r"\]\((?!https:)", text) == []
    assert "SECURITY.md" in text


def test_the_command_shows_its_own_page() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert told["project"]["readme"] == "python/README.md"


def test_the_first_commands_of_the_readme() -> None:
    commands = re.findall(r"^    (\w.*?)(?:  .*)?$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["make run", "make test"]


def test_the_pages_for_users_are_few_and_short() -> None:
    words = {page.name: len(page.read_text().split()) for page in (ROOT / "docs").glob("*.md")}
    assert len(words) <= 10
    assert sum(words.values()) <= 18_000, words


@pytest.mark.parametrize("folder", ["docs", "docs/internals"])
def test_every_page_has_a_door(folder: str) -> None:
    """Those for users in the README, those for contributors in the list of their folder."""
    door = ROOT / ("README.md" if folder == "docs" else "docs/internals/README.md")
    linked = {(door.parent / target.partition("#")[0]).resolve() for target in links(door)}
    assert {*(ROOT / folder).glob("*.md")} - {door} <= linked
