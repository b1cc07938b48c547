"""A machine that loft is not for is refused, in one line that says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


# The compiler has no C library for such machines here: nothing is linked.
UNLINKED = "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("-DCMAKE_CXX_FLAGS=-m32", "loft needs 64-bit pointers"),
        ("-DCMAKE_SYSTEM_NAME=FreeBSD", "loft is for Linux, not for FreeBSD"),
    ],
)
def test_cmake_refuses(tmp_path: Path, machine: str, said: str) -> None:
    result = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, machine, UNLINKED],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert said in " ".join(result.stderr.split())


def test_the_single_file_refuses(tmp_path: Path) -> None:
    single = tmp_path / "loft.cc"
    amalgamate = ROOT / "tools" / "amalgamate.py"
    subprocess.run([sys.executable, amalgamate, "--output", single], check=True)
    result = subprocess.run(
        ["g++", "-m32", "-std=c++20", "-fsyntax-only", single],
        capture_output=True,
        text=True,
        check=False,
    )
    first = result.stderr.splitlines()[0]
    assert result.returncode != 0
    assert "#error" in first
    assert "loft needs 64-bit pointers" in first
