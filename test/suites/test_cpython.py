"""CPython's own tests, one by one, all objects from malloc."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from programs import PYTHON
from suite import LONG, Outcomes, compare, ending

# Debian's package of tests, for Debian's interpreter.
TESTS = Path("/usr/lib/python3.11/test")
# They use no clock, no network and few processes, and take seconds.
SHORT = (
    "test_array",
    "test_bytes",
    "test_deque",
    "test_dict",
    "test_generators",
    "test_heapq",
    "test_list",
    "test_memoryview",
    "test_mmap",
    "test_ordered_dict",
    "test_string",
    "test_struct",
)
# The runner counts a folder of tests as one.
ALL = tuple(
    sorted(
        path.stem
        for path in TESTS.glob("test_*")
        if path.suffix == ".py" or (path / "__init__.py").exists()
    )
)


def result(case: ET.Element) -> str:
    for kind in ("failure", "error", "skipped"):
        if case.find(kind) is not None:
            return kind
    return "passed"


@pytest.mark.parametrize("name", ALL if LONG else SHORT)
def test_module(lib: Path, tmp_path: Path, name: str) -> None:
    def run(folder: Path, preload: Path | None) -> Outcomes:
        command: list[str | Path] = [PYTHON, "-m", "test", "--junit-xml", "report.xml", name]
        end = ending(command, folder, preload, 1200, PYTHONMALLOC="malloc")
        outcomes = {name: end}
        report = folder / "report.xml"
        if report.exists():
            for case in ET.parse(report).getroot().iter("testcase"):
                outcomes[case.get("name", "")] = result(case)
        return outcomes

    compare("cpython", run, lib, tmp_path)
