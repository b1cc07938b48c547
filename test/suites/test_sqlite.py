"""SQLite's own tests: those that a change of it has to pass, and the threads of one program."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from sources import Sources
from suite import Outcomes, compare, ending, written

# All that it can do, since what it does not do is not tested.
BUILD = (
    ["./configure", "--enable-all", "--disable-readline", "CFLAGS=-O1 -w"],
    ["make", f"-j{os.cpu_count()}", "testfixture", "threadtest3"],
)
# One test stops them all if a file that nobody may write can be written, as root can.
ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
# A test that went well, a file of tests that was gone through, and at the end what did not go well.
PASSED = re.compile(r"^(.+?)\.\.\. Ok$", re.MULTILINE)
FILE = re.compile(r"^Time: (\S+\.test) ", re.MULTILINE)
FAILED = re.compile(r"^!Failures on these tests: (.*)$", re.MULTILINE)
# In names of tests: the bytes in use, and which allocation was made to fail.
MEASURED = re.compile(r"(?<=\(mu=)\d+|(?<=\.transient\.)\d+|(?<=\.persistent\.)\d+")
THREADS = (
    "walthread*",
    "cgt_pager_1",
    "dynamic_triggers",
    "checkpoint_starvation*",
    "create_drop_index_1",
    "lookaside1",
    "vacuum1",
    "stress*",
    "shared1",
)


@pytest.mark.long
def test_veryquick(lib: Path, sources: Sources, tmp_path: Path) -> None:
    sqlite = sources.built("sqlite3", *BUILD)
    prefix = ORDINARY if os.geteuid() == 0 else ()
    script = sqlite / "test" / "veryquick.test"

    def run(folder: Path, preload: Path | None) -> Outcomes:
        command = [*prefix, sqlite / "testfixture", script]
        outcomes = {"veryquick": ending(command, folder, preload, 5400)}
        text = MEASURED.sub("N", written(folder))
        outcomes |= dict.fromkeys(FILE.findall(text), "run")
        outcomes |= dict.fromkeys(PASSED.findall(text), "passed")
        for names in FAILED.findall(text):
            outcomes |= dict.fromkeys(names.split(), "failed")
        return outcomes

    compare("sqlite", run, lib, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", THREADS)
def test_threads(lib: Path, sources: Sources, tmp_path: Path, name: str) -> None:
    program = sources.built("sqlite3", *BUILD) / "threadtest3"

    def run(folder: Path, preload: Path | None) -> Outcomes:
        return {f"threadtest3 {name}": ending([program, name], folder, preload, 900)}

    compare("sqlite", run, lib, tmp_path)
