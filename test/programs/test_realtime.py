"""Threads that run before all others do not wait for one that they keep from running."""

from __future__ import annotations

import os

import pytest
from programs import Build, Execute


@pytest.mark.night
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes threads run before all others")
@pytest.mark.parametrize("owner", ["libc", "thread", "cpu", "shared"])
def test_inversion(execute: Execute, build: Build, owner: str) -> None:
    """On one processor."""
    # Others get the processor again however it ends.
    more = {} if owner == "libc" else {"LOFT_OWNER": owner, "LOFT_DECAY_MS": "20"}
    result = execute("timeout", "-s", "KILL", "50", build("realtime.c"), preload=bool(more), **more)
    if result.returncode == 77:
        pytest.skip("no thread may run before all others here")
    assert (result.returncode, result.stdout, result.stderr) == (0, "ended\n", "")
