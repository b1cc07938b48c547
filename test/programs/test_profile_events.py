"""Profiles that are written by events: on a signal, and when memory is refused."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from programs import PYTHON, Build, Execute, environment, session

PROFILE = {"LOFT_PROFILE": "on", "LOFT_SAMPLE_BYTES": "4K"}


def names(folder: Path) -> list[str]:
    """The profiles there; each is whole."""
    found = sorted(path.name for path in folder.glob("heap*"))
    for name in found:
        content = (folder / name).read_bytes()
        assert gzip.decompress(content) if name.endswith(".gz") else content, name
    return found


def raised(
    lib: Path, build: Build, folder: Path, *words: str, times: int = 2, **options: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [build("refused.c"), *words],
        input="x\n" * times,
        env=environment(folder) | {"LD_PRELOAD": str(lib)} | PROFILE | options,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["USR2", "SIGUSR2", "12"])
def test_each_signal_writes_a_file(lib: Path, build: Build, tmp_path: Path, name: str) -> None:
    ran = raised(
        lib,
        build,
        tmp_path,
        LOFT_PROFILE_FILE=f"{tmp_path}/heap.pb.gz",
        LOFT_PROFILE_SIGNAL=name,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ready\nraised\nraised\n", "")
    assert names(tmp_path) == ["heap.pb.gz", "heap.signal-1.pb.gz", "heap.signal-2.pb.gz"]


def test_lines_of_text_keep_their_ending(lib: Path, build: Build, tmp_path: Path) -> None:
    ran = raised(
        lib,
        build,
        tmp_path,
        times=1,
        LOFT_PROFILE_FILE=f"{tmp_path}/heap.collapsed",
        LOFT_PROFILE_SIGNAL="USR2",
    )
    assert ran.returncode == 0, ran.stderr
    assert names(tmp_path) == ["heap.collapsed", "heap.signal-1.collapsed"]
    lines = (tmp_path / "heap.signal-1.collapsed").read_text(encoding="utf-8").splitlines()
    assert all(line.rpartition(" ")[2].isdigit() for line in lines)


def test_a_handler_of_the_program_stays(lib: Path, build: Build, tmp_path: Path) -> None:
    ran = raised(
        lib,
        build,
        tmp_path,
        "handles",
        times=1,
        LOFT_PROFILE_FILE=f"{tmp_path}/heap.pb.gz",
        LOFT_PROFILE_SIGNAL="USR2",
    )
    assert (ran.returncode, ran.stdout) == (0, "ready\nmine\nraised\n"), ran.stderr
    assert names(tmp_path) == ["heap.pb.gz"]


def test_a_signal_that_was_ignored_stays_so(execute: Execute, build: Build, tmp_path: Path) -> None:
    ran = execute(
        "bash",
        "-c",
        "trap '' USR2; echo x | LOFT_PROFILE=on LOFT_PROFILE_SIGNAL=USR2 \"$0\"",
        build("refused.c"),
        LOFT_PROFILE_FILE=f"{tmp_path}/heap.pb.gz",
    )
    assert (ran.returncode, ran.stdout) == (0, "ready\nraised\n")
    assert ran.stderr == (
        "loft: profile_signal is ignored: the program handles or ignores signal 12\n"
    )


def test_without_a_profile_the_signal_is_as_ever(lib: Path, build: Build, tmp_path: Path) -> None:
    ran = raised(lib, build, tmp_path, times=1, LOFT_PROFILE="off", LOFT_PROFILE_SIGNAL="USR2")
    assert (ran.returncode, names(tmp_path)) == (-12, [])


def test_the_first_refusal_by_a_limit_writes(
    execute: Execute, build: Build, tmp_path: Path
) -> None:
    ran = execute(
        build("refused.c"),
        "fills",
        LOFT_HARD_LIMIT="64M",
        LOFT_PROFILE_FILE=f"{tmp_path}/heap.pb.gz",
        **PROFILE,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "refused\n", "")
    assert names(tmp_path) == ["heap.pb.gz", "heap.refused.pb.gz"]


def test_a_file_that_may_not_grow_is_one_line(
    execute: Execute, build: Build, tmp_path: Path
) -> None:
    """The program does not end by the system's signal, but goes on without memory."""
    ran = execute(
        "bash",
        "-c",
        'ulimit -f 0 && exec "$0" fills',
        build("refused.c"),
        LOFT_HARD_LIMIT="64M",
        LOFT_PROFILE_FILE=f"{tmp_path}/heap.pb.gz",
        **PROFILE,
    )
    assert (ran.returncode, ran.stdout) == (0, "refused\n"), ran.stderr
    line = f"loft: the profile is not written to {tmp_path}/heap.pb.gz: error 27\n"
    assert ran.stderr == 2 * line  # of the refusal, and at the exit


def taken(pid: int) -> bool:
    """Whether a thread has taken all signals that were sent to the process, or none will."""
    status = Path(f"/proc/{pid}/status").read_text()
    # What has ended, and is not waited for yet, keeps the signals that came too late.
    if re.search(r"^State:\t[XZ]", status, re.MULTILINE):
        return True
    pending = re.search(r"^ShdPnd:\t(\w+)", status, re.MULTILINE)
    return pending is None or int(pending[1], 16) == 0


def test_two_signals_leave_one_profile(lib: Path, build: Build, tmp_path: Path) -> None:
    """The second one reaches another thread, while the first one's writes."""
    env = environment(tmp_path) | {"LD_PRELOAD": str(lib)} | PROFILE
    env["LOFT_PROFILE_FILE"] = f"{tmp_path}/heap.pb.gz"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = (build("two_signals.c"),)
    with session(command, tmp_path, env, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            os.kill(process.pid, signal.SIGTERM)
            while not taken(process.pid):
                os.sched_yield()
        assert (*process.communicate(), process.returncode) == ("", "", -signal.SIGTERM)
    assert names(tmp_path) == ["heap.pb.gz"]
    assert not list(tmp_path.glob(".*"))


def test_no_link_is_followed(execute: Execute, tmp_path: Path) -> None:
    """Whoever may write to the folder chooses no file that is cut."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path = tmp_path / "heap.pb.gz"
    settings = PROFILE | {"LOFT_PROFILE_FILE": str(path)}
    path.symlink_to("precious")
    ran = execute(PYTHON, "-c", "", **settings)
    said = f"loft: the profile is not written to {path}: error 40 (it is a symbolic link)\n"
    assert (ran.returncode, ran.stderr) == (0, said)
    assert path.is_symlink()
    path.unlink()
    path.hardlink_to(precious)
    ran = execute(PYTHON, "-c", "", **settings)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert names(tmp_path) == ["heap.pb.gz"]
    assert precious.read_text() == "precious"
    assert {each.name for each in tmp_path.iterdir()} >= {"heap.pb.gz", "precious"}
    assert not list(tmp_path.glob(".*"))


TRAPS = """
import ctypes, ctypes.util, os, sys
data = [bytes(5001 + i) for i in range(1000)]
ctypes.CDLL(ctypes.util.find_library("m")).feenableexcept(0x3D)
loft = ctypes.CDLL(None)
sys.exit(loft.loft_profile_write(b"heap.pb.gz"))
"""


def test_what_the_program_traps_is_not_met(execute: Execute, tmp_path: Path) -> None:
    """No sum of a profile is rounded in a way that the processor reports."""
    ran = execute(PYTHON, "-c", TRAPS, **PROFILE)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert names(tmp_path) == ["heap.pb.gz"]


@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
def test_a_refusal_by_the_system_writes(
    execute: Execute, build: Build, tmp_path: Path, owner: str
) -> None:
    ran = execute(
        "bash",
        "-c",
        'ulimit -v 400000 && exec "$0" fills',
        build("refused.c"),
        LOFT_OWNER=owner,
        LOFT_PROFILE_FILE=f"{tmp_path}/heap.pb.gz",
        **PROFILE,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "refused\n", "")
    assert names(tmp_path) == ["heap.pb.gz", "heap.refused.pb.gz"]
