"""What of this machine, and of the limits of a process on it, matters to loft."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from loft_malloc import settings_file
from loft_malloc.finding import Finding, finding
from loft_malloc.machine import Machine
from loft_malloc.metrics import kibibytes
from loft_malloc.options import OPTIONS

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
        settings,
        page_size,
        rseq,
    )
    return [check(machine) for check in checks]


def huge_pages(machine: Machine) -> Finding:
    text = machine.text(machine.sys / "kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", text or "")
    value = chosen[1] if chosen else "not offered by this kernel"
    return finding("huge_pages.always" if value == "always" else "huge_pages.small", value)


def overcommit(machine: Machine) -> Finding:
    mode = machine.number(machine.proc / "sys/vm/overcommit_memory")
    if mode != 2:
        named = {0: "0 (heuristic)", 1: "1 (always)"}
        return finding("overcommit.free", named.get(mode or 0, mode))
    match = re.search(r"CommitLimit:\s+(\d+)", machine.text(machine.proc / "meminfo") or "")
    limit = f", {kibibytes(int(match[1]))} in all" if match else ""
    return finding("overcommit.strict", f"2 (strict{limit})")


def map_count(machine: Machine) -> Finding:
    count = machine.number(machine.proc / "sys/vm/max_map_count")
    if count is None:
        return finding("mappings.unknown", "cannot be read")
    case = "mappings.many" if count >= USUAL_MAP_COUNT else "mappings.few"
    return finding(case, count, usual=USUAL_MAP_COUNT)


def address_space(machine: Machine) -> Finding:
    limit = machine.limit("Max address space")
    if limit is None:
        return finding("address_space.unlimited", "none")
    wide = limit >= LEAST_ADDRESS_SPACE
    return finding("address_space.wide" if wide else "address_space.narrow", size(limit))


def group_limit(machine: Machine) -> Finding:
    limits = list(_group_limits(machine))
    if not limits:
        return finding("group.none", "none")
    least, path = min(limits)
    if machine.environment.get("LOFT_CGROUP") != "off":
        case = "group.heeded"
    else:
        case = "group.roomy" if least >= ROOMY else "group.small"
    return finding(case, f"{size(least)} ({path})", kept=OPTIONS["dirty_bytes"].default)


def processors(machine: Machine) -> Finding:
    shares = []
    for folder in _groups(machine):
        limit = machine.text(folder / "cpu.max") or ""
        if match := re.fullmatch(r"(\d+) +([1-9]\d*)", limit):
            shares.append((int(match[1]) / int(match[2]), folder / "cpu.max"))
    if not shares:
        return finding("processors.none", "none")
    least, path = min(shares)
    return finding("processors.limited", f"{least:g} processors ({path})")


def own_limits(machine: Machine) -> Finding:
    limits = [
        f"{name} {machine.environment[variable]}"
        for name, variable in (("soft", "LOFT_SOFT_LIMIT"), ("hard", "LOFT_HARD_LIMIT"))
        if machine.environment.get(variable)
    ]
    return finding("own_limits.set" if limits else "own_limits.none", ", ".join(limits) or "none")


def settings(machine: Machine) -> Finding:
    """What the file for all processes sets."""
    path = machine.settings
    found = settings_file.read(path, machine.settings_owner)
    if found is None:
        return finding("settings.none", f"{path} does not exist")
    if found.refused:
        return finding("settings.refused", f"{path} is ignored: {found.refused}", path=path)
    said = " ".join(f"{name}={value}" for name, value in found.values.items()) or "nothing"
    value = f"{path} sets {said}"
    if found.mistakes:
        return finding("settings.mistaken", value, mistakes="; ".join(found.mistakes))
    return finding("settings.followed", value)


def _memberships(machine: Machine) -> Iterator[tuple[list[str], str]]:
    """The controllers and the path of each control group that the process is in."""
    for line in machine.of_process("cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        yield controllers.split(","), path


def _groups(machine: Machine) -> Iterator[Path]:
    """The control groups of version 2, from the innermost one up."""
    for controllers, path in _memberships(machine):
        if controllers == [""]:
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
    # Of version 2 loft heeds the second where it watches.
    watches = machine.environment.get("LOFT_CGROUP") == "watch"
    names = ("memory.max", "memory.high") if watches else ("memory.max",)
    files = [folder / name for folder in _groups(machine) for name in names]
    for controllers, path in _memberships(machine):
        if "memory" in controllers:
            folders = _upwards(machine.sys / "fs/cgroup/memory", path)
            files += [folder / "memory.limit_in_bytes" for folder in folders]
    for file in files:
        limit = machine.number(file)
        if limit is not None and limit < NO_LIMIT:
            yield limit, file


def page_size(machine: Machine) -> Finding:
    case = "pages.large" if machine.page_size > LARGEST_PAGE else "pages.small"
    return finding(case, size(machine.page_size))


def rseq(machine: Machine) -> Finding:
    tunables = machine.environment.get("GLIBC_TUNABLES", "").split(":")
    needed = machine.environment.get("LOFT_OWNER") == "cpu"
    if "glibc.pthread.rseq=0" in tunables:
        case = "rseq.needed" if needed else "rseq.tuned"
        return finding(case, "not registered by glibc (GLIBC_TUNABLES)")
    if machine.rseq_size:
        return finding("rseq.usual", "offered by the kernel, registered by glibc")
    silent = machine.rseq_size is None
    value = "this libc does not say" if silent else "not offered by this kernel"
    return finding("rseq.needed" if needed else "rseq.usual", value)
