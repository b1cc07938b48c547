"""What all tests that run programs share: the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import library


@pytest.fixture(scope="session")
def lib() -> Path:
    path = library()
    if not path.is_file():
        pytest.exit(f"{path} is not there: build loft, or name a library in LOFT_LIB", returncode=2)
    return path
