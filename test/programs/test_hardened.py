"""Programs without a mistake, which hardened=full lets go on."""

from __future__ import annotations

import pytest
from programs import Build, Execute

OWNERS = ("thread", "core", "room", "shared")


@pytest.mark.parametrize("owner", OWNERS)
def test_objects_of_another_thread(execute: Execute, build: Build, owner: str) -> None:
    result = execute(build("hardened.c"), "remote", LOFT_HARDENED="full", LOFT_OWNER=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
