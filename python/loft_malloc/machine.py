"""What `loft doctor` reads: files below /proc and /sys, and a few facts about this process.

Tests put a tree of their own in place of the two.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def _rseq_size() -> int | None:
    """None with a libc that does not say."""
    try:
        return int(ctypes.c_uint.in_dll(ctypes.CDLL(None), "__rseq_size").value)
    except ValueError:
        return None


@dataclass(frozen=True)
class Machine:
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    # The process that is looked at, as a folder of /proc.
    process: str = "self"
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    page_size: int = field(default_factory=lambda: os.sysconf("SC_PAGE_SIZE"))
    # What glibc has registered with the kernel: 0 is nothing.
    rseq_size: int | None = field(default_factory=_rseq_size)
    # What is set for all processes, and who must own it.
    settings: Path = Path("/etc/loft.conf")
    settings_owner: int = 0

    def text(self, path: Path) -> str | None:
        """None if there is no such file here, or it is not ours to read."""
        try:
            return path.read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path: Path) -> int | None:
        text = self.text(path)
        return int(text) if text is not None and text.isdigit() else None

    def of_process(self, name: str) -> str:
        return self.text(self.proc / self.process / name) or ""

    def limit(self, name: str) -> int | None:
        """A soft limit of the process, None if there is none."""
        match = re.search(rf"^{name}\s+(\d+)", self.of_process("limits"), re.MULTILINE)
        return int(match[1]) if match else None
