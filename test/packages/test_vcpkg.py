"""The port of vcpkg, without vcpkg, which fetches its own tool from where no test reaches.

CMake runs the port's steps, with stand-ins for vcpkg's functions that do what its manual says of
them, for a triplet of Linux with VCPKG_BUILD_TYPE release.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import CORE_PROGRAM, CORE_RAN, PROGRAM, QUIET, RAN, VERSION, is_served, said

STAND_INS = Path(__file__).parent / "vcpkg" / "stand_ins.cmake"


@pytest.fixture
def port(recipes: Path, tmp_path: Path) -> Path:
    said("tar", "-xzf", recipes / f"loft-malloc-{VERSION}-vcpkg.tar.gz", at=tmp_path)
    return tmp_path / "loft-malloc"


def test_its_manifest_is_one(port: Path) -> None:
    manifest = json.loads((port / "vcpkg.json").read_text())
    assert manifest["name"] == port.name
    assert manifest["version"] == VERSION
    assert re.fullmatch(r"\d+(\.\d+)*", VERSION)
    needed = {(one["name"], one["host"]) for one in manifest.pop("dependencies")}
    assert needed == {("vcpkg-cmake", True), ("vcpkg-cmake-config", True)}
    assert set(manifest) == {"name", "version", "description", "license", "supports"}


def test_a_program_finds_what_the_port_installs(
    port: Path, tmp_path: Path, quick: dict[str, str]
) -> None:
    packages = tmp_path / "packages"
    settings = {
        "VERSION": VERSION,
        "PORT": port.name,
        "VCPKG_LIBRARY_LINKAGE": "static",
        "CURRENT_BUILDTREES_DIR": tmp_path / "buildtrees",
        "CURRENT_PACKAGES_DIR": packages,
    }
    given = [f"-D{name}={value}" for name, value in settings.items()]
    (tmp_path / "port.cmake").write_text(
        f"cmake_policy(VERSION 3.22)\ninclude({STAND_INS})\ninclude({port / 'portfile.cmake'})\n"
    )
    said("cmake", *given, "-P", tmp_path / "port.cmake", at=tmp_path, **quick)
    there = {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()}
    assert {name for name in there if "include" not in name and "share/loft/" not in name} == {
        "lib/libloft.a",
        "lib/libloft-core.a",
        "lib/libloft-inspect.a",
        "lib/pkgconfig/loft.pc",
        "lib/pkgconfig/loft-core.pc",
        "lib/pkgconfig/loft-inspect.pc",
        "share/loft-malloc/SECURITY.md",
        "share/loft-malloc/copyright",
        "share/loft-malloc/usage",
    }
    # As `usage` says, where all packages lie in one folder, elsewhere.
    installed = packages.rename(tmp_path / "installed")
    user = tmp_path / "user"
    user.mkdir()
    (user / "loft.c").write_text(PROGRAM)
    (user / "core.c").write_text(CORE_PROGRAM)
    (user / "quiet.c").write_text(QUIET)
    (user / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\n"
        "project(user C)\n"
        "find_package(loft CONFIG REQUIRED)\n"
        "foreach(name loft core)\n"
        "  add_executable(with_${name} ${name}.c)\n"
        "  target_link_libraries(with_${name} PRIVATE loft::${name})\n"
        "endforeach()\n"
        "add_executable(quiet quiet.c)\n"
        "target_link_libraries(quiet PRIVATE loft::loft)\n"
    )
    build = user / "build"
    said("cmake", "-G", "Ninja", "-S", user, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}")
    said("cmake", "--build", build)
    assert said(build / "with_loft") == RAN
    assert is_served(build / "quiet")
    # And by the port's pkg-config file, which knows of the static library alone.
    found = str(installed / "lib" / "pkgconfig")
    flags = said("pkg-config", "--libs", "loft", PKG_CONFIG_PATH=found).split()
    said("gcc", user / "quiet.c", "-o", "quiet", *flags, at=user)
    assert is_served(user / "quiet")
    assert said(build / "with_core") == CORE_RAN
