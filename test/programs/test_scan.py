"""hardened=full looks for damage by itself where no call would find it."""

from __future__ import annotations

import re
import signal

import pytest
from programs import HOW_TO_GET_STACKS, Build, Execute

FULL = {"LOFT_HARDENED": "full"}
BESIDE = FULL | {"LOFT_BACKGROUND": "on"}
DAMAGES = pytest.mark.parametrize(
    ("what", "says"),
    [
        ("beyond", "scan: a write beyond the object has damaged what lies behind"),
        ("freed", "write after free: the contents changed of"),
    ],
)


def test_what_is_whole_is_left_alone(execute: Execute, build: Build) -> None:
    result = execute(build("scanned.c"), "whole", **FULL)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("survived\n")


def stops(execute: Execute, program: list[str], settings: dict[str, str], says: str) -> None:
    result = execute(*program, **settings)
    assert result.returncode == -signal.SIGABRT, result.stdout + result.stderr
    line = rf"loft: {says} (0x\w+): slab 0x\w+, size class 112 bytes" + HOW_TO_GET_STACKS
    found = re.fullmatch(line, result.stderr)
    assert found is not None, result.stderr
    assert "beyond" not in program or found[1] == result.stdout.strip()


@DAMAGES
def test_damage_that_no_call_meets(execute: Execute, build: Build, what: str, says: str) -> None:
    """The calls that the program makes look around."""
    stops(execute, [str(build("scanned.c")), what], FULL, says)


@pytest.mark.night
@DAMAGES
def test_by_a_thread_of_lofts_own(execute: Execute, build: Build, what: str, says: str) -> None:
    stops(execute, [str(build("scanned.c")), what, "rests"], BESIDE, says)
