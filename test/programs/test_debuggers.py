"""valgrind, which puts functions of its own in place of some of loft's; gdb's cores, and probes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from programs import PYTHON, Build, Execute

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


@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
def test_a_core_is_as_large_as_the_process(
    execute: Execute, lib: Path, tmp_path: Path, owner: str
) -> None:
    """What is only planned is not written."""
    script = "import sys; data = [bytes(100) for _ in range(10000)]; print(); sys.stdin.read()"
    environment = {"LD_PRELOAD": str(lib), "LOFT_OWNER": owner, "PYTHONMALLOC": "malloc"}
    with subprocess.Popen(
        [PYTHON, "-uc", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        result = execute("gcore", "-o", tmp_path / "core", str(program.pid), preload=False)
        program.kill()
    if "ptrace: Operation not permitted" in result.stdout + result.stderr:
        pytest.skip("no process may be traced here")
    assert result.returncode == 0, result.stdout + result.stderr
    (core,) = tmp_path.glob("core.*")
    assert 1 << 20 < core.stat().st_size < 64 << 20


@pytest.mark.skipif(
    os.uname().machine not in ("x86_64", "aarch64"), reason="no probes for this architecture"
)
def test_a_debugger_stops_at_probes(execute: Execute, build: Build, lib: Path) -> None:
    """What is told of a sample at its two ends: the same object, and what it stands for."""
    steps = (
        f"set environment LD_PRELOAD {lib}",
        "set environment LOFT_PROFILE on",
        "set environment LOFT_SAMPLE_BYTES 1",
        "set startup-with-shell off",
        "break main",
        "run",
        "break -probe-stap otel_memory:alloc",
        "break -probe-stap otel_memory:free",
        "continue",
        'printf "alloc %#lx %lu %lu\\n", $_probe_arg0, $_probe_arg1, $_probe_arg2',
        "continue",
        'printf "free %#lx\\n", $_probe_arg0',
        "kill",
    )
    words = [word for step in steps for word in ("-ex", step)]
    result = execute("gdb", "-nx", "-batch", *words, build("probed.c"), preload=False)
    said = result.stdout + result.stderr
    if "ptrace: Operation not permitted" in said:
        pytest.skip("no process may be traced here")
    alloc = re.search(r"^alloc (0x[0-9a-f]+) 100 100$", result.stdout, re.MULTILINE)
    assert alloc is not None, said
    assert f"free {alloc[1]}\n" in result.stdout, said
