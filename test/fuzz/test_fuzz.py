"""Every fuzzer passes its seeds and a bounded search from there, and finds the bugs seeded for it.

build/fuzz holds them. A search ends by the number of its runs; the time is a cap, for machines that
are slow or busy, and passing says that nothing was found, not how far it went.
"""

from __future__ import annotations

import os
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
    "unwind": (100_000, 400, []),
    "request": (100_000, 400, []),
}
SEARCH_S = 10
# A search for a seeded bug ends by its runs; this only ends one that hangs.
BUG_SEARCH_S = 1500
BUG_RUNS = 10  # times as many
BUGS = re.findall(r"(?m)^== (\w+) \| (\w+) \|", (HERE / "mutants.txt").read_text())


def fuzz(
    folder: Path, program: str, target: str, *arguments: str, owner: str = "thread"
) -> subprocess.CompletedProcess[str]:
    """Runs it in a folder of its own, where it leaves what it finds."""
    _, longest, more = TARGETS[target]
    dictionary = HERE / f"{target}.dict"
    return subprocess.run(
        [
            str(PROGRAMS / program),
            "-seed=1",
            "-timeout=60",
            f"-max_len={longest}",
            *([f"-dict={dictionary}"] if dictionary.exists() else []),
            *more,
            *arguments,
        ],
        cwd=folder,
        env=os.environ | {"LOFT_OWNER": owner},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def search(folder: Path, program: str, target: str, runs: int, seconds: int) -> str:
    """What it prints, if it has found something; otherwise nothing."""
    found = folder / "found"
    found.mkdir()
    done = fuzz(
        folder,
        program,
        target,
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        str(found),
        str(HERE / "seeds" / target),
    )
    if done.returncode == 0:
        assert re.search(r"Done \d+ runs", done.stdout), done.stdout
        return ""
    return done.stdout


@pytest.mark.parametrize(
    ("target", "owner"),
    [*((target, "thread") for target in TARGETS), ("calls", "core"), ("calls", "room")],
)
def test_the_seeds_pass(target: str, owner: str, tmp_path: Path) -> None:
    seeds = sorted((HERE / "seeds" / target).iterdir())
    assert seeds
    done = fuzz(tmp_path, f"fuzz_{target}", target, *map(str, seeds), owner=owner)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("Executed ") == len(seeds)


@pytest.mark.parametrize("target", TARGETS)
def test_a_search_finds_nothing(target: str, tmp_path: Path) -> None:
    found = search(tmp_path, f"fuzz_{target}", target, TARGETS[target][0], SEARCH_S)
    assert not found, found


@pytest.mark.parametrize(("bug", "target"), BUGS)
def test_a_seeded_bug_is_found(bug: str, target: str, tmp_path: Path) -> None:
    runs = BUG_RUNS * TARGETS[target][0]
    found = search(tmp_path, f"fuzz_bug_{bug}", target, runs, BUG_SEARCH_S)
    assert "Test unit written to" in found, f"not found in {runs} runs"


def test_every_fuzzer_has_a_seeded_bug() -> None:
    assert {target for _, target in BUGS} == set(TARGETS)
    assert {path.stem for path in HERE.glob("*_fuzz.cc")} == {f"{name}_fuzz" for name in TARGETS}
