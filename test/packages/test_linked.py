"""Linked means used: a program whose own objects name no malloc has loft's.

Debian's and Ubuntu's compilers leave out a library that no object names, and a linker takes of an
archive only what somebody names.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import QUIET, ROOT, is_served, said

LINKERS = [name for name in ("bfd", "gold", "lld", "mold") if shutil.which(f"ld.{name}")]
TARGETS = ("loft", "shared", "static")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "quiet.c").write_text(QUIET)
    return tmp_path / "quiet.c"


def test_nothing_else_makes_it_loft(source: Path) -> None:
    said("gcc", source, "-o", "program", at=source.parent)
    assert not is_served(source.parent / "program")


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_by_pkg_config(libraries: Path, source: Path, kind: str, linker: str) -> None:
    static = ["--static"] if kind == "static" else []
    found = str(libraries / "pkgconfig")
    flags = said("pkg-config", "--cflags", "--libs", *static, "loft", PKG_CONFIG_PATH=found).split()
    kinds = ["-static"] if kind == "static" else [f"-Wl,-rpath,{libraries}"]
    linked = [f"-fuse-ld={linker}", "-Wl,--as-needed", *kinds, *flags]
    said("gcc", source, "-o", "program", *linked, at=source.parent)
    assert is_served(source.parent / "program")


@pytest.mark.parametrize("linker", LINKERS)
def test_by_the_archive(libraries: Path, source: Path, linker: str) -> None:
    """As docs/install.md says."""
    archive = str(libraries / "libloft.a")
    linked = [f"-fuse-ld={linker}", "-Wl,-u,malloc", archive, "-lpthread"]
    said("gcc", source, "-o", "program", *linked, at=source.parent)
    assert is_served(source.parent / "program")


@pytest.mark.parametrize("how", ["found", "added"])
def test_by_cmake(installed: Path, source: Path, how: str) -> None:
    """Also through a library of the project's own, which is what links loft."""
    folder = source.parent
    (folder / "part.c").write_text("int part(void) { return 0; }\n")
    finds = f"find_package(loft REQUIRED PATHS {installed} NO_DEFAULT_PATH)"
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\n"
        "project(user C CXX)\n"
        f"{finds if how == 'found' else f'add_subdirectory({ROOT} loft)'}\n"
        "add_link_options(LINKER:--as-needed)\n"
        "add_library(part STATIC part.c)\n"
        "target_link_libraries(part PRIVATE loft::loft)\n"
        "add_executable(with_part quiet.c)\n"
        "target_link_libraries(with_part PRIVATE part)\n"
        f"foreach(kind {' '.join(TARGETS)})\n"
        "  add_executable(with_${kind} quiet.c)\n"
        "  target_link_libraries(with_${kind} PRIVATE loft::${kind})\n"
        "endforeach()\n"
    )
    settings = ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"]
    if shutil.which("ccache"):
        settings.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    said("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", *settings)
    said("cmake", "--build", folder / "build")
    for kind in ("part", *TARGETS):
        assert is_served(folder / "build" / f"with_{kind}"), kind
