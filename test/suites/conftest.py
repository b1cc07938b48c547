"""What the suites share: the library, and other people's sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import library
from sources import Sources
from suite import LONG


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out of the short cut what belongs to the whole suites alone."""
    left = [item for item in items if not LONG and item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def lib() -> Path:
    path = library()
    if not path.is_file():
        pytest.exit(f"{path} is not there: build loft, or name a library in LOFT_LIB", returncode=2)
    return path


@pytest.fixture(scope="session")
def sources() -> Sources:
    """Fetched once for each checkout."""
    return Sources()
