"""How tools/misuse.py judges the end of a process, and how it says what it has seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from misuse import chosen
from misuse_record import (
    Outcomes,
    Record,
    as_text,
    cell,
    does_no_harm,
    is_promised,
    merged,
    summary,
)
from misuse_runs import Case, Configuration, Ending, run_case

from loft_malloc.errors import UserError

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Configuration("glibc", None)
SMALL = Case("write-48", "Writes", "one byte", "48 B")
LARGE = Case("write-8m", "Writes", "one byte", "8 MiB")


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("echo misuse; kill -ABRT $$", "stopped"),
        ("echo misuse; kill -SEGV $$", "fault"),
        ("echo misuse; kill -BUS $$", "fault"),
        ("echo misuse; exit 1", "stopped"),
        ("echo misuse; exit 20", "avoided"),
        ("echo misuse; exit 21", "through"),
        ("echo misuse; exit 22", "unseen"),
        ("exit 23", "absent"),
        # Whoever ends before the mistake has not been stopped by it.
        ("kill -SEGV $$", "broken"),
        ("echo misuse; exit 24", "broken"),
        ("exit 2", "broken"),
        ("echo misuse", "broken"),
    ],
)
def test_the_end_of_a_process_has_a_word(tmp_path: Path, script: str, word: str) -> None:
    assert run_case(made(tmp_path, script), "any", HERE).word == word


def made(folder: Path, script: str) -> Path:
    program = folder / "program"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    return program


def test_what_hangs_is_ended(tmp_path: Path) -> None:
    program = made(tmp_path, "echo misuse; sleep 1000 & wait")
    end = run_case(program, "any", HERE, timeout=0.2)  # time: less than for ever
    assert end.word == "hung"


def test_the_report_is_kept_and_the_settings_are_the_configurations_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOFT_MISUSE", "continue")
    program = made(tmp_path, 'echo misuse; echo "<$LOFT_MISUSE> <$LOFT_OWNER>" >&2; kill -ABRT $$')
    configuration = Configuration("loft", None, {"LOFT_OWNER": "shared"})
    assert run_case(program, "any", configuration) == Ending("stopped", "<> <shared>")


def test_words_with_numbers_where_they_differ() -> None:
    assert as_text(["fault"] * 3) == "fault"
    assert as_text(["through", "fault", "through"]) == "fault 1, through 2"
    assert does_no_harm("stopped") and does_no_harm("fault 1, avoided 2")
    assert not any(map(does_no_harm, ["through", "fault 1, through 2", "unseen", "absent", "-"]))


def test_a_row_tells_sizes_apart_only_where_they_differ() -> None:
    outcomes: Outcomes = {"write-48": {"off": "through"}, "write-8m": {"off": "through"}}
    assert cell([SMALL, LARGE], outcomes, "off") == "through"
    outcomes["write-8m"]["off"] = "fault"
    assert cell([SMALL, LARGE], outcomes, "off") == "48 B: through; 8 MiB: fault"
    assert cell([SMALL, LARGE], outcomes, "scudo") == "-"


def test_luck_is_no_promise() -> None:
    case = Case("overflow-1m-48", "Writes", "", "48 B")
    outcomes: Outcomes = {case.name: {"off": "fault", "scudo": "fault"}}
    assert not is_promised(case, "off", outcomes)
    assert is_promised(case, "scudo", outcomes)
    assert cell([case], outcomes, "off") == "fault, by luck"
    (_, counts) = summary([case], outcomes).rows[-1]
    assert [each.text for each in counts] == ["1", "0", "1"]


def test_what_did_not_run_stays_as_it_was() -> None:
    old: Outcomes = {"write-48": {"off": "through", "scudo": "stopped"}, "gone": {"off": "fault"}}
    new: Outcomes = {"write-48": {"off": "avoided"}}
    assert merged(old, new, [SMALL]) == {"write-48": {"off": "avoided", "scudo": "stopped"}}


def test_the_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record([SMALL, LARGE], {"write-48": {"off": "fault"}, "write-8m": {}}, {"scudo": "1"})
    path = tmp_path / "outcomes.json"
    path.write_text(record.as_json())
    assert Record.read(path) == record


def test_an_unknown_configuration_is_named() -> None:
    with pytest.raises(UserError, match="nobody; there are: off, guard, guard's samples, full"):
        chosen("nobody", [])
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "misuse.py", "--with", "nobody"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("misuse: no configuration nobody; ")
