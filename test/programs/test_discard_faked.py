"""Where the system only claims to have discarded memory, or refuses to, calloc's is zero still."""

from __future__ import annotations

import errno
import re
import subprocess
from pathlib import Path

import pytest
from filters import FAKE, Filter, answer, refusing
from programs import Build, Execute

# Memory goes back while the program sleeps.
SOON = {"LOFT_DECAY_MS": "50"}
FILTERS = {
    # As some emulators do, which do not know the newer call.
    "madvise claims": Filter(
        ((frozenset({"madvise"}), FAKE), (frozenset({"process_madvise"}), answer(errno.ENOSYS)))
    ),
    "madvises claim": refusing({"madvise", "process_madvise"}, FAKE),
    "madvise not known": refusing({"madvise"}, answer(errno.ENOSYS)),
    "madvise invalid": refusing({"madvise"}, answer(errno.EINVAL)),
    "madvise not permitted": refusing({"madvise"}, answer(errno.EPERM)),
    "mremap refused": refusing({"mremap"}, answer(errno.ENOMEM)),
    "munmap refused": refusing({"munmap"}, answer(errno.ENOMEM)),
    "munmap claims": refusing({"munmap"}, FAKE),
    # By a sandbox that answers for the system.
    "nothing works": Filter(
        (
            (frozenset({"madvise", "process_madvise"}), FAKE),
            (frozenset({"mremap", "munmap"}), answer(errno.ENOMEM)),
        )
    ),
}
# In a process that has been told the truth before.
LATER = ("madvise claims", "munmap claims", "munmap refused", "nothing works")


def zero(result: subprocess.CompletedProcess[str]) -> None:
    expected = (0, "old words 0, refused 0\n", "")
    assert (result.returncode, result.stdout, result.stderr) == expected


@pytest.mark.parametrize("preload", [True, False], ids=["loft", "libc"])
@pytest.mark.parametrize("name", FILTERS)
def test_from_the_start(
    execute: Execute, build: Build, tmp_path: Path, name: str, preload: bool
) -> None:
    path = FILTERS[name].put(tmp_path / "filter")
    command = (build("confined.c"), path, build("faked.c"), "one")
    zero(execute(*command, preload=preload, **SOON))


@pytest.mark.parametrize("name", ["munmap claims", "munmap refused"])
def test_no_long_mapping_is_left(execute: Execute, build: Build, tmp_path: Path, name: str) -> None:
    """A few of them leave the window no place, where the addresses of the program fall so."""
    path = FILTERS[name].put(tmp_path / "filter")
    shown = execute(build("confined.c"), path, "/bin/cat", "/proc/self/maps")
    ranges = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) ", shown.stdout, re.MULTILINE)
    assert ranges, shown.stderr
    assert max(int(end, 16) - int(start, 16) for start, end in ranges) < 1 << 34


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize("when", [[], ["later"]], ids=["before it allocates", "after that"])
def test_from_then_on(
    execute: Execute, build: Build, tmp_path: Path, name: str, when: list[str]
) -> None:
    path = FILTERS[name].put(tmp_path / "filter")
    zero(execute(build("faked.c"), "one", path, *when, **SOON))


@pytest.mark.parametrize("name", ["madvise claims", "madvise not permitted", "nothing works"])
@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
def test_threads(execute: Execute, build: Build, tmp_path: Path, name: str, owner: str) -> None:
    path = FILTERS[name].put(tmp_path / "filter")
    command = (build("confined.c"), path, build("faked.c"), "threads")
    zero(execute(*command, LOFT_OWNER=owner, **SOON))
