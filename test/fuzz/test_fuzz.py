"""Every fuzzer passes a bounded search from its seeds, and finds the bugs seeded for it.

build/fuzz holds them. A search ends by the number of its runs, which are the same on any machine.
(The seeds themselves are tests of the address sanitizer's build, fuzz_seeds in ctest.)
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE.parent.parent / "build" / "fuzz" / "test" / "fuzz"
# Of each: runs, the longest input, and what more it is told. Reports of wrong options are many.
TARGETS = {
    "calls": (1500, 400, []),
    "options": (40_000, 200, ["-close_fd_mask=2"]),
    "group": (40_000, 2000, []),
    "messages": (30_000, 400, []),
    "request": (100_000, 400, []),
    "trace": (10_000, 800, []),
}
BUG_RUNS = 10  # times as many, at most
BUGS = re.findall(r"(?m)^== (\w+) \| (\w+) \|", (HERE / "mutants.txt").read_text())


def search(folder: Path, program: str, target: str, runs: int) -> str:
    """What it prints, if it has found something, which is in the folder then; else nothing."""
    _, longest, more = TARGETS[target]
    dictionary = HERE / f"{target}.dict"
    found = folder / "found"
    found.mkdir()
    done = subprocess.run(
        [
            str(PROGRAMS / program),
            "-seed=1",
            f"-runs={runs}",
            f"-max_len={longest}",
            *([f"-dict={dictionary}"] if dictionary.exists() else []),
            *more,
            str(found),
            str(HERE / "seeds" / target),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        assert re.search(r"Done \d+ runs", done.stdout), done.stdout
        return ""
    return done.stdout


@pytest.mark.night
@pytest.mark.parametrize("target", TARGETS)
def test_a_search_finds_nothing(target: str, tmp_path: Path) -> None:
    found = search(tmp_path, f"fuzz_{target}", target, TARGETS[target][0])
    assert not found, found


@pytest.mark.night
@pytest.mark.parametrize(("bug", "target"), BUGS)
def test_a_seeded_bug_is_found(bug: str, target: str, tmp_path: Path) -> None:
    runs = BUG_RUNS * TARGETS[target][0]
    found = search(tmp_path, f"fuzz_bug_{bug}", target, runs)
    assert "Test unit written to" in found, f"not found in {runs} runs"


def test_every_fuzzer_has_a_seeded_bug() -> None:
    assert {target for _, target in BUGS} == set(TARGETS)
    assert {path.stem for path in HERE.glob("*_fuzz.cc")} == {f"{name}_fuzz" for name in TARGETS}
