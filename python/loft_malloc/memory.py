"""The memory of a command and of all that it starts, sampled while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import psutil

# Longer pauses on a machine with many processes: at most this part of one core goes into looking.
LARGEST_SHARE = 0.1
SHORTEST_STEP_S = 0.005


@dataclass
class MemoryWatch:
    """A launch.Watcher: the sum of the resident sets, and when it was so.

    Pages that processes share, as after a fork, count once for each of them.
    """

    # Seconds since the first sample, and KiB.
    samples: list[tuple[float, float]] = field(default_factory=list)
    _started: float = 0.0

    def __call__(self, process: psutil.Process) -> float:
        before = time.monotonic()
        if not self.samples:
            self._started = before
        size = sum(map(_resident, process.children(recursive=True)))
        self.samples.append((before - self._started, size / 1024))
        return max(SHORTEST_STEP_S, (time.monotonic() - before) / LARGEST_SHARE)

    @property
    def peak_kib(self) -> float:
        return max((size for _, size in self.samples), default=0.0)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
