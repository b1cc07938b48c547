"""In a small memory group of either version, freed memory is there for whoever wants it next."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import Build, Execute

MIB = 1 << 20


def mounted(pattern: str) -> Path:
    mounts = Path("/proc/self/mountinfo").read_text()
    match = re.search(rf"^\S+ \S+ \S+ / (\S+) .* - {pattern}", mounts, re.MULTILINE)
    if match is None:
        pytest.skip("no control groups of this version here")
    return Path(match[1])


@pytest.fixture(params=["version 1", "version 2"])
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """One of 64 MiB, without swap."""
    if request.param == "version 1":
        mount, limit = mounted(r"cgroup .*\bmemory\b"), "memory.limit_in_bytes"
        swap = {"memory.memsw.limit_in_bytes": str(64 * MIB), "memory.swappiness": "0"}
    else:
        mount, limit = mounted("cgroup2 "), "memory.max"
        swap = {"memory.swap.max": "0"}
        if "memory" not in (mount / "cgroup.controllers").read_text().split():
            pytest.skip("memory is not limited by control groups of version 2 here")
    folder = mount / f"loft-small-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            (folder / limit).write_text(str(64 * MIB))
        except OSError as error:
            pytest.skip(f"control groups may not limit memory here: {error}")
        for name, value in swap.items():
            with contextlib.suppress(OSError):
                (folder / name).write_text(value)
        yield folder
    finally:
        # A killed process leaves it a little later than it ends.
        for _ in range(100):
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.1)


@pytest.mark.parametrize("threads", [[], ["threads"]], ids=["one thread", "two threads"])
@pytest.mark.parametrize("owner", ["libc", "thread", "keeper"])
def test_nobody_is_killed(
    execute: Execute, build: Build, lib: Path, group: Path, threads: list[str], owner: str
) -> None:
    """Not with owner=core: what a thread frees on another processor than it came from waits there
    until somebody calls loft on that processor (docs/compatibility.md)."""
    script = 'echo $$ > "$0/cgroup.procs" && LD_PRELOAD="$1" && export LD_PRELOAD && shift'
    script += ' && exec "$@"'
    libc = owner == "libc"
    words = ("sh", "-c", script, group, "" if libc else lib, build("small_group.c"), *threads)
    more = {} if libc else {"LOFT_OWNER": owner}
    result = execute(*words, preload=False, **more)
    assert (result.returncode, result.stdout, result.stderr) == (0, "lived\n", "")
