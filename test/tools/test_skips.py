"""Which skips are expected, and where."""

from __future__ import annotations

from dataclasses import replace

from skips import Expected, read, unexpected

BAZEL = Expected("bazel", "packages: .*test_bazel", "there is no bazel", "false")
SKIP = ("packages", "test_bazel test_a_module", "there is no bazel; it is elsewhere")


def test_what_an_environment_lacks_is_expected() -> None:
    assert unexpected([SKIP], [BAZEL]) == []
    # Nobody can ask.
    assert unexpected([SKIP], [Expected("bazel", BAZEL.tests, BAZEL.reason)]) == []


def test_another_test_or_reason_is_not() -> None:
    for skip in (
        ("cli", *SKIP[1:]),
        (SKIP[0], "test_cmake", SKIP[2]),
        (*SKIP[:2], "it is Sunday"),
    ):
        (wrong,) = unexpected([SKIP, skip], [BAZEL])
        assert wrong.startswith(f"{skip[0]}: {skip[1]}: skipped, which")
        assert wrong.endswith(skip[2])


def test_what_is_there_is_no_reason() -> None:
    there = Expected("bazel", BAZEL.tests, BAZEL.reason, "true")
    (wrong,) = unexpected([SKIP], [there])
    assert "though this is here: bazel" in wrong
    # One of two reasons is enough.
    assert unexpected([SKIP], [there, BAZEL]) == []


def test_the_table_can_be_read() -> None:
    assert len({each.lacks for each in read()}) == len(read()) > 10


def test_what_the_system_grants_is_expected_in_each_mode() -> None:
    everything = "the system grants everything"
    names = ("surface.", "surface.guard.", "surface.full.", "unit.")
    tests = [f"{name}Huge.WhatTheSystemDoesNotGrantIsRefused" for name in names]
    (row,) = (each for each in read() if each.reason == everything)
    row = replace(row, there="")
    assert unexpected([("modes", test, everything) for test in tests], [row]) == []
