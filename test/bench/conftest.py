"""What the tests of the benchmarks share."""

from __future__ import annotations

from pathlib import Path

import pytest
from release import build_release


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the benchmark programs of the release build, built."""
    return build_release("loft_bench") / "bench"
