"""What test runners report: how many tests passed, and how long each took."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

SLOWEST = 20
CARGO_RESULT = re.compile(
    r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE
)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    # How long each test took, and its name.
    times: list[tuple[float, str]] = field(default_factory=list)

    def add(self, other: Self) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.times += other.times

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


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
        elif case.find("skipped") is not None:
            count.skipped += 1
        else:
            count.passed += 1
        count.times.append((float(case.get("time", 0)), name))
    return count


def read_cargo(text: str) -> Count:
    """What `cargo test` printed: one such line for each program with tests."""
    count = Count()
    for passed, failed, ignored in CARGO_RESULT.findall(text):
        count.add(Count(int(passed), int(failed), int(ignored)))
    return count


def slowest(times: Sequence[tuple[float, str]]) -> list[str]:
    return [
        f"  {seconds:7.1f} s  {name}" for seconds, name in sorted(times, reverse=True)[:SLOWEST]
    ]
