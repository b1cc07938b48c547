"""A compiler that asks pkg-config."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import PROGRAM, RAN, said


@pytest.mark.parametrize("static", [[], ["--static"]])
def test_a_program_is_built_with_its_flags(
    libraries: Path, tmp_path: Path, static: list[str]
) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    found = str(libraries / "pkgconfig")
    flags = said("pkg-config", "--cflags", "--libs", *static, "loft", PKG_CONFIG_PATH=found).split()
    if static:
        flags.append("-static")
    said("gcc", "program.c", "-o", "program", *flags, at=tmp_path)
    assert said(tmp_path / "program", LD_LIBRARY_PATH=str(libraries)) == RAN
    assert f"loft {said('pkg-config', '--modversion', 'loft', PKG_CONFIG_PATH=found)}" == RAN
