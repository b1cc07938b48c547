"""Within limits of address space, of data and of locked memory, room is for whoever wants it.

Most is compared with what the same program gets of libc's malloc under the same limit.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from programs import Build, Execute

MIB = 1 << 20
OWNERS = pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])


def within(kib: int, *command: str | Path) -> list[str | Path]:
    """Under a limit of address space that the program finds."""
    script = f'ulimit -v {kib} && LD_PRELOAD="$0" exec "$@"'
    return ["bash", "-c", script, *command]


def numbers(text: str, name: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{name} (\d+)$", text, re.MULTILINE)]


def as_much(ours: str, theirs: str, share: float) -> None:
    """All answers are the same; and nearly as many pieces are to be had, the second time too."""
    pattern = re.compile(r"^pieces.* \d+$", re.MULTILINE)
    assert pattern.sub("pieces", ours) == pattern.sub("pieces", theirs)
    (first, again), (their_first, _) = (
        (numbers(text, "pieces"), numbers(text, "pieces again")) for text in (ours, theirs)
    )
    assert min(first + again) >= share * their_first[0], ours


def share(piece: int, whole: float) -> float:
    """Objects of this size take addresses in pieces of 64 KiB."""
    return whole * piece / (-(-piece // 65536) * 65536) if piece > 65536 else whole


@OWNERS
@pytest.mark.parametrize(
    ("limit", "piece"),
    [
        pytest.param(4 << 30, 16 * MIB, id="4 GiB"),
        pytest.param(2 << 30, MIB, id="2 GiB"),
        pytest.param("+67108864", 100_000, id="64 MiB more than is used"),
        pytest.param("+67108864", 10_000, id="64 MiB more, in small objects"),
    ],
)
def test_address_space_limited_by_the_program(
    execute: Execute, build: Build, limit: int | str, piece: int, owner: str
) -> None:
    command = (build("limits.c"), "lowered", str(limit), str(piece))
    expected = execute(*command, preload=False)
    assert expected.stdout.count("yes") == 9, "or the test says nothing"
    result = execute(*command, LOFT_OWNER=owner)
    assert (result.returncode, result.stderr) == (0, "")
    as_much(result.stdout, expected.stdout, share(piece, 0.9))


@OWNERS
@pytest.mark.parametrize(("kib", "piece"), [(700_000, MIB), (100_000, 100_000), (100_000, 10_000)])
def test_address_space_limited_from_outside(
    execute: Execute, build: Build, lib: Path, kib: int, piece: int, owner: str
) -> None:
    command = (build("limits.c"), "fill", str(piece))
    expected = execute(*within(kib, "", *command), preload=False)
    result = execute(*within(kib, lib, *command), preload=False, LOFT_OWNER=owner)
    assert (result.returncode, result.stderr) == (0, "")
    as_much(result.stdout, expected.stdout, share(piece, 0.85))


@pytest.mark.parametrize(("kib", "mib"), [(700_000, 400), (100_000, 60)])
@pytest.mark.parametrize("how", ["at once", "trim", "sleep", "trim, sleep"])
def test_a_large_objects_room_is_handed_on(
    execute: Execute, build: Build, lib: Path, kib: int, mib: int, how: str
) -> None:
    letters = "".join(letter for word, letter in (("trim", "t"), ("sleep", "s")) if word in how)
    command = within(kib, lib, build("limits.c"), "handed on", str(mib), letters)
    result = execute(*command, preload=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "mmap yes\n", "")


def test_data_is_limited(execute: Execute, build: Build) -> None:
    expected = execute(build("limits.c"), "data", preload=False)
    result = execute(build("limits.c"), "data")
    assert (result.returncode, result.stderr) == (0, "")
    as_much(result.stdout, expected.stdout, 0.9)


@OWNERS
@pytest.mark.parametrize("which", ["current", "future", "current future"])
def test_memory_is_locked_by_one_who_may_lock_little(
    execute: Execute, build: Build, which: str, owner: str
) -> None:
    letters = "".join(word[0] for word in which.split())
    expected = execute(build("limits.c"), "lock", letters, preload=False)
    assert expected.stdout.startswith("mlockall yes\n"), "or the test says nothing"
    result = execute(build("limits.c"), "lock", letters, LOFT_OWNER=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, expected.stdout, "")


@OWNERS
@pytest.mark.parametrize("how", ["trim", "by itself"])
def test_locked_memory_goes_back(execute: Execute, build: Build, how: str, owner: str) -> None:
    """It cannot be discarded, but unmapped. (libc's malloc keeps 27 MiB of it.)"""
    letters = "t" if how == "trim" else ""
    result = execute(build("limits.c"), "locked memory", letters, LOFT_OWNER=owner)
    if result.returncode == 119:
        pytest.skip("200 MB cannot be locked here")
    assert (result.returncode, result.stderr) == (0, "")
    (left,) = re.findall(r"^KiB left (-?\d+)\n$", result.stdout)
    assert int(left) <= 27 << 10


def test_address_space_of_a_small_program(execute: Execute, build: Build) -> None:
    (plain,) = numbers(execute(build("limits.c"), "size", preload=False).stdout, "KiB")
    (ours,) = numbers(execute(build("limits.c"), "size").stdout, "KiB")
    assert ours - plain <= 80 << 10


@pytest.mark.machine
@pytest.mark.usefixtures("overcommit")
@pytest.mark.parametrize("overcommit", ["1"], indirect=True, ids=["all is promised"])
@pytest.mark.parametrize("gib", [1024, 300, 20])
def test_terabytes(execute: Execute, build: Build, gib: int) -> None:
    """Of address space, in objects that nobody touches. The heap may have half of all there is."""
    command = (build("limits.c"), "fill", str(gib << 30))
    expected = execute(*command, preload=False)
    (most, _) = numbers(expected.stdout, "pieces") + numbers(expected.stdout, "pieces again")
    assert most * gib >= 30 * 1024, "or the test says nothing"
    result = execute(*command)
    assert (result.returncode, result.stderr) == (0, "")
    as_much(result.stdout, expected.stdout, 0.49)
    assert min(numbers(result.stdout, "pieces")) * gib >= 30 * 1024
