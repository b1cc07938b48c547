"""What the tests of the benchmarks share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the benchmark programs of the release build, built."""
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, timeout=120)
    subprocess.run(
        ["cmake", "--build", "--preset", "release", "--target", "loft_bench"],
        cwd=ROOT,
        check=True,
        timeout=900,
    )
    return ROOT / "build" / "bench"
