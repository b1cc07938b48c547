"""A comparison with made-up numbers, for tests of what is said of it."""

from __future__ import annotations

from collections import Counter

from loft_malloc.allocators import Allocator
from loft_malloc.comparison import Comparison, Measured, Plan
from loft_malloc.launch import Usage
from loft_malloc.memory import MemoryWatch
from loft_malloc.outcome import Outcome

TEN = [1.00, 1.02, 0.99, 1.01, 1.00, 0.98, 1.03, 1.00, 1.01, 0.99]
CRASH = Outcome("signal", 6)


def usage(wall_s: float, peak_kib: int = 1000) -> Usage:
    return Usage(wall_s, wall_s / 2, wall_s / 4, peak_kib, 7, 0, 3)


def measured(name: str, walls: list[float], peak_kib: int = 1000) -> Measured:
    watch = MemoryWatch([(0.0, 10.0), (0.5, 900.0), (1.0, 0.0)])
    outcomes = Counter({Outcome("exit", 0): len(walls) + 2})
    usages = [usage(wall, peak_kib) for wall in walls]
    return Measured(Allocator(name, None), outcomes, usages, memory=watch)


def crashed(name: str) -> Measured:
    return Measured(Allocator(name, None), Counter({CRASH: 1}))


def comparison(*all_measured: Measured, command: list[str] | None = None) -> Comparison:
    runs = max(len(each.usages) for each in all_measured) or 1
    allocators = [each.allocator for each in all_measured]
    plan = Plan(command or ["/bin/program", "-x"], allocators, runs, None, 0, False)
    return Comparison(plan, list(all_measured))
