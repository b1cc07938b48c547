"""docs/migration.md: a row for each name that users of other allocators know, and no name of loft's
that is none."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "migration.md").read_text()
HEADERS = "".join(path.read_text() for path in sorted((ROOT / "include" / "loft").iterdir()))
NAMES: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).with_name("migration.toml")).read_text()
)
OPTIONS = set(re.findall(r"^\| `(\w+)` \| `LOFT_", (ROOT / "docs/options.md").read_text(), re.M))


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def rows() -> list[list[str]]:
    """Without the heads of the tables."""
    lines = PAGE.splitlines()
    inner = [
        line
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith("| ") and not following.startswith("|---")
    ]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in inner]


def known() -> list[str]:
    """The names in the first columns; `*` stands for any text."""
    return [plain(name) for row in rows() if len(row) == 2 for name in code(row[0])]


def plain(name: str) -> str:
    return re.sub(r"<[ij]>|\{\w+\}", "N", name)


@pytest.mark.parametrize("group", sorted(NAMES))
def test_each_name_has_a_row(group: str) -> None:
    patterns = known()
    missing = [
        name
        for name in NAMES[group]
        if not any(fnmatch.fnmatchcase(plain(name), pattern) for pattern in patterns)
    ]
    assert missing == []


def test_the_lists_are_whole() -> None:
    assert len(NAMES["mallctl"]) > 150
    assert len(NAMES["mimalloc_functions"]) > 100


def test_each_row_says_something() -> None:
    for row in rows():
        assert all(row), row


def test_names_of_loft_exist() -> None:
    for name in re.findall(r"\bloft_\w+", PAGE):
        assert re.search(rf"\b{name}\b", HEADERS) or name == "loft_heap_", name
    for name in re.findall(r"\bloft::(\w+)", PAGE):
        assert re.search(rf"\bclass {name}\b", HEADERS), name


def test_fields_exist() -> None:
    fields = re.findall(r"\b(loft_\w+_t)\.(\w+)", PAGE)
    assert len(fields) > 30
    for struct, field in fields:
        body = re.search(rf"typedef struct {struct} \{{(.*?)\n\}} {struct};", HEADERS, re.S)
        assert body is not None, struct
        assert re.search(rf"\b{field};", body[1]), f"{struct}.{field}"


def test_options_exist() -> None:
    assert len(OPTIONS) > 15
    for name in re.findall(r"\bLOFT_([A-Z_]+)", PAGE):
        assert name == "NAME" or name.lower() in OPTIONS, name
    for setting in re.findall(r"`([a-z_]+)=[^`]*`", PAGE):
        assert setting in OPTIONS, setting
    for name in re.findall(r'loft_option_[sg]et\("(\w+)"', PAGE):
        assert name in OPTIONS, name


def test_requests_of_the_socket_exist() -> None:
    sources = (ROOT / "inspect/serve.cc").read_text()
    for path in re.findall(r"`GET ([^`?]+)", PAGE):
        assert f'"{path}"' in sources, path
