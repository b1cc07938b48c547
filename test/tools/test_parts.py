"""What is noted of the parts that passed, and what `make test` concludes from it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import parts
import pytest
from check import known_stages

ROWS = [
    {
        "stage": "clang",
        "passed": 7,
        "failed": 0,
        "skipped": {"no such processor": 2},
        "seconds": 60,
        "processor_seconds": 100,
    },
    {
        "stage": "debug",
        "passed": 5,
        "failed": 1,
        "skipped": {},
        "seconds": 30,
        "processor_seconds": 40,
    },
]


@dataclass
class Stage:
    tier: str = ""
    night: int = 0
    weekly: int = 0


def git(*words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", *words], check=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two sources and a header."""
    for name, text in {
        "src/base/bits.h": "",
        "src/heap/heap.cc": "",
        "src/slab/slab.cc": "",
        "tools/passed.toml": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    monkeypatch.setattr(parts, "RECORD", tmp_path / "tools" / "passed.toml")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    return tmp_path


def test_a_part_that_passed_is_noted_with_its_table(tree: Path) -> None:
    assert "commit passed.toml" in parts.record("night", 3, ROWS)
    assert "commit passed.toml" in parts.record("weekly", 1, ROWS[:1]), "its own note is no change"
    known = parts.read()
    assert (
        known["night"]["3"]["commit"]
        == known["weekly"]["1"]["commit"]
        == parts.git("rev-parse", "HEAD")
    )
    assert known["night"]["3"]["rows"][0] == {**ROWS[0], "skipped": 2}


def test_what_is_not_committed_is_not_noted(tree: Path) -> None:
    (tree / "src/slab/slab.cc").write_text("int a;\n")
    assert "not recorded" in parts.record("night", 3, ROWS)
    assert parts.read() == {}


def test_what_changed_since_a_part_passed(tree: Path) -> None:
    assert parts.changed(3, ["src/*"]) is None, "it never passed"
    parts.record("night", 3, ROWS)
    assert parts.changed(3, ["src/*"]) == []
    (tree / "src/base/bits.h").write_text("// more\n")
    (tree / "src/slab/new.cc").write_text("")
    assert parts.changed(3, ["src/*"]) == ["src/base/bits.h", "src/slab/new.cc"]
    assert parts.changed(3, ["docs/*"]) == []


def test_a_commit_that_is_not_here_is_as_none(tree: Path) -> None:
    parts.RECORD.write_text(f'[night.3]\ncommit = "{"0" * 40}"\nrows = []\n')
    assert parts.changed(3, ["src/*"]) is None
    assert parts.old([Stage(night=3)]) == ["old: no pass is known: make night PART=3"]


def test_parts_that_are_old_are_told(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts.record("night", 1, ROWS)
    stages = [Stage("test", night=1), Stage(weekly=2), Stage("check")]
    assert parts.old(stages) == ["old: no pass is known: make weekly PART=2"]
    monkeypatch.setattr(parts, "OLD", 0)
    git("commit", "-qam", "two")
    assert parts.old(stages)[0] == "old: passed 1 commits ago: make night PART=1"


def test_the_table_has_a_sum() -> None:
    lines = parts.table(ROWS)
    assert lines[2] == "| clang | 7 | 0 | 60 | 100 | 2: no such processor |"
    assert lines[-1] == "| all | 12 | 1 | 90 | 140 |  |"


def test_the_table_is_shown_between_its_marks(tree: Path) -> None:
    page = tree / "CONTRIBUTING.md"
    page.write_text("before\n<!-- make test -->\nold\n<!-- /make test -->\nafter\n")
    parts.show(ROWS)
    lines = page.read_text().splitlines()
    assert lines[:2] == ["before", "<!-- make test -->"]
    assert lines[2:-2] == parts.table(ROWS)
    assert lines[-2:] == ["<!-- /make test -->", "after"]


def test_every_stage_is_run_by_something() -> None:
    stages = known_stages()
    assert [name for name, stage in stages.items() if not parts.when(stage)] == []
    assert [name for name, stage in stages.items() if stage.paths and not stage.night] == []
