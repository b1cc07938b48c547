#!/usr/bin/env python3
"""Which lines and branches of src/ the tests come to, and a list of what nothing comes to.

Runs the unit, surface and storm tests of the preset `coverage`, under each owner, and some programs
with the library preloaded. Whether tests pass is what other stages ask; here a test that fails
counts as far as it came. Counters are in files that processes share, as the preset says, so that
those count, too, that end by a signal. They find these files without the environment: the library
is in a program before libc is. A branch has two sides, and each of them is counted.

build/coverage/unreached.txt lists the functions that nothing comes to, and of all others the sides
of branches. A floor whose share of branches fell by more than a point below what
test/coverage.toml says fails the run; --record writes that file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
PROFILES = BUILD / "profiles"  # as the preset says
UNREACHED = BUILD / "unreached.txt"
RECORD = ROOT / "test" / "coverage.toml"
# A draw, an address or a thread's luck may take another branch.
SLACK_PERCENT = 1.0

# Each has the settings that it adds, and what ctest is to run. Tests of an owner choose it
# themselves, and others are about what does not depend on it.
RUNS: tuple[tuple[dict[str, str], str], ...] = (
    ({}, "^(unit|surface|storm)$"),
    ({"LOFT_OWNER": "cpu"}, "^(surface|storm)$"),
    ({"LOFT_OWNER": "shared"}, "^(surface|storm)$"),
)
PROGRAMS = (
    ["python3", "-c", "import json, threading; print(json.loads('[1, 2]'))"],
    ["perl", "-e", 'my %h = map { $_ => "x" x $_ } 1..3000; print scalar keys %h'],
    ["bash", "-c", "for i in 1 2 3; do (echo $i | sort); done"],
)
CTEST_SAYS = re.compile(r"^ *\d+/(\d+) Test +#\d+: .*?(Passed|\*\*\*)", re.MULTILINE)


# ---- The runs ------------------------------------------------------------------------------------


def ctest(labels: str, *words: str) -> list[str]:
    return ["ctest", "--test-dir", str(BUILD), "-L", labels, "-LE", "^machine$", *words]


def run_tests(owner: Mapping[str, str], labels: str, progress: Progress, step: TaskID) -> int:
    """Returns how many did not pass."""
    failed = 0
    jobs = f"-j{2 * (os.cpu_count() or 1)}"
    with subprocess.Popen(
        ctest(labels, jobs),
        env={**os.environ, **owner},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if said := CTEST_SAYS.match(line):
                progress.update(step, advance=1, total=int(said[1]))
                failed += said[2] != "Passed" and "Skipped" not in line
    return failed


def run_programs() -> None:
    settings = {**os.environ, "LD_PRELOAD": str(BUILD / "libloft.so")}
    for command in PROGRAMS:
        subprocess.run(command, env=settings, stdout=subprocess.DEVNULL, check=True, timeout=300)


def programs_of(told: Mapping[str, Any]) -> list[Path]:
    """All that ctest starts, as `ctest --show-only=json-v1` tells of it."""
    return sorted({Path(test["command"][0]) for test in told["tests"]})


def export(log: Path) -> dict[str, Any]:
    """What llvm-cov says of src/."""
    merged = BUILD / "merged.profdata"
    raw = sorted(str(path) for path in PROFILES.glob("*.profraw"))
    subprocess.run(["llvm-profdata-19", "merge", "-sparse", "-o", merged, *raw], check=True)
    labels = RUNS[0][1]
    told = subprocess.run(
        ctest(labels, "--show-only=json-v1"), stdout=subprocess.PIPE, check=True, text=True
    )
    first, *others = [*programs_of(json.loads(told.stdout)), BUILD / "libloft.so"]
    objects = [f"-object={each}" for each in others]
    command = ["llvm-cov-19", "export", f"-instr-profile={merged}", str(first), *objects]
    with log.open("w") as complaints:
        said = subprocess.run(
            [*command, str(ROOT / "src")], stdout=subprocess.PIPE, stderr=complaints, check=True
        )
    exported: dict[str, Any] = json.loads(said.stdout)
    return exported


# ---- What they say -------------------------------------------------------------------------------

Span = tuple[int, int, int, int]


@dataclass
class File:
    """One of the sources: of each place, what any program has counted there."""

    lines: int = 0
    lines_reached: int = 0
    branches: dict[Span, tuple[int, int]] = field(default_factory=dict)
    functions: dict[Span, tuple[str, int]] = field(default_factory=dict)

    def sides(self) -> int:
        return 2 * len(self.branches)

    def sides_reached(self) -> int:
        return sum((true > 0) + (false > 0) for true, false in self.branches.values())


def read(exported: Mapping[str, Any], source: Path) -> dict[str, File]:
    """By its path below src/."""
    files: dict[str, File] = defaultdict(File)
    for data in exported["data"]:
        for told in data["files"]:
            name = below(told["filename"], source)
            if name is not None:
                files[name].lines = told["summary"]["lines"]["count"]
                files[name].lines_reached = told["summary"]["lines"]["covered"]
                add_branches(files[name], told["branches"])
        for told in data["functions"]:
            name = below(told["filenames"][0], source)
            if name is not None:
                add_function(files[name], told)
    return files


def below(path: str, source: Path) -> str | None:
    return str(Path(path).relative_to(source)) if Path(path).is_relative_to(source) else None


def add_branches(file: File, branches: Iterable[Sequence[int]]) -> None:
    """Of a template, or of a function in a header, there is one for each of its forms."""
    for line, column, last_line, last_column, true, false, *_ in branches:
        span = (line, column, last_line, last_column)
        before = file.branches.get(span, (0, 0))
        file.branches[span] = (before[0] + true, before[1] + false)


def add_function(file: File, told: Mapping[str, Any]) -> None:
    line, column, last_line, last_column, *_ = told["regions"][0]
    span = (line, column, last_line, last_column)
    name, count = file.functions.get(span, (told["name"], 0))
    # The shortest is that of a template's first form.
    file.functions[span] = (min(name, told["name"], key=len), count + told["count"])


def share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


@dataclass
class Floor:
    lines: int = 0
    lines_reached: int = 0
    sides: int = 0
    sides_reached: int = 0
    functions: int = 0
    functions_reached: int = 0

    def add(self, file: File) -> None:
        self.lines += file.lines
        self.lines_reached += file.lines_reached
        self.sides += file.sides()
        self.sides_reached += file.sides_reached()
        self.functions += len(file.functions)
        self.functions_reached += sum(count > 0 for _, count in file.functions.values())

    def row(self) -> tuple[str, ...]:
        return (
            str(self.lines),
            f"{share(self.lines_reached, self.lines):.1f} %",
            f"{self.functions - self.functions_reached} of {self.functions}",
            str(self.sides),
            f"{share(self.sides_reached, self.sides):.1f} %",
        )


def by_floor(files: Mapping[str, File]) -> dict[str, Floor]:
    floors: dict[str, Floor] = defaultdict(Floor)
    for name, file in sorted(files.items()):
        floors[name.partition("/")[0]].add(file)
    return floors


def unreached(files: Mapping[str, File], source: Path) -> Iterator[str]:
    """Functions, and of those that are reached, the sides of branches."""
    for name, file in sorted(files.items()):
        lines = (source / name).read_text().splitlines()
        dark = [span for span, (_, count) in file.functions.items() if count == 0]
        for span in sorted(dark):
            yield f"src/{name}:{span[0]}: function {file.functions[span][0]}"
        for span, (true, false) in sorted(file.branches.items()):
            if any(around[:2] <= span[:2] < around[2:] for around in dark):
                continue
            missing = [side for side, count in (("true", true), ("false", false)) if count == 0]
            if missing:
                text = lines[span[0] - 1][span[1] - 1 :]
                text = text[: span[3] - span[1]] if span[0] == span[2] else f"{text} ..."
                never = "reached" if len(missing) == 2 else missing[0]
                yield f"src/{name}:{span[0]}:{span[1]}: never {never}: {text}"


def demangled(lines: Iterable[str]) -> str:
    mangled = "".join(f"{line}\n" for line in lines)
    command = ["llvm-cxxfilt-19"]
    return subprocess.run(
        command, input=mangled, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def fallen(floors: Mapping[str, Floor], recorded: Mapping[str, float]) -> list[str]:
    wrong = []
    for name, floor in floors.items():
        now = share(floor.sides_reached, floor.sides)
        if name not in recorded:
            wrong.append(f"src/{name}: not in {RECORD.name}")
        elif now < recorded[name] - SLACK_PERCENT:
            wrong.append(f"src/{name}: {now:.1f} % of the branches; {recorded[name]} % before")
    wrong += [f"src/{name}: in {RECORD.name}, and gone" for name in recorded if name not in floors]
    return wrong


def record(floors: Mapping[str, Floor]) -> str:
    head = (
        "# The share of branches' sides, in percent, that the tests come to. A floor that falls by"
        " more than\n# a point fails `make coverage`; `tools/cover.py --record` writes this.\n"
    )
    shares = {name: share(each.sides_reached, each.sides) for name, each in floors.items()}
    return head + "".join(f"{name} = {percent:.1f}\n" for name, percent in shares.items())


def run_all(console: Console) -> dict[str, File]:
    shutil.rmtree(PROFILES, ignore_errors=True)
    PROFILES.mkdir(parents=True)
    with Progress(console=console) as progress:
        for owner, labels in RUNS:
            name = " ".join(owner.values()) or "tests"
            step = progress.add_task(name, total=None)
            if failed := run_tests(owner, labels, progress, step):
                progress.print(f"{name}: {failed} did not pass")
        step = progress.add_task("programs", total=1)
        run_programs()
        progress.advance(step)
        step = progress.add_task("llvm-cov", total=1)
        files = read(export(BUILD / "llvm-cov.log"), ROOT / "src")
        progress.advance(step)
    return files


def table_of(floors: Mapping[str, Floor], files: Mapping[str, File]) -> Table:
    table = Table("floor", "lines", "reached", "functions never", "branches", "reached")
    whole = Floor()
    for file in files.values():
        whole.add(file)
    for name, floor in [*floors.items(), ("all", whole)]:
        table.add_row(name, *floor.row())
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name} anew")
    arguments = parser.parse_args()
    console = Console()
    files = run_all(console)
    floors = by_floor(files)
    console.print(table_of(floors, files))
    listed = demangled(unreached(files, ROOT / "src"))
    UNREACHED.write_text(listed)
    count = listed.count("\n")
    console.print(f"{UNREACHED.relative_to(ROOT)}: {count} functions and sides of branches")
    if arguments.record:
        RECORD.write_text(record(floors))
    wrong = fallen(floors, tomllib.loads(RECORD.read_text()))
    for line in wrong:
        console.print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
