"""What of this machine, and of the limits of a process on it, matters to loft."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from loft.finding import Finding
from loft.machine import Machine
from loft.metrics import kibibytes
from loft.options import OPTIONS

MIB = 1 << 20
# The kernel's own default.
USUAL_MAP_COUNT = 65530
# What a small program under loft may need of address space, its code and stacks included: up to
# 80 MiB more than without loft (test/programs/test_rlimits.py).
LEAST_ADDRESS_SPACE = 128 * MIB
# Free memory that loft keeps (dirty_bytes) is to be a small part of what there is.
ROOMY = 2048 * MIB
# loft's granule: the largest page that it serves (src/space/window.h).
LARGEST_PAGE = 64 << 10
# Version 1 of the control groups says "no limit" with the largest number of whole pages.
NO_LIMIT = 1 << 60
# The limits of version 2.
MEMORY_FILES = ("memory.max", "memory.high")


def size(count: int) -> str:
    return kibibytes(count / 1024)


def check(machine: Machine) -> list[Finding]:
    checks = (
        huge_pages,
        overcommit,
        map_count,
        address_space,
        group_limit,
        processors,
        own_limits,
        page_size,
        rseq,
    )
    return [check(machine) for check in checks]


def huge_pages(machine: Machine) -> Finding:
    what = "transparent huge pages"
    text = machine.text(machine.sys / "kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", text or "")
    value = chosen[1] if chosen else "not offered by this kernel"
    if value != "always":
        return Finding("ok", what, value, "memory comes in small pages unless a program asks")
    return Finding(
        "note",
        what,
        value,
        "any 2 MiB of which a program touches a byte may become resident as a whole: faster, and "
        "more memory under every allocator, least comparable in short runs",
        "to save memory: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )


def overcommit(machine: Machine) -> Finding:
    what = "overcommit"
    mode = machine.number(machine.proc / "sys/vm/overcommit_memory")
    if mode != 2:
        value = {0: "0 (heuristic)", 1: "1 (always)"}.get(mode or 0, str(mode))
        return Finding("ok", what, value, "what loft has mapped and not touched costs nothing")
    match = re.search(r"CommitLimit:\s+(\d+)", machine.text(machine.proc / "meminfo") or "")
    limit = f", {kibibytes(int(match[1]))} in all" if match else ""
    return Finding(
        "note",
        what,
        f"2 (strict{limit})",
        "all that loft has mapped counts, touched or not: its heap, the next step of it (an eighth "
        "of its size, at most 64 MiB), and free memory that it keeps",
        "if programs run out of memory: lower dirty_bytes, or sysctl vm.overcommit_memory=0",
    )


def map_count(machine: Machine) -> Finding:
    what = "vm.max_map_count"
    count = machine.number(machine.proc / "sys/vm/max_map_count")
    if count is None:
        return Finding("ok", what, "not to be read here", "loft needs few mappings")
    why = "mappings that one process may have; loft keeps its heap in a few, and moving large "
    why += "objects can split them"
    if count >= USUAL_MAP_COUNT:
        return Finding("ok", what, str(count), why)
    return Finding("warning", what, str(count), why, f"sysctl vm.max_map_count={USUAL_MAP_COUNT}")


def address_space(machine: Machine) -> Finding:
    what = "limit of address space"
    limit = machine.limit("Max address space")
    if limit is None:
        return Finding("ok", what, "none", "loft maps what it uses, step by step")
    if limit >= LEAST_ADDRESS_SPACE:
        why = "loft maps what it uses, step by step; of what is freed, pieces of 1 MiB and more no "
        why += "longer count once they have gone back to the system"
        return Finding("ok", what, size(limit), why)
    return Finding(
        "warning",
        what,
        size(limit),
        "little more than the program's own code and stacks need; allocations may fail early",
        "ulimit -v unlimited, and limit memory by a control group",
    )


def group_limit(machine: Machine) -> Finding:
    what = "memory limit of the control group"
    limits = list(_group_limits(machine))
    if not limits:
        return Finding("ok", what, "none", "memory is limited by the machine alone")
    least, path = min(limits)
    value = f"{size(least)} ({path})"
    if machine.environment.get("LOFT_CGROUP") != "off":
        why = "read when a process starts: loft keeps little once its own memory is near it, with "
        why += "LOFT_WATCH_GROUP=on once the group's is; with LOFT_CGROUP=hard it also refuses "
        why += "memory, where the system would end a process"
        return Finding("ok", what, value, why)
    kept = OPTIONS["dirty_bytes"].default
    why = f"free memory that loft keeps counts too, up to dirty_bytes ({kept}) for each process"
    if least >= ROOMY:
        return Finding("ok", what, value, why)
    return Finding("note", what, value, why, "unset LOFT_CGROUP, which is off")


def processors(machine: Machine) -> Finding:
    what = "processor limit of the control group"
    shares = []
    for folder in _groups(machine):
        words = (machine.text(folder / "cpu.max") or "").split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) != 0:
            shares.append((int(words[0]) / int(words[1]), folder / "cpu.max"))
    if not shares:
        return Finding("ok", what, "none", "processors are limited by the machine alone")
    least, path = min(shares)
    return Finding(
        "note",
        what,
        f"{least:g} processors ({path})",
        "a process that has used its share stands still until the next period, under every "
        "allocator; short times that are measured here vary by that",
    )


def own_limits(machine: Machine) -> Finding:
    what = "limits of loft's own"
    limits = [
        f"{name} {machine.environment[variable]}"
        for name, variable in (("soft", "LOFT_SOFT_LIMIT"), ("hard", "LOFT_HARD_LIMIT"))
        if machine.environment.get(variable)
    ]
    if not limits:
        return Finding("ok", what, "none", "LOFT_SOFT_LIMIT and LOFT_HARD_LIMIT are not set")
    why = "bytes from the system: above the soft one loft keeps little, at the hard one it refuses"
    return Finding("ok", what, ", ".join(limits), why)


def _groups(machine: Machine) -> Iterator[Path]:
    """The control groups of version 2 that the process is in, from the innermost one up."""
    for line in machine.of_process("cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            # Beside version 1, version 2 has a folder of its own.
            for root in (machine.sys / "fs/cgroup/unified", machine.sys / "fs/cgroup"):
                yield from _upwards(root, path)


def _upwards(root: Path, path: str) -> Iterator[Path]:
    folder = root / path.lstrip("/")
    for each in (folder, *folder.parents):
        yield each
        if each == root:
            break


def _group_limits(machine: Machine) -> Iterator[tuple[int, Path]]:
    """A group's limit binds the groups in it."""
    files = [folder / name for folder in _groups(machine) for name in MEMORY_FILES]
    for line in machine.of_process("cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            folders = _upwards(machine.sys / "fs/cgroup/memory", path)
            files += [folder / "memory.limit_in_bytes" for folder in folders]
    for file in files:
        limit = machine.number(file)
        if limit is not None and limit < NO_LIMIT:
            yield limit, file


def page_size(machine: Machine) -> Finding:
    what = "page size"
    value = size(machine.page_size)
    if machine.page_size > LARGEST_PAGE:
        return Finding(
            "warning",
            what,
            value,
            "loft cuts memory into pieces of 64 KiB, and serves no larger pages",
            "a kernel with pages of at most 64 KiB",
            blocks=True,
        )
    return Finding("ok", what, value, "loft serves pages of up to 64 KiB")


def rseq(machine: Machine) -> Finding:
    what = "restartable sequences"
    missing, do = _missing_rseq(machine)
    if missing and machine.environment.get("LOFT_OWNER") == "core":
        return Finding(
            "warning",
            what,
            missing,
            "with owner=core every malloc and free takes a lock where they are missing, at ten "
            "times the price",
            "unset LOFT_OWNER: owner=thread, the default, does without them",
        )
    why = "of loft's owners only core uses them; other allocators with a cache for each core do too"
    value = missing or "offered by the kernel, registered by glibc"
    return Finding("note" if do else "ok", what, value, why, do)


def _missing_rseq(machine: Machine) -> tuple[str, str]:
    """Why there are none, and what to do about it; both empty if there are some."""
    tunables = machine.environment.get("GLIBC_TUNABLES", "")
    if "glibc.pthread.rseq=0" in tunables.split(":"):
        return (
            "not registered by glibc (GLIBC_TUNABLES)",
            "to compare with such an allocator fairly, see what its manual says of this tunable",
        )
    if machine.rseq_size is None:
        return "this libc does not say", ""
    return ("", "") if machine.rseq_size else ("not offered by this kernel", "")
