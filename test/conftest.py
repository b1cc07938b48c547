"""What all tests share: the library, and how much processor time each may take."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from programs import library

# What no process of a test reaches, unless it goes round for ever. (The wall's limit, which ends
# what waits for ever, is in pyproject.toml.)
PROCESSOR_S = 60
# For a test of the night.
NIGHT_PROCESSOR_S = 900


def too_much(number: int, frame: FrameType | None) -> None:
    pytest.fail("it has taken more processor time than a test may")


def pytest_configure() -> None:
    signal.signal(signal.SIGXCPU, too_much)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Limits this process, and each that the test starts; those are ended by the signal."""
    night = any(item.get_closest_marker(name) for name in ("night", "machine", "long"))
    limit = NIGHT_PROCESSOR_S if night else PROCESSOR_S
    before = resource.getrlimit(resource.RLIMIT_CPU)
    used = int(sum(os.times()[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + limit, before[1]))
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)


@pytest.fixture(scope="session")
def lib() -> Path:
    path = library()
    if not path.is_file():
        pytest.exit(f"{path} is not there: build loft, or name a library in LOFT_LIB", returncode=2)
    return path
