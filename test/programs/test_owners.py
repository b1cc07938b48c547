"""Programs that are started with an owner of their own choice."""

from __future__ import annotations

import os

import pytest
from programs import Build, Execute

two_processors = pytest.mark.skipif(
    not {0, 1} <= os.sched_getaffinity(0), reason="takes two processors"
)


@two_processors
@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
def test_what_a_thread_left_goes_back(execute: Execute, build: Build, owner: str) -> None:
    result = execute(build("left_behind.c"), LOFT_OWNER=owner, LOFT_BACKGROUND="off")
    assert (result.returncode, result.stdout) == (0, "gone\n"), result.stderr


@pytest.mark.night
@two_processors
@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
def test_what_a_thread_left_goes_back_beside_lofts_thread(
    execute: Execute, build: Build, owner: str
) -> None:
    """That thread runs when the program rests."""
    settings = {"LOFT_OWNER": owner, "LOFT_BACKGROUND": "on"}
    result = execute(build("left_behind.c"), "rests", **settings)
    assert (result.returncode, result.stdout) == (0, "gone\n"), result.stderr


@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
@pytest.mark.parametrize("process", [[], ["fork"]], ids=["the first process", "a child"])
def test_the_first_thread_ends_before_others(
    execute: Execute, build: Build, owner: str, process: list[str]
) -> None:
    """libc ends a process with its last thread, which must not be one of loft's."""
    more = {"LOFT_OWNER": owner, "LOFT_BACKGROUND": "on"}
    result = execute(build("first_thread_ends.c"), *process, **more)
    assert (result.returncode, result.stdout) == (0, "worked\nended\n"), result.stderr
