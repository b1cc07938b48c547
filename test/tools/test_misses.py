"""What tools/misses.py reads out of callgrind's profiles, and what it says where it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from misses import allocator_of, pairs, rates, read_profile

from loft_malloc.errors import UserError

ROOT = Path(__file__).resolve().parent.parent.parent
HEAD = "# callgrind format\nthread: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n"


def test_a_thread_of_the_program_is_counted() -> None:
    text = HEAD + "fn=(1) main\n0 10 1\ntotals: 2000 500 300 7 40 2 5 3 1\n"
    counts = read_profile(text)
    assert counts is not None
    assert pairs(counts) == [(40, 2), (3, 1)]
    assert rates(counts) == ["20.000 + 1.000", "1.500 + 0.500"]
    assert rates(counts + counts) == rates(counts)


def test_trailing_zeros_are_left_out() -> None:
    counts = read_profile(HEAD + "totals: 100 5\n")
    assert counts is not None
    assert rates(counts) == ["0.000 + 0.000", "0.000 + 0.000"]


@pytest.mark.parametrize("kind", ["fn", "cfn"])
def test_the_thread_of_loft_is_not(kind: str) -> None:
    name = "loft::background::(anonymous namespace)::run()"
    assert read_profile(HEAD + f"{kind}=(9) {name}\n0 10\ntotals: 100 5\n") is None


def test_a_profile_that_was_cut_short_is_an_error() -> None:
    with pytest.raises(UserError, match="without totals"):
        read_profile(HEAD)


def test_an_unknown_allocator_is_named() -> None:
    with pytest.raises(UserError, match=r"build/papers/nobody\.so: not built"):
        allocator_of("nobody")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "misses.py", "--with", "nobody", "--", "true"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == "misses: build/peers/nobody.so and build/papers/nobody.so: not built\n"
