"""The machine as a report names it: what numbers from elsewhere are not to be compared with."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

CPUINFO = Path("/proc/cpuinfo")
# What says it, on x86-64 and on others.
MODEL = ("model name", "Model", "cpu model")


@dataclass(frozen=True)
class Host:
    architecture: str
    # As /proc/cpuinfo calls it; None where that says nothing.
    processor: str | None
    processors: int
    # Those that this process may run on.
    processors_usable: int
    memory_kib: int
    system: str
    kernel: str
    libc: str

    def __str__(self) -> str:
        parts = [self.architecture, self.processor or "", f"{self.processors} CPUs", self.system]
        return ", ".join(part for part in parts if part) + f" {self.kernel}"


def this() -> Host:
    return Host(
        platform.machine(),
        _processor(),
        os.cpu_count() or 1,
        len(os.sched_getaffinity(0)),
        psutil.virtual_memory().total // 1024,
        platform.system(),
        platform.release(),
        " ".join(platform.libc_ver()).strip(),
    )


def _processor() -> str | None:
    try:
        lines = CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return None
    pairs = (line.partition(":") for line in lines)
    said = ((key.strip(), value.strip()) for key, _, value in pairs)
    return next((value for key, value in said if key in MODEL and value), None)
