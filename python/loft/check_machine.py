"""What of this machine, and of the limits of a process on it, matters to loft."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from loft.finding import Finding
from loft.machine import Machine
from loft.metrics import kibibytes
from loft.option_table import OPTIONS

MIB = 1 << 20
# The kernel's own default.
USUAL_MAP_COUNT = 65530
# What a small program under loft may need of address space, its code and stacks included.
LEAST_ADDRESS_SPACE = 512 * MIB
# Free memory that loft keeps (dirty_bytes) is to be a small part of what there is.
ROOMY = 2048 * MIB
# loft's granule: the largest page that it serves (src/space/window.h).
LARGEST_PAGE = 64 << 10
# Version 1 of the control groups says "no limit" with the largest number of whole pages.
NO_LIMIT = 1 << 60


def size(count: int) -> str:
    return kibibytes(count / 1024)


def check(machine: Machine) -> list[Finding]:
    checks = (huge_pages, overcommit, map_count, address_space, group_limit, page_size, rseq)
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
        return Finding("ok", what, value, "reserving address space costs nothing")
    match = re.search(r"CommitLimit:\s+(\d+)", machine.text(machine.proc / "meminfo") or "")
    limit = f", {kibibytes(int(match[1]))} in all" if match else ""
    return Finding(
        "note",
        what,
        f"2 (strict{limit})",
        "what loft reserves does not count, what it commits does, free memory that it keeps "
        "included",
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
        return Finding("ok", what, "none", "loft reserves 8 TiB, of which nothing is used up")
    if limit >= LEAST_ADDRESS_SPACE:
        return Finding(
            "note",
            what,
            size(limit),
            "loft reserves nothing then and maps step by step, which works",
            "without need of the limit: ulimit -v unlimited; a control group limits memory better",
        )
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
    kept = OPTIONS["dirty_bytes"].default
    why = f"free memory that loft keeps counts too, up to dirty_bytes ({kept}) for each process"
    if least >= ROOMY:
        return Finding("ok", what, value, why)
    fitting = max(least // 16 // MIB, 1)
    return Finding("note", what, value, why, f"loft run --option dirty_bytes={fitting}M ...")


def _group_limits(machine: Machine) -> Iterator[tuple[int, Path]]:
    groups = machine.sys / "fs/cgroup"
    for line in machine.of_process("cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            # Beside version 1, version 2 has a folder of its own.
            roots, names = [groups / "unified", groups], ["memory.max", "memory.high"]
        elif "memory" in controllers.split(","):
            roots, names = [groups / "memory"], ["memory.limit_in_bytes"]
        else:
            continue
        for root in roots:
            folder = root / path.lstrip("/")
            # A group's limit binds the groups in it.
            for each in (folder, *folder.parents):
                for name in names:
                    limit = machine.number(each / name)
                    if limit is not None and limit < NO_LIMIT:
                        yield limit, each / name
                if each == root:
                    break


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
    why = "loft does without; allocators with a cache for each core use them"
    tunables = machine.environment.get("GLIBC_TUNABLES", "")
    if "glibc.pthread.rseq=0" in tunables.split(":"):
        return Finding(
            "note",
            what,
            "not registered by glibc (GLIBC_TUNABLES)",
            why,
            "to compare with such an allocator fairly, see what its manual says of this tunable",
        )
    if machine.rseq_size is None:
        return Finding("ok", what, "this libc does not say", why)
    if machine.rseq_size == 0:
        return Finding("ok", what, "not offered by this kernel", why)
    return Finding("ok", what, "offered by the kernel, registered by glibc", why)
