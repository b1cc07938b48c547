"""loft::allocator in the C++ library's containers, by each standard and both compilers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from programs import ROOT, SOURCES, library

WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror")


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
@pytest.mark.parametrize("standard", [11, 14, 17, 20, 23])
def test_it_holds_in_containers(compiler: str, standard: int, tmp_path: Path) -> None:
    program = tmp_path / "allocator"
    place = library().parent
    subprocess.run(
        [
            *(compiler, f"-std=c++{standard}", *WARNINGS, f"-I{ROOT / 'include'}"),
            *(str(SOURCES / "allocator.cc"), "-o", str(program)),
            *(f"-L{place}", "-lloft", f"-Wl,-rpath,{place}"),
        ],
        check=True,
    )
    for mode in ("off", "guard", "full"):
        result = subprocess.run(
            [str(program)], env={"LOFT_HARDENED": mode}, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stderr) == (0, ""), mode
