"""Each variant of the library has the batch cache that its name says, and no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from amalgamate import ROOT, AmalgamationError
from release import build_release
from variants import VARIANTS, Variant, with_profile, write_variant


def check(program: Path, variant: Variant) -> subprocess.CompletedProcess[str]:
    arguments = [str(variant.ways), str(variant.sets), variant.eviction, str(variant.batch_bytes)]
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", VARIANTS)
def test_sends_what_a_cache_of_its_shape_sends(name: str, tmp_path: Path) -> None:
    single = tmp_path / "variant.cc"
    single.write_text(write_variant(VARIANTS[name]))
    program = tmp_path / "check"
    source = ROOT / "test" / "bench" / "variant_check.cc"
    flags = ["-std=c++20", "-O0", "-fno-exceptions", "-fno-rtti", f'-DVARIANT="{single}"']
    subprocess.run(["g++", *flags, source, "-o", program, "-lpthread"], check=True)
    done = check(program, VARIANTS[name])
    assert done.returncode == 0, done.stderr
    assert "batches" in done.stdout
    for other, variant in VARIANTS.items():
        if other != name:
            done = check(program, variant)
            assert "not as in the model" in done.stderr, other


def test_the_library_itself_is_the_first_one() -> None:
    profile = (ROOT / "src" / "cache" / "profile.h").read_text()
    assert next(iter(VARIANTS.values())) == Variant()
    added = with_profile(profile, Variant())
    assert added.replace((ROOT / "bench/variants/evictions.h").read_text() + "\n", "") == profile


def test_a_profile_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(AmalgamationError, match="no single `kBatchSets = 8;`"):
        with_profile("struct Profile {\n  kBatchWays = 2; kBatchSets = 9;\n};", Variant())


def test_the_build_makes_libraries_of_them(programs: Path) -> None:
    library = build_release("variant_1x1") / "variants" / "1x1.so"
    done = subprocess.run(
        [programs / "message_passing", "--batches=2000"],
        env=os.environ | {"LD_PRELOAD": str(library), "LOFT_STATS": "json"},
        capture_output=True,
        text=True,
        check=True,
    )
    counted = json.loads(done.stderr)
    # Four sizes arrive in groups of nine on average; one batch is open at a time.
    assert 1 < counted["batch_objects"] / counted["batches_sent"] < 20


def test_an_unknown_name_is_told() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "variants.py", "9x9"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "no 9x9; there are: 2x8, 1x1" in done.stderr
    assert done.stderr.count("\n") == 1
