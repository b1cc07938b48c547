"""stress-ng's stressors of memory and processes, each of which checks its own work."""

from __future__ import annotations

from pathlib import Path

import pytest
from suite import LONG, Outcomes, compare, ending

# Operations of each of two processes, not seconds, so that a slow machine does the same.
SHORT = {"malloc": 20_000, "mmap": 4, "fork": 300}
LONGER = {
    "malloc": 2_000_000,
    "mmap": 200,
    "fork": 50_000,
    "vfork": 50_000,
    "clone": 20_000,
    "mremap": 5_000,
    "brk": 200_000,
    "bigheap": 20_000,
    "pthread": 20_000,
    "madvise": 2_000,
    "mlock": 2_000,
    "qsort": 200,
    "tree": 200,
    "hsearch": 20_000,
    "bsearch": 2_000,
    "context": 20_000,
    "mincore": 20_000,
    "stack": 2_000,
}
LIMITS = {"malloc": ["--malloc-bytes", "64M"], "mmap": ["--mmap-bytes", "16M"]}


def stress(stressors: dict[str, int], lib: Path, tmp: Path) -> None:
    command: list[str | Path] = ["stress-ng", "--verify"]
    for name, operations in stressors.items():
        command += [f"--{name}", "2", f"--{name}-ops", str(operations), *LIMITS.get(name, [])]

    def run(folder: Path, preload: Path | None) -> Outcomes:
        return {"+".join(stressors): ending(command, folder, preload, 1500)}

    compare("stress-ng", run, lib, tmp)


def test_malloc_mmap_and_fork_at_a_time(lib: Path, tmp_path: Path) -> None:
    stress(LONGER_TOGETHER if LONG else SHORT, lib, tmp_path)


LONGER_TOGETHER = {name: LONGER[name] for name in SHORT}


@pytest.mark.long
@pytest.mark.parametrize("name", LONGER)
def test_each_alone(lib: Path, tmp_path: Path, name: str) -> None:
    stress({name: LONGER[name]}, lib, tmp_path)
