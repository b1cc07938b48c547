"""Projects built by CMake: with loft as a part of them, and with loft as it was installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import CORE_PROGRAM, CORE_RAN, PROGRAM, RAN, ROOT, VERSION, said

OLDEST = "3.22.6"

ADDED = f"add_subdirectory({ROOT} loft)"
# As FETCHCONTENT_SOURCE_DIR_LOFT does with what would be fetched.
FETCHED = f"""\
include(FetchContent)
FetchContent_Declare(loft SOURCE_DIR {ROOT})
FetchContent_MakeAvailable(loft)
"""


@pytest.fixture(scope="session")
def oldest_cmake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of its own: elsewhere it would stand in the way of the newer one."""
    folder = tmp_path_factory.mktemp("cmake")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    said(*pip, "--no-deps", "--target", folder, f"cmake=={OLDEST}")
    return folder / "cmake" / "data" / "bin" / "cmake"


def project(folder: Path, how: str, target: str) -> Path:
    core = target.startswith("loft::core")
    (folder / "program.c").write_text(CORE_PROGRAM if core else PROGRAM)
    names = "CMAKE_BUILD_TYPE CMAKE_CXX_FLAGS CMAKE_CXX_FLAGS_RELEASE CMAKE_CXX_STANDARD"
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\n"
        "project(user C CXX)\n"
        f"foreach(name {names})\n"
        '  set(before_${name} "${${name}}")\n'
        "endforeach()\n"
        f"{how}\n"
        f"foreach(name {names})\n"
        '  if(NOT "${${name}}" STREQUAL "${before_${name}}")\n'
        '    message(FATAL_ERROR "${name} became ${${name}}")\n'
        "  endif()\n"
        "endforeach()\n"
        "add_executable(program program.c)\n"
        f"target_link_libraries(program PRIVATE {target})\n"
        "install(TARGETS program)\n"
    )
    return folder


@pytest.mark.parametrize(
    ("how", "target", "oldest"), [(ADDED, "loft::loft", True), (FETCHED, "loft::core", False)]
)
def test_loft_is_a_part_of_a_project(
    oldest_cmake: Path, tmp_path: Path, how: str, target: str, oldest: bool
) -> None:
    cmake = oldest_cmake if oldest else Path("cmake")
    source, build = project(tmp_path, how, target), tmp_path / "build"
    said(
        cmake,
        "-G",
        "Ninja",
        "-S",
        source,
        "-B",
        build,
        "-DCMAKE_UNITY_BUILD=ON",
        "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0",
    )
    # What a program does not link is not built, nor is anything of loft's own tests.
    said(cmake, "--build", build)
    said(cmake, "--install", build, "--prefix", tmp_path / "prefix")
    assert said(build / "program") == (CORE_RAN if target == "loft::core" else RAN)
    made = {path.name for path in (build / "loft").rglob("libloft*")} | {
        path.name for path in (build / "_deps").rglob("libloft*")
    }
    assert made == (
        {"libloft-core.a"}
        if target == "loft::core"
        else {"libloft.so", "libloft.so.0", "libloft-inspect.so"}
    )
    installed = {path.name for path in (tmp_path / "prefix").rglob("*") if path.is_file()}
    assert installed == {"program"}


@pytest.mark.parametrize("oldest", [True, False])
def test_what_was_installed_is_found(
    oldest_cmake: Path, installed: Path, tmp_path: Path, oldest: bool
) -> None:
    cmake = oldest_cmake if oldest else Path("cmake")
    targets = ["loft", "shared", "static", "core", "core_shared", "core_static"]
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "core.c").write_text(CORE_PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\n"
        "project(user C)\n"
        f"find_package(loft {VERSION} REQUIRED)\n"
        f"foreach(kind {' '.join(targets)})\n"
        "  if(kind MATCHES core)\n"
        "    set(source core.c)\n"
        "  else()\n"
        "    set(source program.c)\n"
        "  endif()\n"
        "  add_executable(with_${kind} ${source})\n"
        "  target_link_libraries(with_${kind} loft::${kind})\n"
        "endforeach()\n"
    )
    build = tmp_path / "build"
    found = f"-DCMAKE_PREFIX_PATH={installed}"
    said(cmake, "-G", "Ninja", "-S", tmp_path, "-B", build, found)
    said(cmake, "--build", build)
    for kind in targets:
        assert said(build / f"with_{kind}") == (CORE_RAN if "core" in kind else RAN)
