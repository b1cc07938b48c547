"""Every system call that loft makes fails once, and from some time on, or takes long.

strace does that to a program which lives with every refusal, and checks what its objects hold: it
must neither crash nor wait for ever nor find other data.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from limits import HANGS_S
from programs import Build, Execute, captured, environment

# What becomes of a call, by its name. A call that claims to have been made is one that may do
# nothing: a discard, and an unmapping.
CALLS = {
    "mmap": ("error=ENOMEM", "delay_exit=2000"),
    "munmap": ("error=ENOMEM", "retval=0", "delay_enter=2000"),
    "mprotect": ("error=ENOMEM", "delay_exit=2000"),
    "madvise": ("error=EINVAL", "error=EAGAIN", "retval=0", "delay_enter=2000"),
    "futex": ("error=EINTR", "delay_enter=2000", "delay_exit=2000"),
    "membarrier": ("error=EPERM",),
    "clone": ("error=EAGAIN",),
    "clone3": ("error=ENOSYS", "error=EAGAIN", "delay_exit=20000"),
    "openat": ("error=ENOENT", "error=EMFILE"),
    "read": ("error=EIO", "retval=0"),
    "pread64": ("error=EIO", "retval=0"),
    "close": ("error=EINTR",),
    "prlimit64": ("error=EPERM",),
    "clock_gettime": ("error=EPERM",),
    "getrandom": ("error=EAGAIN", "error=ENOSYS"),
}
ONCE = (1, 2, 4, 8, 16, 32)
FROM = (1, 6, 24)
# What owner=cpu does otherwise.
OTHERS = ("mmap", "mprotect", "madvise", "futex", "clone3")

Inject = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def inject(lib: Path, build: Build, tmp_path: Path) -> Inject:
    program = build("injected.c")

    def result(*words: str, owner: str | None) -> subprocess.CompletedProcess[str]:
        setting = {}
        if owner is not None:
            setting = {"LD_PRELOAD": str(lib), "LOFT_OWNER": owner, "LOFT_DECAY_MS": "10"}
        inner = [word for name, value in setting.items() for word in ("-E", f"{name}={value}")]
        strace = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "signal=none"]
        command = [*strace, *words, *inner, str(program)]
        return captured(command, tmp_path, environment(tmp_path), HANGS_S)

    return result


@pytest.fixture(scope="session")
def strace() -> None:
    """It is there, and may trace and inject."""
    command = ["strace", "-f", "--seccomp-bpf", "-e", "inject=getppid:error=EPERM", "true"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip(f"no process may be traced here: {result.stderr.strip()[-200:]}")


@pytest.fixture(scope="session")
def made(strace: None) -> dict[str, Counter[str]]:
    """How often each call is made, by owner; filled as the tests go."""
    return {}


def calls(inject: Inject, made: dict[str, Counter[str]], folder: Path, owner: str) -> Counter[str]:
    if owner not in made:
        log = folder / "log"
        result = inject("-o", str(log), "-e", f"trace={','.join(CALLS)}", owner=owner)
        assert (result.returncode, result.stdout, result.stderr) == (0, "lived\n", "")
        lines = log.read_text(errors="replace")
        made[owner] = Counter(re.findall(r"^(?:\d+ +)?(\w+)\(", lines, re.MULTILINE))
    return made[owner]


# Processors alone need a fence between each other.
CASES = [(name, "thread") for name in CALLS if name != "membarrier"]
CASES += [(name, "cpu") for name in (*OTHERS, "membarrier")]


# A futex that fails now and then loses a wake, which no system does: it fails always, or never.
@pytest.mark.parametrize(("name", "owner"), CASES)
def test_a_call_fails(
    inject: Inject, made: dict[str, Counter[str]], tmp_path: Path, name: str, owner: str
) -> None:
    count = calls(inject, made, tmp_path, owner)[name]
    assert count > 0, "it is not made: the test has nothing to try"
    whens = [f"{n}+" for n in FROM if n <= count]
    if owner == "thread":
        whens += [str(n) for n in ONCE if n <= count]
    injections = [
        f"{name}:{what}:when={when}"
        for what in CALLS[name]
        for when in whens
        if when == "1+" or not ("delay" in what or name == "futex")
    ]

    def wrong(injection: str) -> str | None:
        words = ("-e", f"trace={name}", "-e", f"inject={injection}", "-o", "/dev/null")
        try:
            result = inject(*words, owner=owner)
            # What the loader cannot begin without, with another library to load or without.
            if result.returncode == 127 and "error while loading shared lib" in result.stderr:
                return None
            if result.returncode != 0 and inject(*words, owner=None).returncode != 0:
                return None
        except subprocess.TimeoutExpired:
            return f"{injection}: has not ended"
        if (result.returncode, result.stdout) == (0, "lived\n"):
            return None
        return f"{injection}: {result.returncode} {result.stdout}{result.stderr}"

    with ThreadPoolExecutor(max_workers=2) as pool:
        found = [text for text in pool.map(wrong, injections) if text is not None]
    assert found == []


def test_without_injection(execute: Execute, build: Build) -> None:
    result = execute(build("injected.c"), preload=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "lived\n", "")
