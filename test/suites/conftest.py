"""What the suites share: other people's sources, and how long they may take."""

from __future__ import annotations

import pytest
from sources import Sources
from suite import LONG


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out of the short cut what belongs to the whole suites alone."""
    left = [item for item in items if not LONG and item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def sources() -> Sources:
    """Fetched once for each checkout."""
    return Sources()
