"""What a process told at one moment, and what follows from two such readings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loft_malloc.errors import UserError
from loft_malloc.live.parts import PARTS, RATES, RESIDENT, UNTOUCHED
from loft_malloc.profile.top import amount, out_of

# A process's fields in /proc/PID/stat, behind its name.
MINOR_FAULTS, MAJOR_FAULTS, USER_TICKS, SYSTEM_TICKS, RESIDENT_PAGES = 7, 9, 11, 12, 21


@dataclass(frozen=True)
class Usage:
    """What the kernel counts for the whole process."""

    minor_faults: int
    major_faults: int
    cpu_s: float
    # The heap's memory, and all else: code, stacks, files that are mapped.
    resident: int = 0

    @classmethod
    def of(cls, pid: int | None) -> Usage | None:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return None
        words = text.rpartition(")")[2].split()
        ticks = int(words[USER_TICKS]) + int(words[SYSTEM_TICKS])
        return cls(
            int(words[MINOR_FAULTS]),
            int(words[MAJOR_FAULTS]),
            ticks / os.sysconf("SC_CLK_TCK"),
            int(words[RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE"),
        )


@dataclass(frozen=True)
class OfClass:
    """One size class; `object_bytes` is 0 for large objects."""

    object_bytes: int
    values: dict[str, int]

    @property
    def title(self) -> str:
        return str(self.object_bytes) if self.object_bytes else "large"

    def __getitem__(self, name: str) -> int:
        return self.values.get(name, 0)

    @property
    def waste(self) -> int:
        """What it has resident beyond what the program has asked for."""
        charged = sum(self[part.of_class] for part in PARTS if part.waste and part.of_class)
        return max(0, min(charged, self["resident_bytes"] - self["live_bytes"]))


@dataclass(frozen=True)
class Reading:
    at_s: float
    version: str
    values: dict[str, int]
    classes: list[OfClass] = field(default_factory=list)
    usage: Usage | None = None

    def __getitem__(self, name: str) -> int:
        return self.values.get(name, 0)

    @property
    def resident(self) -> int:
        return self[RESIDENT]

    @property
    def heap(self) -> str:
        """How much of the process's memory is malloc's: the first thing to ask."""
        whole = self.usage.resident if self.usage is not None else 0
        if not whole:
            return f"heap {amount(self.resident, 'bytes')} resident"
        # The two are read one after the other, and some KiB apart in a process that is all heap.
        part = min(100, round(100 * self.resident / whole))
        return f"heap {out_of(self.resident, whole)} resident ({part}%)"

    def parts(self) -> list[int]:
        """What each part has resident; their sum is what is resident.

        What is charged and not resident is taken from what is live, where nearly all of it is,
        and then from the others.
        """
        values = [self[part.field] for part in PARTS]
        untouched = self[UNTOUCHED]
        for index, value in enumerate(values):
            taken = min(value, untouched)
            values[index] -= taken
            untouched -= taken
        return values


def parsed(told: dict[str, Any], at_s: float, usage: Usage | None = None) -> Reading:
    """Of another version's statistics, what there is of them."""
    values = _numbers(told)
    if RESIDENT not in values:
        raise UserError(
            f"the process does not answer with statistics of loft: there is no {RESIDENT}", 1
        )
    rows = told.get("classes", [])
    found = (
        [_numbers(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    )
    classes = [OfClass(row.get("object_bytes", 0), row) for row in found]
    return Reading(at_s, str(told.get("loft", "")), values, classes, usage)


def _numbers(told: dict[str, Any]) -> dict[str, int]:
    return {
        name: value
        for name, value in told.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


@dataclass(frozen=True)
class Rate:
    title: str
    per_s: float


def rates(before: Reading | None, now: Reading) -> list[Rate]:
    """Events a second. A counter that has fallen, as in the child of a fork, counts nothing."""
    if before is None or now.at_s <= before.at_s:
        return []
    span = now.at_s - before.at_s
    found = [
        Rate(title, max(0, now[name] - before[name]) / span)
        for name, title in RATES
        if name in now.values and name in before.values
    ]
    if before.usage is not None and now.usage is not None:
        minor = now.usage.minor_faults - before.usage.minor_faults
        major = now.usage.major_faults - before.usage.major_faults
        found += [Rate("faults", max(0, minor) / span), Rate("major faults", max(0, major) / span)]
    return found


def cpu_share(before: Reading | None, now: Reading) -> float | None:
    """Of one processor's time; 2.0 are two."""
    if before is None or before.usage is None or now.usage is None or now.at_s <= before.at_s:
        return None
    return max(0.0, (now.usage.cpu_s - before.usage.cpu_s) / (now.at_s - before.at_s))
