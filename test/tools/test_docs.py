"""The pages for readers: their links, and the first commands."""

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


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
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
