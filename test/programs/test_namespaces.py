"""Where /proc shows other processes, or nothing, and where other processes share the memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from programs import Build, Execute

OWNERS = pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
# Memory is looked after often.
SOON = {"LOFT_DECAY_MS": "50"}


@OWNERS
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes process namespaces")
@pytest.mark.parametrize("stacks", ["small", "usual"])
def test_inner_process_namespace(execute: Execute, build: Build, stacks: str, owner: str) -> None:
    """/proc/self/task/NUMBER is another thread there."""
    result = execute(build("namespaces.c"), stacks, LOFT_OWNER=owner, **SOON)
    if result.returncode == 77:
        pytest.skip("no process namespace to be had here")
    assert (result.returncode, result.stdout, result.stderr) == (0, "bad 0\n", "")


@OWNERS
@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the root folder")
def test_no_proc(execute: Execute, build: Build, tmp_path: Path, owner: str) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    result = execute(build("namespaces.c"), "empty", folder, LOFT_OWNER=owner, **SOON)
    if result.returncode == 77:
        pytest.skip("the root folder cannot be changed here")
    assert (result.returncode, result.stdout, result.stderr) == (0, "bad 0\n", "")


@OWNERS
def test_children_that_share_the_memory(execute: Execute, build: Build, owner: str) -> None:
    """And the first thread's place, with what is thread-local."""
    result = execute(build("namespaces.c"), "sharing", LOFT_OWNER=owner, **SOON)
    assert (result.returncode, result.stdout, result.stderr) == (0, "bad 0\n", "")


@pytest.mark.parametrize("how", ["small", "usual", "sharing"])
def test_without_loft(execute: Execute, build: Build, how: str) -> None:
    result = execute(build("namespaces.c"), how, preload=False)
    if result.returncode == 77:
        pytest.skip("no process namespace to be had here")
    assert (result.returncode, result.stdout, result.stderr) == (0, "bad 0\n", "")
