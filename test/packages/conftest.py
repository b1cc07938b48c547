"""What the tests of packages share: loft as `make install` leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import said
from release import build_release


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
def libraries(installed: Path) -> Path:
    """The folder below it that has the libraries."""
    return next(installed.rglob("libloft.so")).parent
