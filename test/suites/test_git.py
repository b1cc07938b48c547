"""git's own tests of its objects, packs, refs and searches, with a git that is built for them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from sources import Sources
from suite import Outcomes, compare, ending, written

# Without the libraries that only its network and its translations need.
BUILD = [
    "make",
    f"-j{os.cpu_count()}",
    "CFLAGS=-O1 -w",
    "NO_CURL=1",
    "NO_EXPAT=1",
    "NO_GETTEXT=1",
    "NO_OPENSSL=1",
    "NO_PYTHON=1",
    "NO_TCLTK=1",
]
# Groups of scripts by the beginnings of their names: basics, settings, objects, refs, the index,
# packs, a fetch, searches by several threads, blame.
GROUPS = (
    *(f"t0{digit}" for digit in "012345"),
    *(f"t1{digit}" for digit in "01345678"),
    "t53",
    "t5510",
    "t78",
    "t80",
)
# How a test ended, its number, and whether it was left out. Names tell of folders.
RESULT = re.compile(r"^((?:not )?ok) (\d+)( # skip)?", re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_scripts(
    lib: Path, sources: Sources, tmp_path: Path, subtests: pytest.Subtests, group: str
) -> None:
    tests = sources.built("git", BUILD) / "t"
    scripts = sorted(path.name for path in tests.glob(f"{group}*.sh"))
    assert scripts
    for script in scripts:

        def run(folder: Path, preload: Path | None, script: str = script) -> Outcomes:
            return outcomes(tests, script, folder, preload)

        with subtests.test(script):
            compare("git", run, lib, tmp_path / script)


def outcomes(tests: Path, script: str, folder: Path, preload: Path | None) -> Outcomes:
    command: list[str | Path] = ["sh", "-c", 'cd "$0" && exec sh "./$1"', tests, script]
    end = ending(
        command,
        folder,
        preload,
        1200,
        # Its scripts would preload glibc's checks of malloc, in loft's place.
        TEST_NO_MALLOC_CHECK="1",
        TEST_OUTPUT_DIRECTORY=str(folder),
    )
    results = RESULT.findall(written(folder))
    return {script: end} | {f"{script} {test}": ended + left for ended, test, left in results}
