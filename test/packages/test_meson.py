"""A project of Meson's, with loft as a wrapped subproject."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from commands import CORE_PROGRAM, CORE_RAN, PROGRAM, QUIET, RAN, VERSION, is_served, said

MESON = [sys.executable, "-m", "mesonbuild.mesonmain"]


@pytest.mark.parametrize("name", ["loft", "loft-core"])
def test_a_program_depends_on_the_wrap(
    recipes: Path, tmp_path: Path, quick: dict[str, str], name: str
) -> None:
    core = name == "loft-core"
    (tmp_path / "program.c").write_text(CORE_PROGRAM if core else PROGRAM)
    (tmp_path / "quiet.c").write_text(QUIET)
    (tmp_path / "meson.build").write_text(
        "project('user', 'c')\n"
        f"executable('program', 'program.c', dependencies: dependency('{name}'))\n"
        f"executable('quiet', 'quiet.c', dependencies: dependency('{name}'))\n"
    )
    files = tmp_path / "subprojects" / "packagefiles"
    files.mkdir(parents=True)
    shutil.copy(recipes / "loft.wrap", files.parent)
    shutil.copy(recipes / f"loft-malloc-{VERSION}.tar.gz", files)
    told = said(*MESON, "setup", "build", at=tmp_path, **quick)
    assert f"Project version: {VERSION}" in told
    said(*MESON, "compile", "-C", "build", at=tmp_path)
    assert said(tmp_path / "build" / "program") == (CORE_RAN if core else RAN)
    if not core:
        assert is_served(tmp_path / "build" / "quiet")
