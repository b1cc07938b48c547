"""Whatever goes wrong is one line, without a trace of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import LOFT, Loft, one_line

from loft_malloc import options

FULL = Path("/dev/full")


def to(target: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    with target.open("w") as out:
        return subprocess.run(
            [LOFT, *arguments],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ["path"],
        ["env"],
        ["doctor"],
        ["doctor", "--json"],
        ["--version"],
        ["compare", "--runs", "1", "--with", "glibc", "--", "true"],
    ],
)
def test_where_nothing_more_can_be_written(build: Path, arguments: list[str]) -> None:
    ran = to(FULL, *arguments)
    assert ran.returncode == 1
    assert one_line(ran.stderr) == "loft: standard output: No space left on device"


def test_nobody_reads(build: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    for arguments in (["path"], ["doctor"], ["doctor", "--json"]):
        ran = subprocess.run([LOFT, *arguments], stdout=theirs, stderr=subprocess.PIPE, text=True)
        assert (ran.returncode, ran.stderr) == (1, "")
    os.close(theirs)


def test_a_full_disk_does_not_lose_the_rest(loft: Loft, tmp_path: Path) -> None:
    ran = loft(
        "compare", "--runs", "1", "--with", "loft", "--json", FULL, "--html", FULL, "--csv",
        tmp_path / "c", "--", "true",
    )  # fmt: skip
    assert ran.returncode == 1
    assert one_line(ran.stderr).count("/dev/full cannot be written: No space left on device") == 2
    assert "wall time" in ran.stdout
    assert (tmp_path / "c").read_text().startswith("allocator,")


def test_a_terminal_without_our_characters(build: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = to(
        out, "compare", "--runs", "3", "--with", "glibc", "--", "true", PYTHONIOENCODING="ascii"
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "wall time" in out.read_text()


def test_an_error_of_lofts_own(build: Path) -> None:
    source = """
from loft_malloc import main, places
def broken():
    raise KeyError("some\\nthing")
main.places.library = broken
main.main()
"""
    command = [sys.executable, "-c", source, "path"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 70
    said = one_line(ran.stderr)
    assert "an internal error, KeyError: 'some\\nthing'; LOFT_TRACE=1" in said
    traced = {**os.environ, "LOFT_TRACE": "1"}
    ran = subprocess.run(command, env=traced, capture_output=True, text=True)
    assert "Traceback" in ran.stderr
    assert options.misspelt({"LOFT_TRACE": "1"}) == []
