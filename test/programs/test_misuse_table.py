"""What comes of misuse: docs/internals/misuse.md keeps its promises, and is of these programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import misuse_record
import misuse_runs
import pytest
from limits import HANGS_S

RECORD = misuse_record.Record.read()
MODES = {
    mode.name: mode
    for mode in misuse_runs.MODES
    if mode.name in misuse_record.columns_of(RECORD.outcomes)
}
PROMISES = [
    (mode, case.name)
    for mode in MODES
    for case in RECORD.cases
    if misuse_record.is_promised(case, mode, RECORD.outcomes)
]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return misuse_runs.compiled(tmp_path_factory.mktemp("misuse"))


def ending(program: Path, lib: Path, mode: str, name: str) -> misuse_runs.Ending:
    return misuse_runs.run_case(program, name, replace(MODES[mode], library=lib), HANGS_S)


@pytest.mark.parametrize(("mode", "name"), PROMISES, ids=map("-".join, PROMISES))
def test_a_promise_holds(program: Path, lib: Path, mode: str, name: str) -> None:
    end = ending(program, lib, mode, name)
    assert end.word in misuse_runs.GOOD, end.report


HARM = [
    (mode, case.name)
    for mode in MODES
    for case in RECORD.cases
    if not misuse_record.words_in(RECORD.outcomes[case.name][mode]) & misuse_runs.GOOD
    and not misuse_record.is_luck(case, mode)
]


@pytest.mark.parametrize(("mode", "name"), HARM, ids=map("-".join, HARM))
def test_the_page_tells_of_what_was_mended(program: Path, lib: Path, mode: str, name: str) -> None:
    """A mistake has no effect where the page says that it has one."""
    word = ending(program, lib, mode, name).word
    assert word not in misuse_runs.GOOD, f"tools/misuse.py --update {name}: {word} now"


def test_the_page_is_of_these_programs(program: Path) -> None:
    assert misuse_runs.cases_of(program) == RECORD.cases, "tools/misuse.py --update"
    assert all(set(MODES) <= set(found) for found in RECORD.outcomes.values())


def test_the_page_says_what_the_file_says() -> None:
    text = misuse_record.PAGE.read_text(encoding="utf-8")
    assert text == RECORD.page(), "tools/misuse.py --update"
