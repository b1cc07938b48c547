"""When the system refuses memory, programs are told so in the documented ways and go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import PROGRAMS, PYTHON, Build, Execute, Program, Reference, differences, run

# Short ones: other programs on the machine live under the same rule meanwhile.
STRICT = [
    program
    for program in PROGRAMS
    if program.name in {"python-json-malloc", "sqlite3", "perl", "git", "find", "sort", "tar"}
]
STRICTLY = pytest.mark.parametrize("overcommit", ["2"], indirect=True, ids=["none"])


@pytest.mark.machine
@STRICTLY
@pytest.mark.parametrize("program", STRICT, ids=lambda program: program.name)
def test_program_without_overcommit(
    program: Program,
    lib: Path,
    inputs: Path,
    reference: Reference,
    tmp_path: Path,
    overcommit: None,
) -> None:
    expected = reference(program)
    under_loft = run(program, tmp_path, inputs, lib)
    assert differences(program, under_loft, expected.result()) == []


@pytest.mark.machine
@STRICTLY
def test_more_than_the_system_commits(execute: Execute, overcommit: None) -> None:
    """Free memory is no help when the commit limit is lower; NULL is the answer, not a kill."""
    script = """
import re
kib = int(re.search(r"CommitLimit:\\s+(\\d+)", open("/proc/meminfo").read()).group(1))
for size in (kib * 1024 + (1 << 30), 1 << 45):
    try:
        bytearray(size)
    except MemoryError:
        print("refused")
print(len(bytearray(100_000_000)))
"""
    result = execute(PYTHON, "-c", script)
    assert (result.returncode, result.stdout) == (0, "refused\nrefused\n100000000\n"), result.stderr


@pytest.mark.machine
@STRICTLY
def test_threads_without_overcommit(execute: Execute, build: Build, overcommit: None) -> None:
    result = execute(build("lifetime.cc"), "running")
    assert result.returncode == 0, result.stderr


def check_granted(execute: Execute, build: Build) -> None:
    program = build("granted.c")
    under_loft = execute(program)
    expected = execute(program, preload=False)
    assert (under_loft.returncode, under_loft.stdout) == (0, expected.stdout)
    assert int(under_loft.stderr) <= int(expected.stderr) + 1024


def test_sizes_beyond_the_machine(execute: Execute, build: Build) -> None:
    """As a damaged file's header makes them: they get the C library's answer, and cost no more."""
    check_granted(execute, build)


@pytest.mark.machine
@pytest.mark.parametrize("overcommit", ["0", "1", "2"], indirect=True)
def test_sizes_beyond_the_machine_however_it_promises(
    execute: Execute, build: Build, overcommit: None
) -> None:
    check_granted(execute, build)


@pytest.mark.parametrize("mib", [120, 250])
def test_address_space_runs_out(execute: Execute, build: Build, mib: int) -> None:
    result = execute(
        "bash", "-c", 'ulimit -v "$1" && exec "$0"', build("exhaustion.cc"), str(mib * 1024)
    )
    assert (result.returncode, result.stdout) == (0, "goes on\n"), result.stderr


def test_address_space_runs_out_in_python(execute: Execute) -> None:
    """The limit comes late here: what the allocator has mapped by then counts, too."""
    script = """
import resource
sizes = {}
for line in open("/proc/self/status"):
    name, _, value = line.partition(":")
    sizes[name] = value.split()
limit = int(sizes["VmSize"][0]) * 1024 + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for _ in range(3):
    try:
        bytes(8 << 40)
    except MemoryError:
        print("refused")
print(len([bytearray(1 << 20) for _ in range(50)]))
"""
    result = execute(PYTHON, "-c", script, PYTHONMALLOC="malloc")
    assert (result.returncode, result.stdout) == (0, "refused\n" * 3 + "50\n"), result.stderr


def test_hopeless_address_space(execute: Execute) -> None:
    """Too little for anything but the program itself: it may fail, but as programs fail."""
    for kib in (4000, 6000, 8000, 12000, 20000):
        result = execute("bash", "-c", f"ulimit -v {kib} && exec true")
        assert result.returncode in (0, 1, 126, 127), (
            f"{kib} KiB: {result.returncode} {result.stderr}"
        )


def test_what_is_refused_costs_nothing(execute: Execute) -> None:
    """Requests beyond a limit that the window does not know leave the limit to the others."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
for size in (20 << 30, 24 << 30, 28 << 30):
    try:
        bytearray(size)
    except MemoryError:
        print("refused")
print(len(bytearray(700_000_000)))
"""
    result = execute(PYTHON, "-c", script)
    expected = "refused\nrefused\nrefused\n700000000\n"
    assert (result.returncode, result.stdout) == (0, expected), result.stderr


def test_small_objects_of_a_heap_fill_the_address_space(
    execute: Execute, build: Build, lib: Path
) -> None:
    """Metadata of heaps of the program's own finds room where the window is only planned."""
    limit_kib = 400_000
    program = build("small_objects.c")
    limited = f"ulimit -v {limit_kib}; LD_PRELOAD={lib} exec {program}"
    result = execute("bash", "-c", limited, preload=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= limit_kib * 1024 * 3 // 4
