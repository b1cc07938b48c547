"""valgrind, which puts functions of its own in place of some of loft's."""

from __future__ import annotations

import shutil

import pytest
from programs import Build, Execute

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind is not installed: tools/setup.sh test"
)

LEAKS = ("--leak-check=full", "--error-exitcode=9")
OPTIONS = {
    "memcheck": LEAKS,
    "massif": ("--massif-out-file=/dev/null",),
    "dhat": ("--dhat-out-file=/dev/null",),
    "drd": ("--error-exitcode=9",),
    "helgrind": ("--error-exitcode=9",),
}


@pytest.mark.parametrize("tool", OPTIONS)
def test_every_name(execute: Execute, build: Build, tool: str) -> None:
    """No object is made by one of the two and freed by the other."""
    program = build("every_name.cc")
    result = execute("valgrind", "-q", f"--tool={tool}", *OPTIONS[tool], program)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
    # Of a tool that keeps accounts, all that -q leaves is where they went.
    assert "==" not in result.stderr or tool == "dhat", result.stderr


@pytest.mark.parametrize("command", ["ls -l /", "/usr/bin/python3 -c pass"])
def test_programs_under_memcheck(execute: Execute, command: str) -> None:
    result = execute("valgrind", "-q", *LEAKS, *command.split())
    assert (result.returncode, result.stderr) == (0, "")
