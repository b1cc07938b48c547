"""Real programs do under any two values of any two options what they do without loft.

All combinations would be more than 10^15. Most faults of options show with one value, or with two
that meet: a covering array has each pair of values in one of its runs, and each value with each
program. It follows from the library's own table of options, and is the same each time.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from allpairspy import AllPairs  # type: ignore[import-untyped]
from gen_options_doc import TABLE, read_table
from programs import PROGRAMS, Program, Reference, differences, run

OPTIONS = read_table(TABLE.read_text())

# Stands for a folder of the run's own.
FOLDER = "FOLDER"
# Of options that are no choice of words, those values that lead to another course of things, the
# default among them.
VALUES = {
    # Nothing is said of misuse, as there is none: the file is not even made.
    "report_file": ["none", f"{FOLDER}/report-%p"],
    # No cache at all, one that is full at once, and one that hardly ever is.
    "cache_bytes": ["0", "64K", "4M"],
    # Each free span goes back to the system, or none does.
    "dirty_bytes": ["0", "256M"],
    # Nothing is purged by time; all of it in the middle of what the program does; or after that.
    "decay_ms": ["0", "1", "500"],
    # Less than any of the programs has, so that all of them run beyond it.
    "soft_limit": ["0", "4M"],
    # More than any of them has: the limit counts, and refuses nothing.
    "hard_limit": ["0", "4G"],
    # Some hundred samples in each program, and a few.
    "sample_bytes": ["16K", "512K"],
    # Written, in either format; or the profile is taken and thrown away.
    "profile_file": ["none", f"{FOLDER}/profile-%p", f"{FOLDER}/profile-%p.collapsed"],
    # A handler is there; nobody sends the signal.
    "profile_signal": ["none", "USR2"],
    "socket": ["none", f"{FOLDER}/%p"],
}

# With threads (sort, git, node), with children (git, find, bash), and with one thread for all.
WANTED = ("sqlite3", "git", "python-json-malloc", "perl", "php", "sort", "find", "bash", "node")
CHOSEN = {program.name: program for program in PROGRAMS if program.name in WANTED}
# Statistics go to standard error, which this class compares with nothing.
CHOSEN["python-json-malloc"] = replace(
    CHOSEN["python-json-malloc"],
    script=CHOSEN["python-json-malloc"].script.replace(" test -v ", " test -v --ignore TestTool "),
)

Row = dict[str, str]

# The library refuses no pair of values, so all of them are in it.
PARAMETERS: dict[str, list[str]] = {
    "program": list(CHOSEN),
    **{name: VALUES.get(name) or option.choices for name, option in OPTIONS.items()},
}
ROWS: list[Row] = [
    dict(zip(PARAMETERS, row, strict=True)) for row in AllPairs(list(PARAMETERS.values()))
]

# What the option `stats` prints of one process.
FIRST = "# HELP loft_resident_bytes "
STATISTICS = {
    # The version, and then tables: lines that are indented, below a heading and an empty line.
    "text": re.compile(r"^loft \d+\.\d+\.\d+\..*\n(?:\n[A-Z].*\n(?:  .*\n)+)+", re.MULTILINE),
    "json": re.compile(r'^\{"loft": ".*\}\n', re.MULTILINE),
    "prometheus": re.compile(
        rf"^{FIRST}.*\n(?:(?!{FIRST})(?:# (?:HELP|TYPE) )?loft_.*\n)+", re.MULTILINE
    ),
}
# Of one pair of values each process says that the second does nothing.
USELESS = "loft: cgroup=watch does what cgroup=soft does: it needs background=on\n"
# So git tells what the other end has written to standard error.
RELAYED = re.compile(r"^remote: (.*?) *$", re.MULTILINE)


def number_of(text: str) -> str:
    """Bytes as the library tells them: without a suffix."""
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1])
    return text if shift is None or not text[:-1].isdigit() else str(int(text[:-1]) << shift)


@pytest.fixture
def folder() -> Iterator[Path]:
    # A socket's address is short, and of pytest's own folders some are too long.
    with tempfile.TemporaryDirectory(prefix="loft") as path:
        yield Path(path)


def test_each_option_is_in_it() -> None:
    assert set(VALUES) == {name for name, option in OPTIONS.items() if not option.choices}
    assert set(CHOSEN) == set(WANTED)


def test_each_pair_of_values_is_in_it() -> None:
    wanted = {
        ((first, one), (second, other))
        for first, second in combinations(PARAMETERS, 2)
        for one in PARAMETERS[first]
        for other in PARAMETERS[second]
    }
    covered = {pair for row in ROWS for pair in combinations(row.items(), 2)}
    assert covered == wanted


@pytest.mark.night
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['program']}-{row['owner']}")
def test_pairs(row: Row, lib: Path, inputs: Path, reference: Reference, folder: Path) -> None:
    program = CHOSEN[row["program"]]
    settings = {
        name: value.replace(FOLDER, str(folder)) for name, value in row.items() if name in OPTIONS
    }
    told = folder / "told.json"
    ours = with_options(program, settings, told)
    expected = reference(program)
    under_loft = run(ours, folder / "run", inputs, lib)
    assert json.loads(told.read_text()) == {
        name: number_of(value) if OPTIONS[name].unit == "bytes" else value
        for name, value in settings.items()
    } | ({"profile_signal": "12"} if settings["profile_signal"] == "USR2" else {})
    printed = STATISTICS.get(settings["stats"])
    if printed is not None:
        rest, processes = printed.subn("", RELAYED.sub(r"\1", under_loft.stderr))
        assert processes > 1, "the process that told its options, and the program"
        under_loft = replace(under_loft, stderr=rest)
    if settings["cgroup"] == "watch" and settings["background"] == "off":
        told_by_git = RELAYED.sub(r"\1", under_loft.stderr)
        assert USELESS in told_by_git
        under_loft = replace(under_loft, stderr=told_by_git.replace(USELESS, ""))
    assert differences(program, under_loft, expected.result()) == []
    profiles = list(folder.glob("profile-*"))
    assert bool(profiles) == (settings["profile"] != "off" and settings["profile_file"] != "none")
    packed = [path for path in profiles if path.suffix != ".collapsed"]
    assert all(path.read_bytes().startswith(b"\x1f\x8b") for path in packed)
    assert list(folder.glob("report-*")) == []


def with_options(program: Program, settings: Row, told: Path) -> Program:
    """The same program under these settings, which a process beside it tells first."""
    ask = f'"$PYTHON" "$SOURCES/options.py" {" ".join(settings)} > {told}\n'
    env = {f"LOFT_{name.upper()}": value for name, value in settings.items()}
    return replace(program, script=ask + program.script, env={**program.env, **env})
