#!/usr/bin/env python3
"""The gate: runs the stages one after another, or some side by side, and adds up what passed.

Each stage is one question about the tree: is it formatted, does it hold under the thread sanitizer,
do real programs run under it. A stage that fails does not stop the others, so that one run tells
everything; its log is printed and kept in build/logs. The last line is the sum over all stages.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from junit import Count, read_cargo, read_junit, slowest

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
PROCESSORS = os.cpu_count() or 1
JOBS = str(PROCESSORS)
# Many tests wait, and those that need two processors are counted as two.
TEST_JOBS = str(2 * PROCESSORS)
CXX_FOLDERS = ("src", "include", "test", "bench", "papers", "python")
LOG_TAIL_LINES = 120
OWNERS = ("core", "room")  # those that are not the library's own choice
# Far above what any step of a stage takes on a machine that is slow and busy: it only ends one that
# hangs.
STAGE_TIMEOUT_S = 3 * 3600
PRINTING = Lock()


class StageFailed(Exception):
    """A step of a stage that is not a test, such as the build, failed."""


@dataclass
class Stage:
    """What one stage has done so far; its steps add to `count` and write to the log."""

    name: str
    fix: bool = False
    count: Count = field(default_factory=Count)

    @property
    def log_path(self) -> Path:
        return LOGS / f"{self.name}.log"

    def run(self, *command: str | Path) -> int:
        """Runs one command into the log and returns its exit status."""
        with self.log_path.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            try:
                return subprocess.run(
                    [str(part) for part in command],
                    cwd=ROOT,
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

    def need(self, *command: str | Path) -> None:
        """A command without which the rest of the stage makes no sense."""
        if self.run(*command) != 0:
            raise StageFailed(" ".join(map(str, command)))

    def check(self, *command: str | Path) -> None:
        """A command that is one check: it passes or it fails."""
        ok = self.run(*command) == 0
        wrong = [] if ok else [f"{self.name}: {' '.join(map(str, command[:3]))}"]
        self.count.add(Count(passed=int(ok), failed=int(not ok), failures=wrong))

    def junit(self, report: Path, *command: str | Path) -> None:
        """A test runner that leaves a JUnit report; a bad exit is a failure whatever it says."""
        report.unlink(missing_ok=True)
        status = self.run(*command)
        self.add(status, read_junit(report, self.name))

    def cargo(self, *command: str | Path) -> None:
        """The same of tests in Rust, which say in the log what became of them."""
        before = self.log_path.stat().st_size
        status = self.run(*command)
        printed = self.log_path.read_bytes()[before:].decode(errors="replace")
        self.add(status, read_cargo(printed))

    def add(self, status: int, counted: Count) -> None:
        if status != 0 and not counted.failures:
            counted.failed = max(1, counted.failed)
            counted.failures.append(f"{self.name}: its runner ended with {status}")
        if status == 0 and counted.passed == 0:
            raise StageFailed("no test ran")
        self.count.add(counted)


def sources(suffixes: Sequence[str]) -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for folder in CXX_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes
    )


def options(stage: Stage) -> None:
    mode = [] if stage.fix else ["--check"]
    stage.check(sys.executable, "tools/gen_options_doc.py", *mode)


def formatting(stage: Stage) -> None:
    mode = ["-i"] if stage.fix else ["--dry-run", "--Werror"]
    stage.check("clang-format-19", *mode, *sources((".cc", ".h", ".hpp")))
    ruff = Path(sys.executable).parent / "ruff"
    if stage.fix:
        stage.run(ruff, "check", "--fix", ".")
    stage.check(ruff, "format", *([] if stage.fix else ["--check"]), ".")


def python(stage: Stage) -> None:
    bin_folder = Path(sys.executable).parent
    stage.check(bin_folder / "ruff", "check", ".")
    tests = ("tools", "programs", "bench", "elsewhere", "fuzz", "cli", "suites")
    for folder in ("tools", "bench", "python/loft", "test", *(f"test/{name}" for name in tests)):
        stage.check(bin_folder / "mypy", *sorted((ROOT / folder).glob("*.py")))


def pytest(stage: Stage, *what: str, settings: Sequence[str] = ()) -> None:
    report = LOGS / f"{stage.name}.xml"
    run = (sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *what)
    stage.junit(report, "env", *settings, *run)


def need_release(stage: Stage, *targets: str) -> None:
    stage.need(sys.executable, "tools/release.py", *targets)


def tests(*what: str, targets: Sequence[str] = ("loft_shared",)) -> Callable[[Stage], None]:
    """Tests in Python, with what the release build has to have for them."""

    def run(stage: Stage) -> None:
        if targets:
            need_release(stage, *targets)
        pytest(stage, *what)

    return run


def weak(stage: Stage) -> None:
    if shutil.which("cargo") is None:
        raise StageFailed("there is no cargo; `tools/setup.sh test` installs it")
    crate = ["--manifest-path", "test/weak/Cargo.toml", "--locked"]
    # The one step that may need a network.
    if stage.run("cargo", "fetch", *crate) != 0:
        print("  weak: skipped: cargo cannot fetch what test/weak/Cargo.lock names, loom for one")
        stage.count.add(Count(skipped=1))
        return
    stage.cargo("cargo", "test", *crate, "--target-dir", "build/weak", "--offline")


# Allows no more memory than there is, to every process of the machine.
STRICT = "test/programs/test_memory_refused.py"


def owners(stage: Stage) -> None:
    """What programs print, what stops them, and their beginnings and ends, under the policies that
    are not the library's own choice. Python's tests with its own arenas ask for little."""
    need_release(stage, "loft_shared")
    names = ("same_output", "misuse", "life_and_death")
    files = [f"test/programs/test_{name}.py" for name in names]
    chosen = "(not python or malloc) and not subprocess and not address_space"

    # Stages of their own, so that they can run at a time: programs wait more than they compute.
    parts = [Stage(f"{stage.name}-{owner}") for owner in OWNERS]

    def run(part: Stage, owner: str) -> None:
        part.log_path.write_text("")
        pytest(part, *files, "-k", chosen, settings=[f"LOFT_OWNER={owner}"])

    with ThreadPoolExecutor() as pool:
        list(pool.map(run, parts, OWNERS))
    for part in parts:
        stage.count.add(part.count)
        stage.run("cat", part.log_path)


def fuzz(stage: Stage) -> None:
    stage.need("cmake", "--preset", "fuzz")
    stage.need("cmake", "--build", "--preset", "fuzz")
    pytest(stage, "test/fuzz")


def preset(name: str, *kinds: str) -> Callable[[Stage], None]:
    """Builds and runs the tests of these kinds, which CMake has targets and labels for; or all."""
    targets = ["loft_shared", "loft_static"] + [f"loft_tests_{kind}" for kind in kinds]
    chosen = ("--target", *targets) if kinds else ()
    labels = ("-L", f"^({'|'.join(kinds)})$") if kinds else ()

    def build_and_test(stage: Stage) -> None:
        stage.need("cmake", "--preset", name)
        stage.need("cmake", "--build", "--preset", name, *chosen)
        report = LOGS / f"{stage.name}.xml"
        tests = ("ctest", "--preset", name, "-j", TEST_JOBS, "--output-junit", report, *labels)
        stage.junit(report, *tests)

    return build_and_test


def tidy(stage: Stage) -> None:
    # The tests' macros expand to what clang-tidy dislikes; the library is what it reads.
    stage.need("cmake", "--preset", "clang")
    stage.check(
        "run-clang-tidy-19", "-quiet", "-j", JOBS, "-p", "build/clang", f"^{ROOT}/src/.*\\.cc$"
    )


STAGES: dict[str, tuple[str, Callable[[Stage], None]]] = {
    "includes": (
        "the floors include downwards only",
        lambda stage: stage.check(sys.executable, "tools/check_includes.py"),
    ),
    "options": ("the document of the options is its table's", options),
    "format": ("the code is formatted", formatting),
    "python": ("the scripts are clean and typed", python),
    # What each of these says that no other does: the compiled library as g++ makes it, and as clang
    # does; interleavings at full speed with every invariant checked; memory that is misused, under
    # each owner; races. A floor by itself needs no invariants at full speed and no second compiler:
    # `asan` runs the unit tests with all invariants, by clang.
    "release": ("g++, as shipped: unit, surface and storm tests", preset("release")),
    "tools": (
        "the scripts, the single file and the built library",
        tests("test/tools", targets=()),
    ),
    "cli": (
        "the command: run, compare, doctor, and its wheel",
        tests("test/cli", targets=("loft_shared", "loft_launch", "loft_hold")),
    ),
    "bench": ("every benchmark program does what it says", tests("test/bench")),
    "weak": (
        "a second opinion on the atomics' orders: loom explores what the C++ memory model allows",
        weak,
    ),
    "debug": (
        "g++, every invariant checked: surface, storm, model",
        preset("debug", "surface", "storm", "model"),
    ),
    "clang": (
        "clang, as shipped: surface and storm tests",
        preset("clang", "surface", "storm", "papers"),
    ),
    "asan": ("clang, sanitizers and every invariant: unit, storms of every owner", preset("asan")),
    "tsan": ("clang, thread sanitizer: what has threads", preset("tsan")),
    "fuzz": ("fuzzers of calls, options, group texts and messages", fuzz),
    "tidy": ("clang-tidy", tidy),
    "programs": (
        "real programs under LD_PRELOAD",
        tests("test/programs", f"--ignore={STRICT}"),
    ),
    "owners": ("the same where processors or a room own the heaps", owners),
    # The short cut; SUITES=long runs whole suites.
    "suites": ("other people's tests end under loft as under libc", tests("test/suites")),
    "elsewhere": (
        "with musl, and on an ARM processor that an emulator plays",
        tests("test/elsewhere", targets=()),
    ),
    "strict": ("where the system refuses memory; beside nothing else", tests(STRICT)),
}

# Stages of which each waits for something now and then: of a group, each beside the others.
TOGETHER = (
    ("tools", "cli", "bench", "weak"),
    ("programs", "owners", "suites", "elsewhere", "tidy"),
)


# What ctest says of tests that pass; a log is printed for the others.
QUIET = re.compile(r"\s*Start +\d+: |.* Passed +[\d.]+ sec$")


def print_log(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if not QUIET.match(line)]
    if len(lines) > LOG_TAIL_LINES:
        print(f"  ... {len(lines) - LOG_TAIL_LINES} lines before these are in {path}")
    for line in lines[-LOG_TAIL_LINES:]:
        print(f"  | {line}")


def run_stage(name: str, fix: bool) -> Count:
    stage = Stage(name, fix)
    stage.log_path.write_text("")
    started = time.monotonic()
    stopped_by = ""
    try:
        STAGES[name][1](stage)
    except StageFailed as error:
        stopped_by = str(error)
        stage.count.add(Count(failed=1, failures=[f"{name}: {stopped_by}"]))
    seconds = time.monotonic() - started
    with PRINTING:
        if stopped_by:
            print(f"  {name}: failed: {stopped_by}")
        if stage.count.failed:
            print_log(stage.log_path)
        # Not the closing line's form: only the sum at the end may be read as the result.
        print(f"  {name}: {stage.count} ({seconds:.0f} s)", flush=True)
    return stage.count


def groups(chosen: Sequence[str]) -> list[list[str]]:
    """The stages in their order, those that run side by side in one list."""
    found: list[list[str]] = []
    for name in chosen:
        beside = next((group for group in TOGETHER if name in group), ())
        if found and found[-1][0] in beside:
            found[-1].append(name)
        else:
            found.append([name])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="default: every stage")
    parser.add_argument("--list", action="store_true", help="list the stages and stop")
    parser.add_argument("--fix", action="store_true", help="let `format` rewrite the files")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (question, _) in STAGES.items():
            print(f"{name:10} {question}")
        return 0
    unknown = [name for name in arguments.stages if name not in STAGES]
    if unknown:
        parser.error(f"no stage named {', '.join(unknown)}; there are {', '.join(STAGES)}")
    chosen = arguments.stages or list(STAGES)
    # A shell's background job ignores it, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    LOGS.mkdir(parents=True, exist_ok=True)
    total = Count()
    number = 0
    for group in groups(chosen):
        for name in group:
            number += 1
            print(f"[{number}/{len(chosen)}] {name}: {STAGES[name][0]}", flush=True)
        with ThreadPoolExecutor(len(group)) as pool:
            for count in pool.map(lambda name: run_stage(name, arguments.fix), group):
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
