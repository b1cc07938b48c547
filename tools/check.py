#!/usr/bin/env python3
"""The gate: runs the stages of tools/stages.toml one after another, or some side by side, and adds
up what passed.

Each stage is one question about the tree: is it formatted, does it hold under the thread sanitizer,
do real programs run under it. A stage that fails does not stop the others, so that one run tells
everything; its log is printed and kept in build/logs. The last line is the sum over all stages.
"""

import argparse
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from junit import Count, read_cargo, read_junit, slowest

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
PROCESSORS = os.cpu_count() or 1
PLACES = {
    "root": str(ROOT),
    "python": sys.executable,
    "bin": str(Path(sys.executable).parent),
    "jobs": str(PROCESSORS),
}
CXX_FOLDERS = ("src", "include", "test", "bench", "papers", "python")
CXX_ENDS = (".cc", ".h", ".hpp")
LOG_TAIL_LINES = 120
# Far above what any step of a stage takes on a machine that is slow and busy: it only ends one that
# hangs.
STAGE_TIMEOUT_S = 3 * 3600
PRINTING = Lock()
# What ctest says of tests that pass; a log is printed for the others.
QUIET = re.compile(r"\s*Start +\d+: |.* Passed +[\d.]+ sec$")


class StageFailed(Exception):
    """A step of a stage that is not a test, such as the build, failed."""


def files(patterns: Iterable[str]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for each in patterns for path in ROOT.glob(each))


def words_of(command: str, report: Path) -> Iterator[str]:
    for word in shlex.split(command):
        if word == "{sources}":
            yield from files(f"{folder}/**/*{end}" for folder in CXX_FOLDERS for end in CXX_ENDS)
        elif "/*" in word:
            yield from files([word])
        else:
            yield word.format(**PLACES, report=report)


@dataclass
class Stage:
    """A stage as stages.toml describes it, and what it has done so far."""

    name: str
    asks: str
    beside: str = ""
    needs: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    fix: list[str] = field(default_factory=list)
    preset: str = ""
    kinds: list[str] = field(default_factory=list)
    pytest: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    cargo: str = ""
    count: Count = field(default_factory=Count)

    def run(self, command: str) -> int:
        """Runs one command into the log and returns its exit status."""
        words = list(words_of(command, self.report()))
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
                    timeout=STAGE_TIMEOUT_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                log.write(f"ended after {STAGE_TIMEOUT_S} s\n")
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
        self.add(status, read_junit(self.report(), self.name))

    def add(self, status: int, counted: Count) -> None:
        if status != 0 and not counted.failures:
            counted.failed = max(1, counted.failed)
            counted.failures.append(f"{self.name}: its runner ended with {status}")
        if status == 0 and counted.passed == 0:
            raise StageFailed("no test ran")
        self.count.add(counted)

    def steps(self, fix: bool) -> None:
        for command in self.needs:
            self.need(command)
        for command in self.fix if fix and self.fix else self.checks:
            self.check(command)
        if self.preset:
            targets = ["loft_shared", "loft_static", *(f"loft_tests_{kind}" for kind in self.kinds)]
            chosen = f"--target {' '.join(targets)}" if self.kinds else ""
            labels = f"-L '^({'|'.join(self.kinds)})$'" if self.kinds else ""
            self.need(f"cmake --preset {self.preset}")
            self.need(f"cmake --build --preset {self.preset} {chosen}")
            # Many tests wait, and those that need two processors are counted as two.
            jobs = f"-j {2 * PROCESSORS}"
            self.junit(f"ctest --preset {self.preset} {jobs} --output-junit {{report}} {labels}")
        if self.pytest:
            self.junit(f"{{python}} -m pytest -q --junitxml={{report}} {self.pytest}")
        if self.cargo:
            self.run_cargo()

    def run_cargo(self) -> None:
        if shutil.which("cargo") is None:
            raise StageFailed("there is no cargo; `tools/setup.sh test` installs it")
        crate = f"--manifest-path {self.cargo}/Cargo.toml --locked"
        # The one step that may need a network.
        if self.run(f"cargo fetch {crate}") != 0:
            lock = f"{self.cargo}/Cargo.lock"
            print(f"  {self.name}: skipped: cargo cannot fetch what {lock} names, loom for one")
            self.count.add(Count(skipped=1))
            return
        before = self.log().stat().st_size
        status = self.run(f"cargo test {crate} --target-dir build/{self.name} --offline")
        printed = self.log().read_bytes()[before:].decode(errors="replace")
        self.add(status, read_cargo(printed))

    def go(self, fix: bool) -> Count:
        self.log().write_text("")
        started = time.monotonic()
        stopped_by = ""
        try:
            self.steps(fix)
        except StageFailed as error:
            stopped_by = str(error)
            self.count.add(Count(failed=1, failures=[f"{self.name}: {stopped_by}"]))
        seconds = time.monotonic() - started
        with PRINTING:
            if stopped_by:
                print(f"  {self.name}: failed: {stopped_by}")
            if self.count.failed:
                print_log(self.log())
            # Not the closing line's form: only the sum at the end may be read as the result.
            print(f"  {self.name}: {self.count} ({seconds:.0f} s)", flush=True)
        return self.count


def print_log(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if not QUIET.match(line)]
    if len(lines) > LOG_TAIL_LINES:
        print(f"  ... {len(lines) - LOG_TAIL_LINES} lines before these are in {path}")
    for line in lines[-LOG_TAIL_LINES:]:
        print(f"  | {line}")


def main() -> int:
    written = tomllib.loads((ROOT / "tools" / "stages.toml").read_text(encoding="utf-8"))
    stages = {name: Stage(name, **told) for name, told in written.items()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="default: every stage")
    parser.add_argument("--list", action="store_true", help="list the stages and stop")
    parser.add_argument("--fix", action="store_true", help="let `format` rewrite the files")
    arguments = parser.parse_args()
    if arguments.list:
        for stage in stages.values():
            print(f"{stage.name:10} {stage.asks}")
        return 0
    unknown = [name for name in arguments.stages if name not in stages]
    if unknown:
        parser.error(f"no stage named {', '.join(unknown)}; there are {', '.join(stages)}")
    chosen = [stages[name] for name in arguments.stages or stages]
    # A shell's background job ignores it, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    LOGS.mkdir(parents=True, exist_ok=True)
    total = Count()
    started = 0
    for _, together in itertools.groupby(chosen, lambda stage: stage.beside or stage.name):
        group = list(together)
        for stage in group:
            started += 1
            print(f"[{started}/{len(chosen)}] {stage.name}: {stage.asks}", flush=True)
        with ThreadPoolExecutor(len(group)) as pool:
            for count in pool.map(lambda stage: stage.go(arguments.fix), group):
                total.add(count)
    if total.times:
        print("the slowest tests:")
        print("\n".join(slowest(total.times)))
    # Again, and last: who reads a log that was cut finds them here.
    for failure in total.failures:
        print(f"failed: {failure}")
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
