"""What the tests of the scripts and of the built library share."""

from __future__ import annotations

from pathlib import Path

import pytest
from release import build_release

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def build() -> Path:
    """The release build, with the libraries in it."""
    return build_release(
        "loft_shared", "loft_static", "loft_bounds", "loft_core_shared", "loft_core_static"
    )


@pytest.fixture(scope="session")
def single() -> Path:
    """The single file."""
    return build_release("loft_single") / "loft.cc"
