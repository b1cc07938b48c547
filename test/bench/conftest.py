"""What the tests of the benchmarks share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the benchmark programs of the release build, built."""
    targets = [f"bench_{source.stem}" for source in sorted((ROOT / "bench").glob("*.cc"))]
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, timeout=120)
    subprocess.run(
        ["cmake", "--build", "--preset", "release", "--target", *targets],
        cwd=ROOT,
        check=True,
        timeout=900,
    )
    return ROOT / "build" / "bench"
