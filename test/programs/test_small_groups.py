"""In a small memory group of either version, freed memory is there for whoever wants it next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_groups import LIMITS, new_group
from programs import Build, Execute

pytestmark = pytest.mark.machine

MIB = 1 << 20

ENTER = 'echo $$ > "$0/cgroup.procs" && LD_PRELOAD="$1" && export LD_PRELOAD && shift && exec "$@"'

# Without swap, where it is counted.
SWAP = {
    1: {"memory.memsw.limit_in_bytes": str(64 * MIB), "memory.swappiness": "0"},
    2: {"memory.swap.max": "0"},
}


@pytest.fixture(params=[2, 1], ids=["version 2", "version 1"])
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """One of 64 MiB."""
    with new_group(request.param) as folder:
        try:
            (folder / LIMITS[request.param]).write_text(str(64 * MIB))
        except OSError as error:
            pytest.skip(f"control groups may not limit memory here: {error}")
        for name, value in SWAP[request.param].items():
            with contextlib.suppress(OSError):
                (folder / name).write_text(value)
        yield folder


@pytest.mark.parametrize("threads", [[], ["threads"]], ids=["one thread", "two threads"])
@pytest.mark.parametrize("owner", ["libc", "thread", "shared"])
def test_nobody_is_killed(
    execute: Execute, build: Build, lib: Path, group: Path, threads: list[str], owner: str
) -> None:
    """Not with owner=cpu: what a thread frees on another processor than it came from waits there
    until somebody calls loft on that processor (docs/internals/compatibility.md)."""
    libc = owner == "libc"
    words = ("sh", "-c", ENTER, group, "" if libc else lib, build("small_group.c"), *threads)
    more = {} if libc else {"LOFT_OWNER": owner}
    result = execute(*words, preload=False, **more)
    assert (result.returncode, result.stdout, result.stderr) == (0, "lived\n", "")


@pytest.mark.parametrize("longest", ["2048", "32768", "1000000"])
@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
def test_threads_that_wait(
    execute: Execute, build: Build, lib: Path, group: Path, owner: str, longest: str
) -> None:
    """A hundred, which had a burst of 4 MiB each."""
    command = (build("waiting_threads.c"), "100", "4096", "32", longest)
    result = execute("sh", "-c", ENTER, group, lib, *command, preload=False, LOFT_OWNER=owner)
    assert (result.returncode, result.stderr) == (0, "")
