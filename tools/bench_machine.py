"""The head of a set of runs: the machine, the system and the versions of what was measured."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from pathlib import Path

from bench_programs import PEERS_DIR, ROOT
from bench_report import Json

# Runs that differ in one of these cannot stand in one table.
MACHINE = ("cpu", "cores", "virtual", "system", "kernel")


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def first_match(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return found.group(1).strip().strip('"') if found else "unknown"


def commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--tags"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return described.stdout.strip() or "of unknown commit"


def versions(names: list[str]) -> dict[str, str]:
    """Of all but loft, whose commit each row names."""
    known: dict[str, str] = {"glibc": platform.libc_ver()[1]}
    path = PEERS_DIR / "versions.json"
    if path.exists():
        known |= json.loads(path.read_text())
    others = [name for name in names if not name.startswith("loft")]
    return {name: known.get(name, "of unknown version") for name in others}


def make_header(names: list[str], repeats: int, counters: str | None) -> Json:
    """`counters` says why there are none, or is None."""
    memory = int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")) / 1024 / 1024
    virtual = "hypervisor" in first_match("/proc/cpuinfo", r"^flags\s*:(.*)$").split()
    return {
        "date": now(),
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:(.*)$"),
        "cores": len(os.sched_getaffinity(0)),
        "virtual": " of a virtual machine" if virtual else "",
        "memory_gib": memory,
        "system": first_match("/etc/os-release", r"^PRETTY_NAME=(.*)$"),
        "kernel": platform.release(),
        "huge_pages": first_match("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        "repeats": repeats,
        "versions": versions(names),
        "counters": "perf stat, user mode, in a separate pass"
        if counters is None
        else f"none, {counters}; elapsed and CPU time only",
    }


def differences(old: Json, new: Json) -> list[str]:
    """Why runs under the one head must not be put beside runs under the other."""
    said = [f"{key}: {old[key]}, now {new[key]}" for key in MACHINE if old[key] != new[key]]
    said += [
        f"{name}: {old['versions'][name]}, now {version}"
        for name, version in new["versions"].items()
        if old["versions"].get(name, version) != version
    ]
    return said
