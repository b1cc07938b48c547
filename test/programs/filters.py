"""Filters of system calls (seccomp), as the programs of test/programs install them.

A filter is a list of rules, the first that names a call decides, and an answer for all other calls.
It is compiled to the kernel's own form here; sources/confine.h installs it from a file.
"""

from __future__ import annotations

import errno
import re
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from programs import ROOT

ALLOW = 0x7FFF0000
KILL = 0x80000000  # the whole process
# linux/filter.h: load a word; jump if equal; return.
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06


def answer(code: int) -> int:
    """The call is not made, and fails with this error; with 0 it claims to have been made."""
    return 0x00050000 | code


REFUSE = answer(errno.EPERM)
FAKE = answer(0)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a program under glibc makes of malloc, free, pthread_create, pthread_join, sleep, write and
# exit, once it runs. clone is for kernels without clone3.
GLIBC = words(
    """
    mmap munmap mremap mprotect madvise brk futex clone3 clone set_robust_list rseq rt_sigaction
    rt_sigprocmask rt_sigreturn clock_nanosleep restart_syscall write exit exit_group
    """
)
# What the loader and the start of libc make besides, before main.
LOADER = words(
    """
    execve access openat newfstatat fstat read pread64 close arch_prctl set_tid_address prlimit64
    getrandom
    """
)


@cache
def numbers() -> dict[str, int]:
    """What the system calls of this machine are called."""
    text = subprocess.run(
        ["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", text)}


@cache
def systemd(name: str) -> frozenset[str]:
    """A set that systemd publishes."""
    text = (ROOT / "test" / "programs" / "systemd_252.txt").read_text()
    match = re.search(rf"^\[{name}\]\n([^\[]+)", text, re.MULTILINE)
    assert match is not None, name
    return words(match[1])


@dataclass(frozen=True)
class Filter:
    rules: tuple[tuple[frozenset[str], int], ...]
    otherwise: int = ALLOW

    def put(self, path: Path) -> Path:
        """Writes the filter to a file."""
        steps: list[tuple[int, int, int, int]] = [(LOAD, 0, 0, 0)]
        for names, action in self.rules:
            for number in sorted(numbers()[name] for name in names if name in numbers()):
                steps += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, action)]
        steps.append((RETURN, 0, 0, self.otherwise))
        path.write_bytes(b"".join(struct.pack("=HBBI", *step) for step in steps))
        return path


def allowing(names: Iterable[str], otherwise: int) -> Filter:
    return Filter(((frozenset(names), ALLOW),), otherwise)


def refusing(names: Iterable[str], action: int) -> Filter:
    return Filter(((frozenset(names), action),))
