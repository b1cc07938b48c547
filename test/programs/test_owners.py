"""Programs that are started with an owner of their own choice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from programs import Build, Execute

two_processors = pytest.mark.skipif(
    not {0, 1} <= os.sched_getaffinity(0), reason="takes two processors"
)


@pytest.fixture
def one_processor() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


def statistics(stderr: str) -> dict[str, int]:
    (line,) = [line for line in stderr.splitlines() if line.startswith("{")]
    found: dict[str, int] = json.loads(line)
    return found


@pytest.mark.usefixtures("one_processor")
def test_with_one_processor_it_declines_with_one_line(execute: Execute, build: Build) -> None:
    result = execute(build("streams.c"), LOFT_OWNER="room", LOFT_BACKGROUND="on", LOFT_STATS="json")
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("loft:")]
    assert said == [
        "loft: owner=room: there is one processor, so the room stays empty; "
        "threads serve themselves"
    ]
    counted = statistics(result.stderr)
    assert counted["room_ready"] == counted["room_late"] == 0


@two_processors
@pytest.mark.parametrize("owner", ["thread", "core", "room", "shared"])
def test_what_a_thread_left_goes_back(execute: Execute, build: Build, owner: str) -> None:
    result = execute(build("left_behind.c"), LOFT_OWNER=owner, LOFT_BACKGROUND="off")
    assert (result.returncode, result.stdout) == (0, "gone\n"), result.stderr


@pytest.mark.night
@two_processors
@pytest.mark.parametrize("owner", ["thread", "core", "room", "shared"])
def test_what_a_thread_left_goes_back_beside_lofts_thread(
    execute: Execute, build: Build, owner: str
) -> None:
    """That thread runs when the program rests."""
    settings = {"LOFT_OWNER": owner, "LOFT_BACKGROUND": "on"}
    result = execute(build("left_behind.c"), "rests", **settings)
    assert (result.returncode, result.stdout) == (0, "gone\n"), result.stderr


@pytest.mark.parametrize("owner", ["thread", "core", "room", "shared"])
@pytest.mark.parametrize("process", [[], ["fork"]], ids=["the first process", "a child"])
def test_the_first_thread_ends_before_others(
    execute: Execute, build: Build, owner: str, process: list[str]
) -> None:
    """libc ends a process with its last thread, which must not be one of loft's."""
    more = {"LOFT_OWNER": owner, "LOFT_BACKGROUND": "on"}
    result = execute(build("first_thread_ends.c"), *process, **more)
    assert (result.returncode, result.stdout) == (0, "worked\nended\n"), result.stderr
