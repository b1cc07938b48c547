"""What the tests of the scripts and of the built library share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def make(*targets: str) -> Path:
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, timeout=120)
    subprocess.run(
        ["cmake", "--build", "--preset", "release", "--target", *targets],
        cwd=ROOT,
        check=True,
        timeout=900,
    )
    return ROOT / "build"


@pytest.fixture(scope="session")
def build() -> Path:
    """The release build, with the libraries in it."""
    return make("loft_shared", "loft_static")


@pytest.fixture(scope="session")
def single() -> Path:
    """The single file."""
    return make("loft_single") / "loft.cc"
