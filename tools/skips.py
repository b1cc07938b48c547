"""Which tests may be skipped: test/expected_skips.toml says it, by what an environment may lack.

A test that is skipped for any other reason fails, and so does one whose environment has what it is
said to lack: else a test would be lost, and nobody would hear of it.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "test" / "expected_skips.toml"


@dataclass(frozen=True)
class Expected:
    """Tests that are skipped where something is lacking."""

    lacks: str
    # Patterns from the beginning: of the stage and the name of a test, and of the reason it gives.
    tests: str
    reason: str
    # A command of the shell, which succeeds where it is not lacking. None: that is not asked.
    there: str = ""

    def is_lacking(self) -> bool:
        return not self.there or not succeeds(self.there)


@cache
def succeeds(command: str) -> bool:
    return subprocess.run(["sh", "-c", command], capture_output=True).returncode == 0


def read(table: Path = TABLE) -> list[Expected]:
    return [Expected(**entry) for entry in tomllib.loads(table.read_text())["expected"]]


def unexpected(
    skips: Iterable[tuple[str, str, str]], table: list[Expected] | None = None
) -> list[str]:
    """What is wrong, of skips by their stage, the test's name and its reason."""
    expected = read() if table is None else table
    return [wrong for skip in skips if (wrong := problem(*skip, expected))]


def problem(stage: str, name: str, reason: str, table: list[Expected]) -> str:
    test = f"{stage}: {name}"
    found = [each for each in table if re.match(each.tests, test) and re.match(each.reason, reason)]
    if not found:
        return f"{test}: skipped, which {TABLE.name} does not expect: {reason}"
    if not any(each.is_lacking() for each in found):
        return f"{test}: skipped ({reason}), though this is here: {found[0].lacks}"
    return ""
