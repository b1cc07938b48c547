"""Without a thread of loft's own, a free that leaves too much unused gives it back at once: no
clock moves here."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import Build, Clock, Execute

BOUND_KIB = 64 << 10  # dirty_bytes
KEPT = pytest.mark.parametrize("kept", [0, 20], ids=["all is freed", "one of twenty stays"])


def check(execute: Execute, program: Path, settings: dict[str, str], size: int, kept: int) -> None:
    # Pages come one by one.
    settings = settings | {"LOFT_THP": "never"}
    result = execute(program, str(size), str(kept), preload=False, **settings)
    assert result.returncode == 0, result.stderr
    first, others, resident_kib, in_use_kib = map(int, result.stdout.split())
    assert resident_kib <= (in_use_kib + BOUND_KIB) * 1.1
    # What is wanted again at once is not given back again and again: the bound grows.
    assert others <= 2 * first


@KEPT
@pytest.mark.parametrize("size", [512, 5000, 48_000, 1_000_000, 5_000_000])
def test_rounds(
    execute: Execute, build: Build, lib: Path, clock: Clock, size: int, kept: int
) -> None:
    check(execute, build("rounds.c"), clock.settings(lib), size, kept)


@KEPT
@pytest.mark.parametrize("owner", ["cpu", "shared"])
def test_rounds_of_other_owners(
    execute: Execute, build: Build, lib: Path, clock: Clock, kept: int, owner: str
) -> None:
    check(execute, build("rounds.c"), clock.settings(lib) | {"LOFT_OWNER": owner}, 512, kept)


@pytest.mark.parametrize("owner", ["thread", "shared"])
@pytest.mark.parametrize("who", ["self", "other"])
def test_a_program_that_does_little_gives_back_the_rest(
    execute: Execute, build: Build, who: str, owner: str
) -> None:
    """A server without requests: what is left below the bound goes in its few frees."""
    program = build("quiet.c")
    result = execute(program, who, LOFT_THP="never", LOFT_OWNER=owner)
    assert result.returncode == 0, result.stderr
    after, later = map(int, result.stdout.split())
    in_use = 30 << 10
    assert after > 2 * in_use
    assert later <= 1.15 * in_use


def test_heaps_that_grow_purge_what_slabs_of_other_sizes_keep(
    execute: Execute, build: Build, lib: Path, clock: Clock
) -> None:
    """A store whose objects become of another size. Its slabs' free pages serve no other size, and
    the bound of all that is unused would let them stay: 4.3 times what lives."""
    result = execute(
        build("sizes_change.c"), preload=False, **clock.settings(lib), LOFT_THP="never"
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) <= 3.2 * (64 << 10)
