"""What the tests of packages share: loft as `make install` leaves it."""

from __future__ import annotations

from pathlib import Path

import made_packages
import packages
import pytest
from commands import said
from release import build_release


def pytest_sessionfinish() -> None:
    made_packages.end()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix."""
    prefix = tmp_path_factory.mktemp("prefix")
    build = build_release(
        "loft_shared", "loft_static", "loft_bounds", "loft_core_shared", "loft_core_static"
    )
    said("cmake", "--install", build, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="session")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source's tarball, and what is made of it for others' package managers."""
    folder = tmp_path_factory.mktemp("recipes")
    packages.make(["meson", "vcpkg"], folder)
    return folder


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What has a recipe compile without optimization, which takes a third of the time."""
    compiler = tmp_path_factory.mktemp("quick") / "g++"
    compiler.write_text('#!/bin/sh\nexec g++ "$@" -O0\n')
    compiler.chmod(0o755)
    return {"CXX": str(compiler)}


@pytest.fixture(scope="session")
def libraries(installed: Path) -> Path:
    """The folder below it that has the libraries."""
    return next(installed.rglob("libloft.so")).parent
