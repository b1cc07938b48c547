"""tools/booted.py reads what a machine writes: it boots none here."""

from __future__ import annotations

import re

import pytest
from booted import LEFT_OUT, MACHINES, judge, left_out

MAY = re.compile(r"unit\.Unwind\.ASignal")
RAN = ["Linux 6.1.0 x86_64", "DONE unit_os_test 22", "DONE storm_late_test 3", "END"]


def test_all_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(RAN, MAY, 2)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "Linux 6.1.0 x86_64"
    assert told[-1] == "25 passed, 0 failed, 0 left out"


def test_one_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert not judge(["| why", "FAILED unit_os_test Pages.Move 1", *RAN], MAY, 2)
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == ["| why", "failed: unit.Pages.Move (status 1)"]
    assert told[-1] == "24 passed, 1 failed, 0 left out"


def test_one_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(["FAILED unit_os_test Unwind.ASignalsHandler 1", *RAN], MAY, 2)
    assert capsys.readouterr().out.splitlines()[-1] == "24 passed, 0 failed, 1 left out"


@pytest.mark.parametrize(
    "lines",
    [
        RAN[:-1],  # it ends early
        [RAN[1], RAN[3]],  # a program is missing
        ["DONE unit_os_test 0", *RAN[2:]],  # or does not start
        [],
    ],
)
def test_what_did_not_run_has_not_passed(lines: list[str]) -> None:
    assert not judge(lines, MAY, 2)


def test_what_is_left_out_names_machines_and_tests() -> None:
    names = {machine.name for machine in MACHINES}
    for line in LEFT_OUT.read_text().splitlines():
        if line and line[0] != "#":
            machine, pattern = line.split(" ")
            assert machine in names
            assert re.match(r"(unit|surface|storm)\\\.\w", pattern), pattern
    assert left_out("aarch64").match("surface.SizedFreeDeath.OfAWrongAlignment")
    assert not left_out("aarch64").match("surface.SizedFreeDeath.OfAWrongSize")
