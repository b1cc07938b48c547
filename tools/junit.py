"""What test runners report: how many tests passed, and how long each took."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

SLOWEST = 20
# gtest tells the reason on the line after the place.
GTEST_REASON = re.compile(r": Skipped\n(.*)")


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    # The stage, name and reason of each test that was skipped.
    skips: list[tuple[str, str, str]] = field(default_factory=list)
    # How long each test took, and its name.
    times: list[tuple[float, str]] = field(default_factory=list)

    def add(self, other: Self) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.failures += other.failures
        self.skips += other.skips
        self.times += other.times

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {len(self.skips)} skipped" if self.skips else text


def read_junit(report: Path, stage: str) -> Count:
    if not report.exists():
        return Count()
    count = Count()
    for case in ET.parse(report).getroot().iter("testcase"):
        # pytest names the file apart from the test; ctest repeats the name.
        names = dict.fromkeys((case.get("classname", ""), case.get("name", "")))
        name = f"{stage}: {' '.join(name for name in names if name)}"
        wrong = [found for kind in ("failure", "error") for found in case.findall(kind)]
        if wrong:
            count.failed += 1
            told = wrong[0].get("message") or "see the stage's log"
            count.failures.append(f"{name}: {told.splitlines()[0]}")
        elif (skipped := case.find("skipped")) is not None:
            said = GTEST_REASON.search(case.findtext("system-out") or "")
            reason = said[1] if said else skipped.get("message") or "no reason was told"
            count.skips.append((stage, " ".join(name for name in names if name), reason))
        else:
            count.passed += 1
        count.times.append((float(case.get("time", 0)), name))
    return count


def slowest(times: Sequence[tuple[float, str]]) -> list[str]:
    return [
        f"  {seconds:7.1f} s  {name}" for seconds, name in sorted(times, reverse=True)[:SLOWEST]
    ]
