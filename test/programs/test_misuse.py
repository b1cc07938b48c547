"""Addresses that were not to be freed: one line says what is wrong, and the program stops."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest
from programs import ROOT, Build, Execute

FOREIGN = ["stack", "static", "code", "mmap", "realloc-mmap", "nowhere", "not-canonical"]
OWN = [
    "interior",
    "misaligned",
    "interior-large",
    "misaligned-large",
    "interior-other-thread",
    "realloc-interior",
    "realloc-interior-large",
    "usable-size-interior",
    "never-allocated",
    "double",
    "double-handled",
    "double-other-thread",
    "double-two-threads",
    "double-large",
    "double-large-other-thread",
]


def documented() -> list[re.Pattern[str]]:
    """What the first line of a report begins with, as docs/internals/reports.md says."""
    page = ROOT / "docs" / "internals" / "reports.md"
    table = page.read_text().partition("## The first line")[2].partition("\n## ")[0]
    texts = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    words = {"CALL": r"\w+", "ADDRESS": "0x[0-9a-f]+", "REASON": ".+", "N": "[0-9]+"}
    patterns = []
    for text in texts:
        parts = re.split(r"\b(CALL|ADDRESS|REASON|N)\b", text)
        patterns.append(re.compile("".join(words.get(part) or re.escape(part) for part in parts)))
    return patterns


def test_all_first_lines_are_told_apart() -> None:
    assert len(documented()) > 10


def stopped(result: subprocess.CompletedProcess[str]) -> str:
    """The one line, and the address that is the program's mistake before it."""
    assert "survived" not in result.stdout
    assert result.returncode == -signal.SIGABRT, result.stderr
    assert re.fullmatch(r"loft: [ -~]+\n", result.stderr)
    line = result.stderr.removeprefix("loft: ")
    assert any(pattern.match(line) for pattern in documented())
    (address,) = result.stdout.splitlines()
    return address


@pytest.mark.parametrize("what", FOREIGN + OWN)
def test_stops_with_one_line(owned: Execute, build: Build, what: str, owner: str) -> None:
    # By whom a mistake is found depends on where threads run, if processors own the heaps: below.
    together = [str(min(os.sched_getaffinity(0)))] if owner == "cpu" else []
    result = owned(build("misuse.c"), what, *together)
    assert stopped(result) in result.stderr


FREED = "(freed before, or never): {0}"
# What is said of an object that the profile has sampled.
SAMPLED = {
    "interior": "free of an interior pointer {0}: object 0x",
    "misaligned": "free of a misaligned pointer: {0}",
    "interior-large": "free of an interior pointer {0}: object 0x",
    "misaligned-large": "free of a misaligned pointer: {0}",
    "interior-other-thread": "free of an interior pointer {0}: object 0x",
    "realloc-interior": "realloc of an interior pointer {0}: object 0x",
    "realloc-interior-large": "realloc of an interior pointer {0}: object 0x",
    "usable-size-interior": "malloc_usable_size of an interior pointer {0}: object 0x",
    "double": FREED,
    "double-handled": FREED,
    "double-other-thread": FREED,
    "double-two-threads": FREED,
    "double-large": FREED,
    "double-large-other-thread": FREED,
    "realloc-freed": FREED,
}


@pytest.mark.parametrize("what", SAMPLED)
def test_sampled_objects_are_like_any_other(owned: Execute, build: Build, what: str) -> None:
    result = owned(build("misuse.c"), what, LOFT_PROFILE="on", LOFT_SAMPLE_BYTES="1")
    address = result.stdout.splitlines()[0]
    assert (result.returncode, "survived" in result.stdout) == (-signal.SIGABRT, False)
    assert re.fullmatch(r"loft: [ -~]+\n", result.stderr)
    assert SAMPLED[what].format(address) in result.stderr
    assert "of the program's own" not in result.stderr


@pytest.mark.parametrize("where", ["000", "001", "010", "011"])
@pytest.mark.parametrize("what", ["interior-other-thread", "double-other-thread"])
def test_between_processors(execute: Execute, build: Build, what: str, where: str) -> None:
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("takes two processors")
    result = execute(build("misuse.c"), what, where, LOFT_OWNER="cpu")
    assert stopped(result) in result.stderr


@pytest.mark.parametrize("where", ["0000", "0001", "0010", "0011", "00010", "00011", "00100"])
def test_twice_between_processors(execute: Execute, build: Build, where: str) -> None:
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("takes two processors")
    program = build("misuse.c")
    kept = execute(program, "double-two-threads-kept", where, LOFT_OWNER="cpu")
    assert f"double free of {stopped(kept)}" in kept.stderr
    # The first free may give the slab back. What the second one sends there is then found damaged
    # if the memory is in use again, and else it is told by its address.
    gone = execute(program, "double-two-threads", where, LOFT_OWNER="cpu")
    stopped(gone)
    assert gone.stderr.startswith("loft: double free")


def test_a_handler_may_allocate(owned: Execute, build: Build) -> None:
    """Unless that needs what the faulty call was holding: double-handled, above, must not hang."""
    result = owned(build("misuse.c"), "misaligned-handled")
    assert result.returncode == -signal.SIGABRT, result.stderr
    assert result.stdout.splitlines()[1:] == ["handled"]


def test_a_handler_may_jump_out(owned: Execute, build: Build) -> None:
    """A thread that goes on after its mistake may wait for others' locks as often as it has to."""
    result = owned(build("misuse.c"), "got-over")
    assert (result.returncode, result.stdout) == (0, "survived\n"), result.stderr
    assert re.fullmatch(r"loft: [ -~]+\n", result.stderr)


@pytest.mark.parametrize("what", ["second-mistake-handled", "second-mistake-of-a-child-handled"])
def test_each_thread_has_its_handler(owned: Execute, build: Build, what: str) -> None:
    """The thread that made the second mistake is not the one that made the first."""
    result = owned(build("misuse.c"), what)
    assert result.returncode == -signal.SIGABRT, result.stderr
    assert re.fullmatch(r"(loft: [ -~]+\n){2}", result.stderr)


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_pointers_may_be_ignored(owned: Execute, build: Build, what: str) -> None:
    result = owned(build("misuse.c"), what, LOFT_MISUSE="continue")
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"loft: [ -~]+\n", result.stderr)
    address, survived = result.stdout.splitlines()
    assert address in result.stderr
    assert survived == "survived"


# Objects that one thread frees and another gets back have a list written into them on their way.
WRITTEN = ["zero-after-free", "pointer-after-free", "number-after-free"]


@pytest.mark.parametrize("what", WRITTEN)
def test_a_write_after_free_is_seen(execute: Execute, build: Build, what: str) -> None:
    result = execute(build("misuse.c"), what, LOFT_OWNER="thread")
    address = stopped(result)
    assert re.search(
        rf"write after free: .* in {address}: slab 0x\w+, size class 64 ", result.stderr
    )


@pytest.mark.parametrize("what", WRITTEN)
def test_objects_come_home_after_a_write(execute: Execute, build: Build, what: str) -> None:
    result = execute(build("misuse.c"), what, LOFT_OWNER="thread", LOFT_MISUSE="continue")
    address, survived = result.stdout.splitlines()
    assert (result.returncode, survived) == (0, "survived"), result.stderr
    assert re.fullmatch(rf"loft: write after free: .* in {address}: [ -~]+\n", result.stderr)


def test_right_use_is_not_reported(owned: Execute, build: Build) -> None:
    """The same program without a mistake, so that the tests above know what they see."""
    result = owned(build("misuse.c"), "nothing")
    assert (result.returncode, result.stdout, result.stderr) == (0, "survived\n", "")


@pytest.mark.parametrize("size", ["1", "8", "40", "1000"])
@pytest.mark.parametrize("count", ["1", "200", "1000"])
def test_a_byte_in_front(owned: Execute, build: Build, size: str, count: str) -> None:
    """Of each object, the first of its slab, too. Of guard's samples, which are 256 at most."""
    modes = [{"LOFT_HARDENED": "full"}]
    if count != "1000":
        modes.append({"LOFT_HARDENED": "guard", "LOFT_SAMPLE_BYTES": "1"})
    for settings in modes:
        result = owned(build("in_front.c"), size, count, **settings)
        assert (result.returncode, result.stdout, result.stderr) == (0, "0\n", "")
