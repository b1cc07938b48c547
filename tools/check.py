#!/usr/bin/env python3
"""Runs the stages of tools/stages.toml: those of one tier, or those that are named.

    tools/check.py check|test              # before a commit; the gate
    tools/check.py night|weekly --part 3   # all else, in parts
    tools/check.py release tsan            # stages by name

Each stage is one question about the tree: is it formatted, does it hold under the thread sanitizer,
do real programs run under it. They run one after another, each on all processors. A stage that
fails does not stop the others; its log is printed and kept in build/logs. A skipped test fails
unless test/expected_skips.toml expects it. The last lines are a table of all stages, and the sum.
"""

import argparse
import json
import os
import re
import resource
import secrets
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import parts
import skips
from junit import Count, read_junit, slowest

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
PROCESSORS = len(os.sched_getaffinity(0))
PLACES = {
    "root": str(ROOT),
    "python": sys.executable,
    "bin": str(Path(sys.executable).parent),
    "jobs": str(PROCESSORS),
}
CXX_FILES = [
    f"{folder}/**/*{end}"
    for folder in ("src", "inspect", "include", "test", "bench", "papers", "python")
    for end in (".cc", ".h", ".hpp")
]
LOG_TAIL_LINES = 120
LOG_LINE = 300  # characters; a command may name hundreds of files
# Far above what any step takes on a machine that is slow and busy: it only ends one that hangs.
STEP_TIMEOUT_S = 3 * 3600
# Of processor time: what no test takes, unless it goes round for ever. As in test/conftest.py.
GATE_TEST_S = 60
OTHER_TEST_S = 900
# What ctest says of tests that pass; a log is printed for the others.
QUIET = re.compile(r"\s*Start +\d+: |.* Passed +[\d.]+ sec$")
TIERS = ("check", "test", "night", "weekly")


class StageFailed(Exception):
    """A step of a stage that is not a test, such as the build, failed."""


def files(patterns: Iterable[str]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for each in patterns for path in ROOT.glob(each))


@dataclass
class Stage:
    """A stage as stages.toml describes it, and what it has done so far."""

    name: str
    asks: str
    tier: str = ""
    night: int = 0
    weekly: int = 0
    paths: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    fix: list[str] = field(default_factory=list)
    preset: str = ""
    targets: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    without: str = ""
    repeat: int = 1
    around: str = ""
    pytest: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    count: Count = field(default_factory=Count)
    seconds: float = 0
    processor_seconds: float = 0

    def belongs_to(self, tier: str, part: int) -> bool:
        if tier == "check":
            return self.tier == "check"
        if tier == "test":
            return self.tier in ("check", "test")
        return part == {"night": self.night, "weekly": self.weekly}[tier]

    def is_due(self) -> bool:
        """Whether what it looks at has changed since it passed in its part of the night."""
        return not self.paths or parts.changed(self.night, self.paths) != []

    def words(self, command: str) -> Iterator[str]:
        for word in shlex.split(command):
            if word == "{sources}":
                yield from files(CXX_FILES)
            elif "/*" in word:
                yield from files([word])
            else:
                yield word.format(**PLACES, report=self.report())

    def run(self, command: str) -> int:
        """Runs one command into the log and returns its exit status."""
        words = list(self.words(command))
        with self.log().open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(words)}\n")
            log.flush()
            try:
                return subprocess.run(
                    words,
                    cwd=ROOT,
                    env={**os.environ, **self.settings},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=STEP_TIMEOUT_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                log.write(f"ended after {STEP_TIMEOUT_S} s\n")
                return 124
            except FileNotFoundError as error:
                log.write(f"{error}\n")
                return 127

    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def report(self) -> Path:
        return LOGS / f"{self.name}.xml"

    def need(self, command: str) -> None:
        if self.run(command) != 0:
            raise StageFailed(command)

    def check(self, command: str) -> None:
        ok = self.run(command) == 0
        wrong = [] if ok else [f"{self.name}: {command}"]
        self.count.add(Count(passed=int(ok), failed=int(not ok), failures=wrong))

    def junit(self, command: str) -> None:
        """A test runner that leaves a JUnit report; a bad exit is a failure whatever it says."""
        self.report().unlink(missing_ok=True)
        status = self.run(command)
        counted = read_junit(self.report(), self.name)
        if status != 0 and not counted.failures:
            counted.failed = max(1, counted.failed)
            counted.failures.append(f"{self.name}: its runner ended with {status}")
        if status == 0 and counted.passed == 0:
            raise StageFailed("no test ran")
        wrong = skips.unexpected(counted.skips)
        counted.failed += len(wrong)
        counted.failures += wrong
        self.count.add(counted)

    def steps(self, fix: bool) -> None:
        for command in self.needs:
            self.need(command)
        for command in self.fix if fix and self.fix else self.checks:
            self.check(command)
        if self.preset:
            self.need(f"cmake --preset {self.preset} --log-level=WARNING")
            chosen = f"--target {' '.join(self.targets)}" if self.targets else ""
            build = f"cmake --build --preset {self.preset} {chosen}"
            if self.labels:
                self.need(build)
            else:
                self.check(build)
        if self.labels:
            labels = " ".join(f"-L ^({label})$" for label in self.labels)
            without = f"-LE ^({self.without})$" if self.without else ""
            limit = f"prlimit --cpu={GATE_TEST_S if self.labels[0] == 'gate' else OTHER_TEST_S}"
            # A test that waits leaves its processor to others; one with two threads counts as two.
            run = f"ctest --preset {self.preset} -j {PROCESSORS + 1} --output-junit {{report}}"
            again = f"--repeat until-fail:{self.repeat}" if self.repeat > 1 else ""
            self.junit(f"{self.around} {limit} {run} {labels} {without} {again}")
        if self.pytest:
            workers = f"-n {PROCESSORS} --dist loadgroup"
            run = f"{{python}} -m pytest -q {workers} --junitxml={{report}}"
            self.junit(f"{self.around} {run} {self.pytest}")

    def go(self, fix: bool) -> Count:
        self.log().write_text("")
        started = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        stopped_by = ""
        try:
            self.steps(fix)
        except StageFailed as error:
            stopped_by = str(error)
            self.count.add(Count(failed=1, failures=[f"{self.name}: {stopped_by}"]))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = time.monotonic() - started
        self.processor_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if stopped_by:
            print(f"  {self.name}: failed: {stopped_by}")
        if self.count.failed:
            print_log(self.log())
        # Not the closing line's form: only the sum at the end may be read as the result.
        print(f"  {self.name}: {self.count} ({self.seconds:.0f} s)", flush=True)
        return self.count

    def row(self) -> dict[str, object]:
        return {
            "stage": self.name,
            "passed": self.count.passed,
            "failed": self.count.failed,
            "skipped": Counter(reason for _, _, reason in sorted(self.count.skips)),
            "seconds": round(self.seconds),
            "processor_seconds": round(self.processor_seconds),
        }


def print_log(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if not QUIET.match(line)]
    if len(lines) > LOG_TAIL_LINES:
        print(f"  ... {len(lines) - LOG_TAIL_LINES} lines before these are in {path}")
    for line in lines[-LOG_TAIL_LINES:]:
        print(f"  | {line[:LOG_LINE]}")


def run_all(stages: list[Stage], fix: bool) -> Count:
    LOGS.mkdir(parents=True, exist_ok=True)
    total = Count()
    for number, stage in enumerate(stages, 1):
        print(f"[{number}/{len(stages)}] {stage.name}: {stage.asks}", flush=True)
        total.add(stage.go(fix))
    return total


def known_stages() -> dict[str, Stage]:
    written = tomllib.loads((ROOT / "tools" / "stages.toml").read_text(encoding="utf-8"))
    return {name: Stage(name, **told) for name, told in written.items()}


def choose(words: list[str], part: int, parser: argparse.ArgumentParser) -> list[Stage]:
    stages = known_stages()
    if len(words) == 1 and words[0] in TIERS:
        tier = words[0]
        if tier in ("night", "weekly") and part not in parts.numbers(stages.values(), tier):
            has = ", ".join(map(str, parts.numbers(stages.values(), tier)))
            parser.error(f"{tier} has the parts {has}; choose one: make {tier} PART=1")
        return [stage for stage in stages.values() if stage.belongs_to(tier, part)]
    unknown = [name for name in words if name not in stages]
    if unknown:
        parser.error(f"no stage named {', '.join(unknown)}; there are {', '.join(stages)}")
    return [stages[name] for name in words]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="TIER|STAGE", default=["test"])
    parser.add_argument("--part", type=int, default=0, metavar="K", help="of the night or the week")
    parser.add_argument("--list", action="store_true", help="list the stages and stop")
    parser.add_argument(
        "--show",
        action="store_true",
        help="write the last table of `make test` into CONTRIBUTING.md",
    )
    parser.add_argument("--fix", action="store_true", help="let `format` rewrite the files")
    arguments = parser.parse_args()
    if arguments.list:
        for stage in known_stages().values():
            print(f"{stage.name:16} {parts.when(stage):24} {stage.asks}")
        return 0
    if arguments.show:
        parts.show(json.loads((LOGS / "test.json").read_text()))
        return 0
    chosen = choose(arguments.stages, arguments.part, parser)
    tier = arguments.stages[0] if arguments.stages[0] in TIERS else ""
    if tier == "test":
        for stage in [stage for stage in chosen if not stage.is_due()]:
            print(f"  {stage.name}: nothing that it looks at has changed since it passed")
            chosen.remove(stage)
    if tier in ("night", "weekly"):
        os.environ.setdefault("LOFT_TEST_SEED", str(secrets.randbits(64)))
        print(f"LOFT_TEST_SEED={os.environ['LOFT_TEST_SEED']}")
    # A shell's background job ignores it, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    total = run_all(chosen, arguments.fix)
    print("the slowest tests:")
    print("\n".join(slowest(total.times)))
    rows = [stage.row() for stage in chosen]
    if tier:
        name = f"{tier}{arguments.part or ''}"
        (LOGS / f"{name}.json").write_text(json.dumps(rows, indent=1))
    print("\n".join(parts.table(rows)))
    if tier in ("night", "weekly") and not total.failed:
        print(parts.record(tier, arguments.part, rows))
    if tier == "test":
        print("\n".join(parts.old(known_stages().values())))
    # Again, and last: who reads a log that was cut finds them here.
    for failure in total.failures:
        print(f"failed: {failure}")
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
