"""Conan's recipe, with a cache of its own and no server to ask."""

from __future__ import annotations

import sys
from pathlib import Path

from commands import VERSION, said

CONAN = Path(sys.executable).with_name("conan")
UNITY = {"CMAKE_UNITY_BUILD": "ON", "CMAKE_UNITY_BUILD_BATCH_SIZE": "0"}


def test_it_creates_a_package_that_its_test_uses(
    recipes: Path, tmp_path: Path, quick: dict[str, str]
) -> None:
    name = f"loft-malloc-{VERSION}"
    said("tar", "-xzf", recipes / f"{name}.tar.gz", at=tmp_path)

    def conan(*command: str | Path) -> str:
        told = ("sh", "-c", 'exec "$@" 2>&1', "-", CONAN, *command)
        return said(*told, at=tmp_path, CONAN_HOME=str(tmp_path / "home"), **quick)

    conan("profile", "detect")
    conan("remote", "remove", "*")
    static = ["-o", "loft-malloc/*:shared=False"]
    unity = ["-c", f"tools.cmake.cmaketoolchain:extra_variables={UNITY}"]
    for options in (static, []):
        told = conan("create", tmp_path / name / "packaging" / "conan", *options, *unity)
        assert f"\nloft {VERSION}, malloc is loft's\n" in told
        assert f"\nloft {VERSION}, malloc is libc's\n" in told
        # The program that names no malloc tells of its objects.
        assert f'\n{{"loft": "{VERSION}", ' in told
