"""loft as under an older kernel: what that lacks is refused by a filter of system calls.

older_kernel.cc says what a kernel 4.18 lacks, and docs/internals/compatibility.md what loft does
without. The unit and surface tests run so, too (test/CMakeLists.txt).
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from filters import numbers
from programs import PYTHON

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FIRST_NEWER = 424  # as in older_kernel.cc
OLD_FLAGS = {
    "MADV_DONTNEED",
    "MADV_HUGEPAGE",
    "MADV_NOHUGEPAGE",
    "MREMAP_FIXED",
    "MREMAP_MAYMOVE",
}

ANSWERS = pytest.mark.parametrize("answer", ["4.18", "ENOSYS", "EPERM"])
OWNERS = pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])


class Older:
    """Runs programs with loft as under an older kernel."""

    def __init__(self, lib: Path, folder: Path) -> None:
        self.lib = lib
        self.launcher = folder / "older_kernel"
        self.everyday = folder / "everyday"
        source = HERE / "older_kernel.cc"
        subprocess.run(["g++", "-std=c++20", source, "-o", self.launcher], check=True)
        flags, source = ["-O1", "-fno-builtin", "-pthread"], HERE / "everyday.c"
        subprocess.run(["gcc", *flags, source, "-o", self.everyday], check=True)

    def command(self, answer: str, program: Path | str, *words: str, **setting: str) -> list[str]:
        variables = [f"{name}={value}" for name, value in setting.items()]
        preload = f"LD_PRELOAD={self.lib}"
        return [str(self.launcher), answer, "env", preload, *variables, str(program), *words]

    def run(
        self, answer: str, program: Path | str, *words: str, **setting: str
    ) -> subprocess.CompletedProcess[str]:
        command = self.command(answer, program, *words, **setting)
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def older(lib: Path, tmp_path_factory: pytest.TempPathFactory) -> Older:
    return Older(lib, tmp_path_factory.mktemp("older"))


@ANSWERS
@OWNERS
@pytest.mark.parametrize("what", ["exchange", "fork", "corners", "home", "holes"])
def test_programs_do_their_work(older: Older, answer: str, owner: str, what: str) -> None:
    result = older.run(answer, older.everyday, what, LOFT_OWNER=owner, LOFT_BACKGROUND="on")
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@ANSWERS
@OWNERS
def test_misuse_is_reported(older: Older, answer: str, owner: str) -> None:
    result = older.run(answer, older.everyday, "double-free", LOFT_OWNER=owner)
    assert "loft: double free" in result.stderr
    assert result.returncode == -signal.SIGABRT


@ANSWERS
@pytest.mark.parametrize("hardened", ["full", "guard"])
def test_hardened_modes(older: Older, answer: str, hardened: str) -> None:
    result = older.run(answer, older.everyday, "exchange", LOFT_HARDENED=hardened)
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@ANSWERS
def test_statistics_and_the_watched_group(older: Older, answer: str) -> None:
    setting = {"LOFT_STATS": "json", "LOFT_CGROUP": "watch", "LOFT_BACKGROUND": "on"}
    result = older.run(answer, older.everyday, "home", **setting)
    assert (result.stdout, result.returncode) == ("ok\n", 0)
    assert re.search(r'"resident_bytes": ?[1-9]', result.stderr), result.stderr


def files_of_threads(process: int) -> list[set[str]]:
    """What each thread has open, by name."""
    threads = []
    for task in Path(f"/proc/{process}/task").iterdir():
        files = set()
        for file in (task / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has just been closed
                files.add(str(file.readlink()))
        threads.append(files)
    return threads


@ANSWERS
def test_the_socket(older: Older, tmp_path: Path, answer: str) -> None:
    """Its thread has files of its own without close_range; or one line says that it has none."""
    path = tmp_path / "s"
    beside = tmp_path / "beside"
    # The program holds more files than a table has at first, until it is told to end.
    script = f"files = [open({str(beside)!r}, 'w') for _ in range(200)]\n"
    script += "print('ready', flush=True)\ninput()"
    command = older.command(answer, PYTHON, "-c", script, LOFT_SOCKET=str(path))
    pipes = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipes, stdout=pipes, stderr=pipes, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if answer == "EPERM":
            _, errors = process.communicate("\n")
            assert re.fullmatch(r"loft: the socket \S+ is not served: [^\n]*\n", errors), errors
            return
        with socket.socket(socket.AF_UNIX) as peer:
            while True:
                try:
                    peer.connect(str(path))
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    assert process.poll() is None
                    time.sleep(0.01)
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: loft\r\nConnection: close\r\n\r\n")
            said = b""
            while part := peer.recv(65536):
                said += part
            of_threads = files_of_threads(process.pid)
        _, errors = process.communicate("\n")
        assert said.startswith(b"HTTP/1.1 200 ")
        assert errors == ""
        # The program's thread has its files, and the other one none of them.
        (of_other,) = (files for files in of_threads if str(beside) not in files)
        assert not any(name.startswith("pipe:") for name in of_other)


def table() -> set[str]:
    """What the table names."""
    text = (ROOT / "docs" / "internals" / "compatibility.md").read_text()
    rows = text[text.index("**What older kernels lack.**") :].split("\n\n")[1]
    return set(re.findall(r"`(\w+)`", rows))


def newer_of(calls: set[str]) -> set[str]:
    return {name for name in calls if numbers().get(name, 0) >= FIRST_NEWER}


def test_calls_in_the_sources_are_old_or_in_the_table() -> None:
    made: set[str] = set()
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".cc", ".h"):
            made |= set(re.findall(r"\bSYS_(\w+)", path.read_text()))
    assert {"openat", "futex", "membarrier", "rseq"} <= made
    assert newer_of(made) | {"membarrier", "rseq"} <= table()


def test_calls_of_a_program_are_old_or_in_the_table(
    older: Older, lib: Path, tmp_path: Path
) -> None:
    if subprocess.run(["strace", "-f", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no process may be traced here")
    log = tmp_path / "log"
    setting = {
        "LD_PRELOAD": str(lib),
        "LOFT_STATS": "json",
        "LOFT_SOCKET": str(tmp_path / "s"),
        "LOFT_OWNER": "cpu",
        "LOFT_BACKGROUND": "on",
        "LOFT_CGROUP": "watch",
    }
    command = ["strace", "-f", "-qq", "-e", "signal=none", "-o", str(log)]
    command += [f"-E{name}={value}" for name, value in setting.items()]
    subprocess.run([*command, older.everyday, "corners"], check=True, capture_output=True)
    lines = log.read_text(errors="replace")
    made = set(re.findall(r"^\d+ +(\w+)\(", lines, re.MULTILINE))
    flags = set(re.findall(r"\b(?:MADV|MREMAP|MEMBARRIER_CMD)_\w+", lines))
    assert {"madvise", "membarrier", "mmap"} <= made
    assert newer_of(made) <= table()
    assert flags - OLD_FLAGS <= table()
