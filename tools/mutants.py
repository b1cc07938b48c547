#!/usr/bin/env python3
"""What tests do not notice: draws mutants of some folders of src/, and runs the tests with each.

A mutant is one small mistake in one place (tools/mutant_places.py). All that were drawn go into one
build of a copy of the tree, in build/mutants: MUTANT=7 in the environment makes the seventh live.
Each test runs once with none, and tells which mutants it comes to. Then each mutant meets the tests
that come to it, the shortest first, until one fails or takes far longer than it did. A mutant that
none of them notices survives: its change is in build/mutants/FOLDER. It is a test that is missing,
code that does nothing, or a change that makes no difference; somebody has to look.

The seed is printed, and draws the same mutants of the same tree again. It is another one each time,
so no survivor fails the run by itself: it fails if fewer die than test/mutants/floors.toml says.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import psutil
from mutant_places import Mutated, Place, places, with_mutants, with_one
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
WHERE = ROOT / "build" / "mutants"
TREE = WHERE / "tree"
BUILD = WHERE / "build"
FLOORS = ROOT / "test" / "mutants" / "floors.toml"
FOLDERS = ("remote", "heap", "cache", "space")
# What a build of the tests reads.
COPIED = ("CMakeLists.txt", "bounds", "cmake", "include", "inspect", "src", "test", "tools")
KINDS = ("unit", "storm")
# Labels of which each test has both.
LABELS = (f"^({'|'.join(KINDS)})$", "^(gate|keyed)$")
CONFIGURE = (
    "-GNinja",
    # One of its own: nobody debugs it, and to describe each type takes a third of the time.
    "-DCMAKE_BUILD_TYPE=Mutants",
    "-DCMAKE_CXX_FLAGS_MUTANTS=-O1",
    "-DCMAKE_CXX_COMPILER=clang++-19",
    "-DCMAKE_UNITY_BUILD=ON",
    "-DCMAKE_UNITY_BUILD_BATCH_SIZE=40",
    "-DLOFT_DEBUG=ON",
    "-DLOFT_BENCH=OFF",
    "-DLOFT_COMMAND=OFF",
    "-DLOFT_MODEL=OFF",
    "-DLOFT_PAPERS=OFF",
)
# A mistake is no constant any more, where one of the right size was.
FLAGS = ("-w", "-Wno-narrowing", "-include", str(TREE / "test" / "mutants" / "mutant.h"))

# A test that runs on is ended after this many times the processor time that it took without a
# mutant, and some seconds more.
PATIENCE = 10
SPARE_S = 2
# One that takes longer without a mutant is left out: it would have to meet most of them.
LONG_S = 5
# Somebody looks each second. What slept for so long, and used no processor time, sleeps for good;
# and after so long no test is at work any more.
ASLEEP_S = 15
LOST_S = 600
# Processor time for one mutant: what is left of its tests is not run.
ENOUGH_S = 30

COMPILER_SAYS = re.compile(r"^(.*?):(\d+):(\d+): (error|note): ", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    number: int
    file: str  # below src/
    place: Place

    @property
    def folder(self) -> str:
        return self.file.partition("/")[0]


@dataclass
class Draw:
    """Mutants of one folder in the order in which the seed draws them."""

    left: list[tuple[str, Place]]
    taken: set[tuple[str, int, int]] = field(default_factory=set)

    @classmethod
    def of(cls, folder: str, sources: Mapping[str, bytes], seed: int) -> Draw:
        within = [file for file in sorted(sources) if file.startswith(f"{folder}/")]
        possible = [(file, place) for file in within for place in places(sources[file])]
        random.Random(f"{seed} {folder}").shuffle(possible)
        return cls(possible[::-1])

    def next(self) -> tuple[str, Place] | None:
        """One of a place that had none yet, or None after the last."""
        while self.left:
            file, place = self.left.pop()
            span = (file, place.start, place.end)
            if span not in self.taken:
                self.taken.add(span)
                return file, place
        return None


@dataclass
class Drawn:
    """The mutants of all folders, and those that take the place of what does not compile."""

    draws: dict[str, Draw]
    mutants: dict[int, Mutant] = field(default_factory=dict)
    numbers: int = 0

    def add(self, folder: str) -> None:
        drawn = self.draws[folder].next()
        if drawn is not None:
            self.numbers += 1
            self.mutants[self.numbers] = Mutant(self.numbers, *drawn)

    def replace(self, number: int) -> None:
        self.add(self.mutants.pop(number).folder)

    def of_file(self, file: str) -> list[tuple[int, Place]]:
        return [(each.number, each.place) for each in self.mutants.values() if each.file == file]


def draw(folders: Sequence[str], sources: Mapping[str, bytes], seed: int, count: int) -> Drawn:
    drawn = Drawn({folder: Draw.of(folder, sources, seed) for folder in folders})
    for folder in folders:
        for _ in range(count):
            drawn.add(folder)
    return drawn


# ---- The build -----------------------------------------------------------------------------------


def update(path: Path, text: bytes) -> None:
    """What is the same keeps its time, and is not compiled again."""
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def copy_tree(written: Mapping[Path, bytes]) -> None:
    wanted = dict(written)
    for name in COPIED:
        top = ROOT / name
        for path in [top] if top.is_file() else [*top.rglob("*")]:
            if path.is_file() and "__pycache__" not in path.parts:
                wanted.setdefault(path.relative_to(ROOT), path.read_bytes())
    for old in [path for path in TREE.rglob("*") if path.is_file()]:
        if old.relative_to(TREE) not in wanted:
            old.unlink()
    for path, text in wanted.items():
        update(TREE / path, text)


def refused_by(output: str, files: Mapping[str, Mutated]) -> set[int]:
    """The mutants that the compiler's errors are about, or else its notes."""
    found: dict[str, set[int]] = {"error": set(), "note": set()}
    for path, line, column, what in COMPILER_SAYS.findall(output):
        for file, mutated in files.items():
            if Path(path).as_posix().endswith(f"src/{file}"):
                number = mutated.at(int(line), int(column))
                if number is not None:
                    found[what].add(number)
    return found["error"] or found["note"]


def run_logged(log: Path, *words: str | Path) -> tuple[bool, str]:
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with log.open("a") as out:
        out.write(f"$ {' '.join(map(str, words))}\n{done.stdout}")
    return done.returncode == 0, done.stdout


def compile_all(log: Path) -> tuple[bool, str]:
    """First the library's sources as one, which takes seconds and finds most of what is wrong."""
    includes = [f"-I{TREE / 'src'}", f"-I{TREE / 'include'}"]
    quick = ["clang++-19", "-std=c++20", "-fsyntax-only", "-ferror-limit=0", "-DLOFT_DEBUG=1"]
    ok, said = run_logged(log, *quick, *includes, *FLAGS, BUILD / "all.cc")
    if not ok:
        return ok, said
    targets = [f"loft_tests_{kind}" for kind in KINDS]
    return run_logged(log, "cmake", "--build", BUILD, "--target", *targets, "--", "-k", "0")


def build(drawn: Drawn, sources: Mapping[str, bytes], log: Path) -> None:
    """Compiles all of them; what is refused is drawn anew."""
    seam = (ROOT / "test" / "mutants" / "mutant.cc").read_bytes()
    log.write_text("")
    while True:
        files = {file: with_mutants(text, drawn.of_file(file)) for file, text in sources.items()}
        written = {Path("src") / file: mutated.text for file, mutated in files.items()}
        copy_tree({**written, Path("src/base/mutant.cc"): seam})
        flags = f"-DCMAKE_CXX_FLAGS={' '.join(FLAGS)}"
        ok, said = run_logged(log, "cmake", "-S", TREE, "-B", BUILD, *CONFIGURE, flags)
        if ok:
            ok, said = compile_all(log)
            if ok:
                return
        refused = refused_by(said, files)
        if not refused:
            sys.exit(
                f"{said[-4000:]}\nthe tests do not compile, and no mutant is the reason ({log})"
            )
        for number in sorted(refused):
            drawn.replace(number)


# ---- The tests -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    passed: bool
    timed_out: bool
    processor_s: float
    text: str


@dataclass
class Test:
    name: str
    command: list[str]
    settings: dict[str, str]
    processor_s: float = 0
    reaches: frozenset[int] = frozenset()

    def run(self, limit_s: float, mutant: int = 0, reached: Path | None = None) -> Ended:
        settings = {**os.environ, **self.settings, "MUTANT": str(mutant)}
        if reached is not None:
            settings["MUTANTS_REACHED"] = str(reached)
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                self.command,
                env=settings,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ended = Event()
            Thread(target=watch, args=(process.pid, limit_s, ended), daemon=True).start()
            _, status, used = os.wait4(process.pid, 0)
            ended.set()
            process.returncode = status
            end_group(process.pid)
            output.seek(0)
            text = output.read().decode(errors="replace")
        timed_out = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return Ended(status == 0, timed_out, used.ru_utime + used.ru_stime, text)


def end_group(group: int) -> None:
    """A test, or what one left behind that failed in the middle."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def used_by(pid: int) -> tuple[float, bool]:
    """The processor time of a process and of those below it, and whether all of them sleep."""
    spent, asleep = 0.0, True
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            times = process.cpu_times()
            spent += times.user + times.system + times.children_user + times.children_system
            asleep = asleep and process.status() == psutil.STATUS_SLEEPING
    return spent, asleep


def watch(pid: int, limit_s: float, ended: Event) -> None:
    """Ends a test that takes too long. A limit of the system's is one for each process alone."""
    before, since = -1.0, 0
    for second in range(LOST_S):
        if ended.wait(1):
            return
        spent, asleep = used_by(pid)
        if spent != before or not asleep:
            before, since = spent, second
        if spent > limit_s or second - since >= ASLEEP_S:
            break
    end_group(pid)


def read_tests(told: Mapping[str, list[dict[str, object]]]) -> Iterator[Test]:
    """Each test as `ctest --show-only=json-v1` tells of it."""
    for each in told["tests"]:
        properties = {one["name"]: one["value"] for one in each["properties"]}  # type: ignore
        changed = [
            word.replace("=set:", "=") for word in properties.get("ENVIRONMENT_MODIFICATION", [])
        ]
        settings = dict(
            word.split("=", 1) for word in [*properties.get("ENVIRONMENT", []), *changed]
        )
        yield Test(str(each["name"]), list(each["command"]), settings)  # type: ignore


def find_tests() -> list[Test]:
    labels = [word for label in LABELS for word in ("-L", label)]
    command = ["ctest", "--test-dir", str(BUILD), "--show-only=json-v1", *labels]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return list(read_tests(json.loads(told)))


def look(test: Test, numbers: int) -> Ended:
    """Runs a test without a mutant, and keeps which it comes to."""
    with tempfile.NamedTemporaryFile(dir=WHERE) as reached:
        reached.truncate(numbers + 1)
        ended = test.run(LONG_S, reached=Path(reached.name))
        test.reaches = frozenset(i for i, byte in enumerate(reached.read()) if byte)
    test.processor_s = ended.processor_s
    return ended


@dataclass(frozen=True)
class Verdict:
    outcome: str  # killed, timed out, survived, not reached
    by: str = ""
    processor_s: float = 0


Runner = Callable[[Test, int], Ended]


def run_limited(test: Test, mutant: int) -> Ended:
    return test.run(PATIENCE * test.processor_s + SPARE_S, mutant)


def judge(number: int, tests: Sequence[Test], run: Runner = run_limited) -> Verdict:
    meets = sorted((t for t in tests if number in t.reaches), key=lambda test: test.processor_s)
    if not meets:
        return Verdict("not reached")
    spent = 0.0
    for test in meets:
        if spent > ENOUGH_S:
            break
        ended = run(test, number)
        spent += ended.processor_s
        if not ended.passed and run(test, 0).passed:  # or else the mutant is not the reason
            return Verdict("timed out" if ended.timed_out else "killed", test.name, spent)
    return Verdict("survived", f"{len(meets)} tests", spent)


# ---- What is told --------------------------------------------------------------------------------


def line_of(source: bytes, mutant: Mutant) -> int:
    return source.count(b"\n", 0, mutant.place.edits[0][0]) + 1


def diff_of(source: bytes, mutant: Mutant) -> str:
    old, new = (
        text.decode().splitlines(keepends=True) for text in (source, with_one(source, mutant.place))
    )
    name = f"src/{mutant.file}"
    return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))


def is_noticed(verdict: Verdict) -> bool:
    return verdict.outcome in ("killed", "timed out")


def share(verdicts: Sequence[Verdict]) -> float:
    return 100 * sum(map(is_noticed, verdicts)) / len(verdicts)


def below_floor(shares: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    return [
        f"the tests notice {percent:.0f} % of the mutants of src/{folder}, and {floors[folder]} %"
        " is the least"
        for folder, percent in shares.items()
        if percent < floors[folder]
    ]


def write_survivors(
    folder: str, found: Mapping[Mutant, Verdict], sources: Mapping[str, bytes]
) -> list[str]:
    """Leaves the change of each, and returns a line for each."""
    shutil.rmtree(WHERE / folder, ignore_errors=True)
    (WHERE / folder).mkdir(parents=True)
    lines = []
    for mutant, verdict in found.items():
        if is_noticed(verdict):
            continue
        line = line_of(sources[mutant.file], mutant)
        name = f"{Path(mutant.file).name}.{line}.{mutant.number}.diff"
        (WHERE / folder / name).write_text(diff_of(sources[mutant.file], mutant))
        why = verdict.by or verdict.outcome
        lines.append(f"{folder}/{name}: {mutant.place.kind}, {why}")
    return sorted(lines)


def tell(
    console: Console,
    folders: Sequence[str],
    verdicts: Mapping[Mutant, Verdict],
    sources: Mapping[str, bytes],
) -> list[str]:
    """Prints the table and the survivors; returns what is below a floor."""
    table = Table("folder", "mutants", "killed", "timed out", "survived", "not reached", "noticed")
    shares = {}
    survivors = []
    for folder in folders:
        found = {mutant: each for mutant, each in verdicts.items() if mutant.folder == folder}
        counts = Counter(each.outcome for each in found.values())
        shares[folder] = share(list(found.values()))
        outcomes = [
            str(counts[each]) for each in ("killed", "timed out", "survived", "not reached")
        ]
        table.add_row(folder, str(len(found)), *outcomes, f"{shares[folder]:.0f} %")
        survivors += write_survivors(folder, found, sources)
    for line in survivors:
        console.print(f"build/mutants/{line}", highlight=False, soft_wrap=True)
    console.print(table)
    return below_floor(shares, tomllib.loads(FLOORS.read_text()))


def tests_without(mutants: int, pool: ThreadPoolExecutor, progress: Progress) -> list[Test]:
    """The tests that pass without a mutant, each with those that it comes to."""
    tests = find_tests()
    step = progress.add_task("tests without a mutant", total=len(tests))
    kept = []
    for test, ended in zip(tests, pool.map(lambda t: look(t, mutants), tests), strict=True):
        progress.advance(step)
        if ended.passed:
            kept.append(test)
        elif ended.timed_out:
            progress.print(f"{test.name} takes more than {LONG_S} s, and is left out")
        else:
            pool.shutdown(cancel_futures=True)
            sys.exit(f"{test.name} fails without a mutant:\n{ended.text[-2000:]}")
    return kept


def judge_all(
    drawn: Drawn, tests: Sequence[Test], pool: ThreadPoolExecutor, progress: Progress
) -> dict[Mutant, Verdict]:
    mutants = list(drawn.mutants.values())
    step = progress.add_task("mutants", total=len(mutants))
    verdicts = {}
    judged = pool.map(lambda mutant: judge(mutant.number, tests), mutants)
    for mutant, verdict in zip(mutants, judged, strict=True):
        progress.advance(step)
        verdicts[mutant] = verdict
    return verdicts


def read_sources(folders: Sequence[str]) -> dict[str, bytes]:
    return {
        str(path.relative_to(ROOT / "src")): path.read_bytes()
        for folder in folders
        for path in (ROOT / "src" / folder).iterdir()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=f"default: {FOLDERS}")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--count", type=int, default=100, help="mutants of each folder")
    arguments = parser.parse_args()
    folders = arguments.folders or list(FOLDERS)
    if unknown := set(folders) - set(FOLDERS):
        parser.error(f"nobody draws mutants of {', '.join(sorted(unknown))}")
    console = Console()
    console.print(f"seed {arguments.seed}, {arguments.count} mutants of each: {' '.join(folders)}")
    WHERE.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sources = read_sources(folders)
    drawn = draw(folders, sources, arguments.seed, arguments.count)
    with Progress(console=console) as progress, ThreadPoolExecutor(os.cpu_count()) as pool:
        step = progress.add_task("building", total=1)
        build(drawn, sources, WHERE / "build.log")
        progress.advance(step)
        tests = tests_without(drawn.numbers, pool, progress)
        verdicts = judge_all(drawn, tests, pool, progress)
    wrong = tell(console, folders, verdicts, sources)
    for line in wrong:
        console.print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
