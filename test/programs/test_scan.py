"""hardened=full looks for damage by itself, in a thread of its own, where no call would find it."""

from __future__ import annotations

import re
import signal

import pytest
from programs import Build, Execute

FULL = {"LOFT_HARDENED": "full", "LOFT_BACKGROUND": "on"}


def test_what_is_whole_is_left_alone(execute: Execute, build: Build) -> None:
    result = execute(build("scanned.c"), "whole", **FULL)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("survived\n")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("beyond", "scan: a write beyond the object has damaged what lies behind"),
        ("freed", "write after free: the contents changed of"),
    ],
)
def test_damage_that_no_call_meets(execute: Execute, build: Build, what: str, says: str) -> None:
    result = execute(build("scanned.c"), what, "again", **FULL)
    assert result.returncode == -signal.SIGABRT, result.stdout + result.stderr
    line = rf"loft: {says} (0x\w+): slab 0x\w+, size class 112 bytes\n"
    found = re.fullmatch(line, result.stderr)
    assert found is not None, result.stderr
    assert what != "beyond" or found[1] == result.stdout.strip()


def test_without_the_thread_nothing_is_looked_at(execute: Execute, build: Build) -> None:
    result = execute(build("scanned.c"), "beyond", LOFT_HARDENED="full", LOFT_BACKGROUND="off")
    assert (result.returncode, result.stderr) == (0, "")
