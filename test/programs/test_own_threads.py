"""A process has the threads that its program starts, and one of loft's where it asks for that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from programs import PYTHON, Build, Clock, Execute

# What a system may refuse to anybody.
NAMESPACES = ("alone", "setns")
OWNERS = pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])


@OWNERS
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("one thread", "most 1\n"),
        ("fork", "child: most 1\nchild: 0\nmost 1\n"),
        ("ended", "alone again\n" * 3 + "most 1\nchild: most 1\nchild: 0\n"),
        ("no new privileges", "threads without 0\n"),
        ("alone", "user namespace done\nown user namespace refused\n"),
        ("setns", "setns done\n"),
    ],
)
def test_none_where_the_program_has_none(
    execute: Execute, build: Build, what: str, expected: str, owner: str
) -> None:
    if what in NAMESPACES:
        plain = execute(build("own_threads.c"), what, preload=False)
        if (plain.returncode, plain.stdout) != (0, expected):
            pytest.skip(f"not here, without loft: {plain.returncode} {plain.stdout}")
    result = execute(build("own_threads.c"), what, LOFT_OWNER=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")


@OWNERS
@pytest.mark.parametrize("what", ["exit", "raw exit"])
def test_the_first_thread_ends(execute: Execute, build: Build, what: str, owner: str) -> None:
    """By pthread_exit, or by the bare system call, of which no library hears; the process ends
    with the last thread of the program's own."""
    result = execute(build("own_threads.c"), what, LOFT_OWNER=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, "worked\n", "")


@OWNERS
@pytest.mark.parametrize("what", ["refused", "large"])
def test_memory_goes_back_where_threads_are_refused(
    execute: Execute, build: Build, what: str, owner: str
) -> None:
    result = execute(build("no_more_threads.c"), what, LOFT_OWNER=owner, LOFT_DECAY_MS="50")
    assert (result.returncode, result.stdout, result.stderr) == (0, "went back\n", "")


@pytest.mark.parametrize("owner", ["thread", "cpu"])
def test_one_that_is_asked_for(execute: Execute, build: Build, owner: str) -> None:
    result = execute(build("own_threads.c"), "forced", LOFT_OWNER=owner, LOFT_BACKGROUND="on")
    assert (result.returncode, result.stdout, result.stderr) == (0, "there\n", "")


EACH_OWNER = pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
LARGE = "-DTLS_KIB=250"  # nearly what a small stack has


@EACH_OWNER
@pytest.mark.parametrize("hardened", ["off", "guard", "full"])
def test_none_unasked(execute: Execute, build: Build, owner: str, hardened: str) -> None:
    """Beside threads of the program's own, and after much was freed."""
    settings = {"LOFT_OWNER": owner, "LOFT_HARDENED": hardened}
    result = execute(build("lofts_thread.c", "-rdynamic"), **settings)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1 created\n", "")


@EACH_OWNER
@pytest.mark.parametrize("flag", ["-rdynamic", LARGE], ids=["a tool around it", "a large TLS"])
def test_what_the_one_is_like(execute: Execute, build: Build, owner: str, flag: str) -> None:
    """It has nothing of the thread that met the slow path, and no tool sees it made."""
    program = build("lofts_thread.c", flag)
    result = execute(program, LOFT_OWNER=owner, LOFT_BACKGROUND="on")
    assert (result.returncode, result.stdout, result.stderr) == (0, "loft-purge\n1 created\n", "")


@EACH_OWNER
@pytest.mark.parametrize(("what", "expected"), [("child", ""), ("asked", "loft-purge\n")])
def test_a_child_has_it_once_it_asks(
    execute: Execute, build: Build, owner: str, what: str, expected: str
) -> None:
    program = build("lofts_thread.c", "-rdynamic")
    result = execute(program, what, LOFT_OWNER=owner, LOFT_BACKGROUND="on")
    assert (result.returncode, result.stdout, result.stderr) == (0, expected + "child\n", "")


@pytest.mark.parametrize("owner", ["thread", "cpu"])
def test_none_where_none_is_wanted(execute: Execute, lib: Path, clock: Clock, owner: str) -> None:
    """Not beside the program's own threads either, when memory was not needed for a minute."""
    script = """
import os, threading
data = [bytearray(1 << 20) for _ in range(100)]
ended = threading.Event()
thread = threading.Thread(target=ended.wait)
thread.start()
del data
open("clock", "r+b").write((60 * 10**9).to_bytes(8, "little"))
data = [bytearray(5000) for _ in range(10000)]
print(len(os.listdir("/proc/self/task")))
ended.set()
thread.join()
"""
    settings = clock.settings(lib) | {"LOFT_OWNER": owner, "LOFT_BACKGROUND": "off"}
    result = execute(PYTHON, "-c", script, preload=False, **settings)
    assert (result.returncode, result.stdout, result.stderr) == (0, "2\n", "")


FORKING = """
import os, sys
data = [bytearray(1 << 20) for _ in range(30)]
del data
for _ in range(8):
    data = [bytes(5000) for _ in range(4000)]
    del data
    child = os.fork()
    if child == 0:
        data = [bytes(5000) for _ in range(4000)]
        os._exit(len(os.listdir("/proc/self/task")) - 1)
    assert os.waitpid(child, 0)[1] == 0
print(len(os.listdir("/proc/self/task")))
"""


@OWNERS
@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_python_forks_without_a_warning(execute: Execute, python: str, owner: str) -> None:
    """From 3.12 on it counts the process's threads, and warns if there is another."""
    program = shutil.which(python, path="/usr/bin:/usr/local/bin") or shutil.which(python)
    if program is None or execute(program, "-c", "0", preload=False).returncode != 0:
        pytest.skip(f"no {python} here")
    result = execute(
        program,
        "-W",
        "error::DeprecationWarning",
        "-c",
        FORKING,
        PYTHONMALLOC="malloc",
        LOFT_OWNER=owner,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")
