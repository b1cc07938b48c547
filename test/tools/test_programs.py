"""What the comparison of real programs passes over, and what it does not."""

from __future__ import annotations

import re

import pytest
from programs import PROGRAMS, Outcome, Program, differences, python_report

PYTHON = next(program for program in PROGRAMS if program.name == "python-subprocess")

# A run of one of Python's own test modules, as it writes it; the numbers are put in below.
REPORT = """\
== CPython 3.11.2 (main) [GCC 12.2.0]
== cwd: /tmp/test_python_{number}æ
== CPU count: 2
{time}load avg: {load} Run tests sequentially
{time}load avg: {load} [1/1] test_subprocess
test_bufsize (test.test_subprocess.ProcessTestCase.test_bufsize) ... ok
test_various_ops (test.test_threading.ThreadTests.test_various_ops) ... {threads}ok
test_weak (test.test_subprocess.ProcessTestCase.test_weak) ... skipped '<Popen at {address}>'

----------------------------------------------------------------------
Ran 3 tests in {seconds}s

OK (skipped=1)
{ended}
== Tests result: SUCCESS ==

1 test OK.

Total duration: {duration}
Tests result: SUCCESS
"""
QUICK = REPORT.format(
    number=801,
    time="0:00:00 ",
    load="0.21",
    threads="task <thread 0> will run for 11.0 usec\n1 tasks are running\n<thread 0> done\n",
    address="0x7f11e2a4c350",
    seconds="8.123",
    ended="",
    duration="8.2 sec",
)
SLOW = REPORT.format(
    number=17432,
    time="0:01:40 ",
    load="12.77",
    threads="<thread 0> is finished.\nwaiting for all tasks to complete\nall tasks done\n",
    address="0x55d0c7f3b2a0",
    seconds="98.700",
    ended="test_subprocess passed in 1 min 38 sec\n",
    duration="1 min 39 sec",
)


def outcome(stdout: str, stderr: str = "", status: int = 0, **files: bytes) -> Outcome:
    return Outcome(status, python_report(stdout), python_report(stderr), files)


def test_a_slow_run_is_the_same_run() -> None:
    assert QUICK != SLOW
    assert differences(PYTHON, outcome(SLOW), outcome(QUICK)) == []
    assert differences(PYTHON, outcome(QUICK), outcome(SLOW)) == []


@pytest.mark.parametrize(
    "duration", ["30.0 sec", "38.2 sec", "1 min", "1 min 2 sec", "1 hour 3 min", "750 ms"]
)
def test_every_way_of_writing_a_time_is_noise(duration: str) -> None:
    assert python_report(f"ok\ntest_threading passed in {duration}\nend\n") == "ok\nend\n"
    said = f"test_json failed (1 error, 2 failures) in {duration}\n"
    assert python_report(said) == "test_json failed (1 error, 2 failures)\n"
    assert python_report(f"Total duration: {duration}\n") == "Total duration: TIME\n"


def test_numbers_of_processes_are_noise_and_what_is_said_of_them_is_not() -> None:
    said = "Warning -- reap_children() reaped child process {}\n"
    one, other = outcome(QUICK, said.format(801)), outcome(QUICK, said.format(90210))
    assert differences(PYTHON, one, other) == []
    assert differences(PYTHON, one, outcome(QUICK)) != []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("test_bufsize) ... ok", "test_bufsize) ... ERROR"),
        ("test_bufsize) ... ok", "test_bufsize) ... skipped 'no memory'"),
        ("Ran 3 tests", "Ran 2 tests"),
        ("skipped=1", "skipped=2"),
        ("1 test OK.", "1 test failed:\n    test_subprocess"),
        ("Tests result: SUCCESS\n", "Tests result: FAILURE\n"),
        ("test_subprocess passed in 1 min 38 sec", "test_subprocess failed in 1 min 38 sec"),
        ("test_subprocess passed in 1 min 38 sec", "test_subprocess failed (env changed)"),
        ("== CPU count: 2", "== CPU count: 1"),
    ],
)
def test_what_differs_in_substance_is_told(before: str, after: str) -> None:
    assert before in SLOW
    assert differences(PYTHON, outcome(SLOW.replace(before, after)), outcome(QUICK)) != []


def test_other_programs_are_compared_to_the_letter() -> None:
    for program in PROGRAMS:
        if not program.name.startswith("python-"):
            assert program.normalise(SLOW) == SLOW


def test_status_streams_files_and_complaints_are_compared() -> None:
    program = Program("made up", "true")
    fine = outcome("out\n", "err\n", made=b"1")
    assert differences(program, fine, fine) == []
    for other, said in (
        (outcome("out\n", "err\n", status=3, made=b"1"), "status 3, not 0"),
        (outcome("out!\n", "err\n", made=b"1"), "standard output"),
        (outcome("out\n", "err!\n", made=b"1"), "standard error"),
        (outcome("out\n", "err\n", made=b"2"), "file made"),
        (outcome("out\n", "err\n"), "file made"),
    ):
        (found,) = differences(program, other, fine)
        assert re.match(said, found)
    complaint = outcome("out\n", "loft: double free\n", made=b"1")
    assert "loft: double free" in differences(program, complaint, fine)
    assert differences(program, complaint, complaint) == ["loft: double free"]
