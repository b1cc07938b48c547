"""What the tests of the scripts and of the built library share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def build() -> Path:
    """The release build, with the libraries and the single file in it."""
    targets = ("loft_shared", "loft_static", "loft_single")
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, timeout=120)
    subprocess.run(
        ["cmake", "--build", "--preset", "release", "--target", *targets],
        cwd=ROOT,
        check=True,
        timeout=900,
    )
    return ROOT / "build"
