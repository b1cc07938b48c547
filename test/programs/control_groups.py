"""This machine's control groups, for tests: where they are to be seen, and new ones."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# How the system names a mount of each version, and the file that limits memory.
KINDS = {1: r"cgroup .*\bmemory\b", 2: "cgroup2 "}
LIMITS = {1: "memory.limit_in_bytes", 2: "memory.max"}


def mounted(version: int) -> Path:
    mounts = Path("/proc/self/mountinfo").read_text()
    match = re.search(rf"^\S+ \S+ \S+ / (\S+) .* - {KINDS[version]}", mounts, re.MULTILINE)
    if match is None:
        pytest.skip(f"no control groups of version {version} here")
    return Path(match[1])


@contextlib.contextmanager
def new_group(version: int) -> Iterator[Path]:
    """One that limits memory, for processes that are gone in the end."""
    mount = mounted(version)
    if version == 2 and "memory" not in (mount / "cgroup.controllers").read_text().split():
        pytest.skip("memory is not limited by control groups of version 2 here")
    folder = mount / f"loft-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        if not (folder / LIMITS[version]).exists():
            pytest.skip("control groups may not limit memory below the topmost one here")
        yield folder
    finally:
        remove(folder)


def remove(group: Path) -> None:
    """A killed process leaves it a little later than it ends."""
    while (group / "cgroup.procs").read_text():
        time.sleep(0.01)
    group.rmdir()
