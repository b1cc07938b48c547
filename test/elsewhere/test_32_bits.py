"""A machine with pointers of 32 bits is refused, in one line that says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_cmake_refuses(tmp_path: Path) -> None:
    # The compiler has no C library for such a machine here: nothing is linked.
    flags = ["-DCMAKE_CXX_FLAGS=-m32", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    result = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert "loft needs 64-bit pointers" in " ".join(result.stderr.split())


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
