"""Processes that fork, or vfork, at awkward moments."""

from __future__ import annotations

import pytest
from programs import Build, Execute


@pytest.mark.parametrize("beside", ["alone", "threads"])
def test_a_fork_beside_streams(execute: Execute, build: Build, beside: str) -> None:
    """One thread grows a line, one flushes all streams, one forks: nobody waits for ever."""
    result = execute(build("fork_streams.c"), beside)
    expected = (0, "child goes on\nparent goes on\n", "")
    assert (result.returncode, result.stdout, result.stderr) == expected


@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
@pytest.mark.parametrize("threads", ["0", "3"])
def test_a_child_that_shares_its_parents_memory(
    execute: Execute, build: Build, owner: str, threads: str
) -> None:
    """It may allocate; the parent's memory goes back afterwards, and setuid finds all threads."""
    result = execute(build("vfork_allocates.c"), threads, LOFT_OWNER=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, "0 wrong, given back\n", "")
