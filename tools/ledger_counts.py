"""Counts what bench/ledger.toml holds, by the programs in bench that repeat exactly.

Each runs with an environment of its own, in a folder whose name is always as long: what lies on a
program's stack is the same then. Where the system does not let them count, they fail.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ledger_rows import Counts, Group, Ledger
from program_inputs import Program, Size, programs

from loft_malloc import replay, trace_file
from loft_malloc.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
KEPT = ROOT / "bench" / "kept"
OBSERVED = ROOT / "bench" / "observed.toml"

# What depends on the machine or on time is off.
SETTINGS = {"LOFT_CGROUP": "off", "LOFT_BACKGROUND": "off"}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", **SETTINGS}
# guard: no object is a sample. full looks through long objects, word by word, so few of them.
STEPPED = {
    "owner=thread": ({"LOFT_OWNER": "thread"}, ["--long=16", "--scattered=100000"]),
    "owner=cpu": ({"LOFT_OWNER": "cpu"}, ["--long=16", "--scattered=100000"]),
    "hardened=guard": (
        {"LOFT_HARDENED": "guard", "LOFT_SAMPLE_BYTES": "1000G"},
        ["--pairs=1", "--long=8", "--many=384"],
    ),
    "hardened=full": ({"LOFT_HARDENED": "full"}, ["--pairs=1", "--long=2", "--many=384"]),
}
STEPS = ["--remote=256"]
PAIR = "malloc and free of 64 B, at the median"
TIMEOUT_S = 600
LIBRARY = "libloft.so"
EXECUTED = (
    *("count_instructions", "observe", "threads_at_rest", "grows", "cfrac", "mstress"),
    "still.so",
)

AT_START = "anonymous memory of a process that does nothing"
AT_START_FILE = "memory of such a process in the library's file"
AT_START_CALLS = "system calls at start"
AT_START_STEPS = "instructions at start, the loader's among them"
BEYOND = "/bin/true, beyond those without loft"
OF_THREAD = "anonymous memory of a thread"
OF_CROWD = "anonymous memory of 10 000 threads"
PEAK = "malloc's memory at its peak"
RESIDENT = "memory of malloc and its library at the peak of real programs"
FAULTS = "faults taken on malloc's addresses"
NO_FAULTS = "the system lets nobody count faults here (perf_event_open)"
REPLAYED_PEAK = "malloc's memory of replayed programs at their peak"
REPLAYED_END = "committed memory of replayed programs at their end"
ATOMICS = "atomic operations a thousand objects that eight threads pass on, simulated"
MOVES = "lines moved a thousand objects that eight threads pass on, simulated"
CYCLES = "cycles a thousand objects that 64 heaps pass on, simulated"
MOVES_OF_MANY = "lines moved a thousand objects that many heaps pass on, simulated"
OWN_MOVES = "lines that the program moves a thousand objects, 64 heaps, simulated"
FORWARDED = "messages passed on of a thousand objects, 64 heaps, simulated"
REPLAYED_STEPS = "instructions of replayed programs, the replay's own among them"
PROGRAM_STEPS: dict[Size, str] = {
    "small": "instructions of real programs, their own among them",
    "large": "instructions of real programs with large inputs, their own among them",
}


def of_growing(title: str) -> str:
    return f"{title}, growing"


def instructions_of(setting: str) -> str:
    return f"instructions, {setting}"


GROUPS = {
    # Hardened, some of what is drawn by lot depends on addresses, which systems choose otherwise.
    **{
        instructions_of(setting): Group(
            unit="instructions", within="chance" if "hardened" in setting else ""
        )
        for setting in STEPPED
    },
    AT_START: Group(unit="bytes", within="pages"),
    AT_START_FILE: Group(unit="bytes", within="bytes"),
    AT_START_CALLS: Group(unit="calls"),
    AT_START_STEPS: Group(unit="instructions", within="chance"),
    OF_THREAD: Group(unit="KiB"),
    OF_CROWD: Group(unit="KiB", night=True),
    of_growing(PEAK): Group(unit="bytes", within="chance"),
    of_growing(FAULTS): Group(unit="faults"),
    # Python for one holds the names of what is installed.
    PEAK: Group(unit="bytes", within="chance"),
    RESIDENT: Group(unit="bytes", within="bytes"),
    FAULTS: Group(unit="faults", within="chance"),
    REPLAYED_PEAK: Group(unit="bytes"),
    REPLAYED_END: Group(unit="bytes"),
    REPLAYED_STEPS: Group(unit="instructions", within="chance"),
    # Of which malloc's are a tenth.
    PROGRAM_STEPS["small"]: Group(unit="instructions", within="steady"),
    PROGRAM_STEPS["large"]: Group(unit="instructions", within="steady", night=True),
    # Which thread meets which message follows from what the lines cost.
    ATOMICS: Group(unit="operations", within="places"),
    MOVES: Group(unit="lines", within="places"),
    CYCLES: Group(unit="cycles", within="places"),
    MOVES_OF_MANY: Group(unit="lines", within="places"),
    OWN_MOVES: Group(unit="lines"),
    FORWARDED: Group(unit="messages"),
}
# What papers/simulation plays, as its tests do.
SIMULATED = {
    "objects, in pairs": ["--pattern=pairs", "--warm=262144", "--objects=131072"],
    "objects, each to all": ["--pattern=exchange", "--warm=262144", "--objects=131072"],
    "buffers of 32 KiB to 1 MiB, in pairs": [
        *["--pattern=pairs", "--message=4", "--min=32768", "--max=1048576"],
        *["--objects=1", "--warm=1"],
    ],
}


@dataclass(frozen=True)
class Crowd:
    """Many heaps of loft, or of a paper's engine, which has loft's lowest floors below it."""

    heaps: int
    pattern: str
    # By the group, what the simulation calls it.
    counts: dict[str, str]
    engine: str = "loft"
    options: tuple[str, ...] = ("--warm=262144", "--objects=262144")


# One write of each object: what a second owner of its line wrote is then a line moved.
WRITTEN_ONCE = ("--writes=1", "--warm=65536", "--objects=65536")
# loft's cycles are those of who waits for the lock of the spans, and waits longer asleep: with 512
# heaps half of them more or less, as the linker places things.
CROWDS = {
    "loft, exchange, 64 heaps": Crowd(64, "exchange", {MOVES_OF_MANY: "moves"}),
    "loft, producers, 64 heaps": Crowd(64, "producers", {MOVES_OF_MANY: "moves"}),
    "loft, producers, 512 heaps": Crowd(512, "producers", {MOVES_OF_MANY: "moves"}),
    "loft, cache-scratch": Crowd(
        64, "cache-scratch", {OWN_MOVES: "own_moves"}, options=WRITTEN_ONCE
    ),
    "loft, cache-thrash": Crowd(64, "cache-thrash", {OWN_MOVES: "own_moves"}, options=WRITTEN_ONCE),
    "snmalloc, exchange": Crowd(
        64, "exchange", {CYCLES: "cycles", FORWARDED: "forwarded"}, "snmalloc-1mib"
    ),
    "snmalloc, producers": Crowd(
        64, "producers", {CYCLES: "cycles", FORWARDED: "forwarded"}, "snmalloc-1mib"
    ),
    "BatchIt's queues of slabs, exchange": Crowd(
        64, "exchange", {CYCLES: "cycles"}, "pages-batchit"
    ),
    "BatchIt's queues of slabs, producers": Crowd(
        64, "producers", {CYCLES: "cycles"}, "pages-batchit"
    ),
}


def growing() -> dict[str, list[str]]:
    """The commands of bench/observed.toml."""
    told: dict[str, dict[str, list[str]]] = tomllib.loads(OBSERVED.read_text(encoding="utf-8"))
    return {name: each["command"] for name, each in told.items()}


def compiler() -> str:
    """What the programs and the library are built with."""
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    found = [line for line in cache.splitlines() if line.startswith("CMAKE_CXX_COMPILER:")]
    path = found[0].partition("=")[2] if found else "c++"
    version = subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True)
    return f"{Path(path).name} {version.stdout.strip()}".replace("c++ ", "g++ ")


@cache
def version(package: str) -> str:
    """Empty where it is not installed."""
    asked = ["dpkg-query", "-W", "-f", "${Version}", package]
    told = subprocess.run(asked, capture_output=True, text=True)
    return told.stdout if told.returncode == 0 else ""


def packages() -> dict[str, str]:
    """The versions of what runs."""
    names = {each.package for each in programs().values() if each.package}
    return {name: version(name) for name in sorted({"libc6", *names})}


@dataclass(frozen=True)
class Steps:
    """Instructions of a program, and those of them that the allocator's own code took."""

    total: int
    own: int


def steps_in(library: Path | None, profile: Path) -> int:
    """Those that callgrind found in a library, or in what lies beside it for it alone."""
    if library is None:
        return 0
    mine = (str(library), f"{library.parent}/lib{library.stem}.")
    names: dict[str, str] = {}
    is_mine = is_call = False
    steps = 0
    for line in profile.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("ob=", "cob=")):
            # By its name the first time, then by its number alone.
            number, _, name = line.partition("=")[2].partition(" ")
            name = names.setdefault(number, name)
            if line.startswith("ob="):
                is_mine = name.startswith(mine)
        elif line.startswith("calls="):
            is_call = True  # the next line has what was called
        elif line[:1] in "+-*0123456789" and line:
            fields = line.split()
            if is_mine and not is_call and len(fields) > 1:
                steps += int(fields[1])
            is_call = False
    return steps


@dataclass(frozen=True)
class Place:
    """Where all that is executed lies."""

    folder: Path
    library: Path | None

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def is_loft(self) -> bool:
        return self.library is not None and self.library.name == LIBRARY

    def preload(self) -> list[str]:
        return [] if self.library is None else [str(self.library)]

    def run(self, command: list[str], environment: dict[str, str]) -> tuple[str, str]:
        """What it printed, and what it said on standard error."""
        ran = subprocess.run(
            command,
            env={**ENVIRONMENT, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        if ran.returncode:
            last = ran.stderr.strip().splitlines()[-1:] or ["no message"]
            raise UserError(f"{Path(command[0]).name}: {last[0]}", 1)
        return ran.stdout, ran.stderr

    def observe(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        still: bool = True,
        end_at: int = 0,
    ) -> dict[str, Any]:
        """With `end_at`, up to this fault: loft's statistics are the last that it then says."""
        preload = self.preload() + ([self.path("still.so")] if still else [])
        options = [f"--preload={':'.join(preload)}"]
        options += [f"--end-at={end_at}"] if end_at else []
        options += [f"--library={self.library.name}"] if self.library else []
        printed, said = self.run(
            [self.path("observe"), *options, "--", *command], environment or {}
        )
        told: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return told | {"printed": printed, "said": said}

    def step(
        self, command: list[str], environment: dict[str, str] | None = None, still: bool = True
    ) -> Steps:
        """By valgrind, which has no restartable sequences, and copies and clears as it likes."""
        preload = self.preload() + ([self.path("still.so")] if still else [])
        variables = {"LD_PRELOAD": ":".join(preload)} if preload else {}
        profile = self.folder / "profile"
        counter = [*replay.COUNTER, f"--callgrind-out-file={profile}"]
        said = self.run([*counter, *command], {**(environment or {}), **variables})[1]
        found = re.search(r"Collected : (\d+)", said)
        if found is None:
            raise UserError("valgrind has counted nothing", 1)
        return Steps(int(found[1]), steps_in(self.library, profile))


@contextmanager
def place(library: Path | None) -> Iterator[Place]:
    """Copies of all that is executed. The name of the folder is always as long."""
    with tempfile.TemporaryDirectory(prefix="loft-ledger-", dir="/tmp") as name:
        folder = Path(name)
        for each in EXECUTED:
            shutil.copy(BUILD / "bench" / each, folder)
        shutil.copy(BUILD / "loft-replay", folder)
        # Another allocator may need what lies beside it.
        if library == BUILD / LIBRARY:
            library = Path(shutil.copy(library, folder))
        yield Place(folder, library)


def count_instructions(there: Place, setting: str) -> dict[str, float]:
    settings, options = STEPPED[setting]
    preload = {"LD_PRELOAD": ":".join([*there.preload(), there.path("still.so")])}
    # Of others all that is beyond the program counts: their malloc may be libc's.
    only = [f"--library={LIBRARY}"] if there.is_loft else []
    command = [there.path("count_instructions"), *STEPS, *options, *only]
    # The least of three by processor: a restartable sequence that something cuts off goes the long
    # way, and on a busy machine one count was higher by a part of an instruction.
    tries = 3 if setting == "owner=cpu" else 1
    told = [json.loads(there.run(command, settings | preload)[0])["cases"] for _ in range(tries)]
    cases: dict[str, float] = {name: min(each[name] for each in told) for name in told[0]}
    if "--pairs=1" in options:
        del cases[PAIR]  # one has no median
    return cases


def count_start(there: Place) -> Counts:
    """Beyond the process without the library."""
    bare = Place(there.folder, None).observe(["/bin/true"], still=False)["system_calls"]
    told = there.observe(["/bin/true"], still=False)
    return {
        AT_START: {"/bin/true": told["anonymous"]},
        AT_START_FILE: {"/bin/true": told.get("library_bytes", 0)},
        AT_START_CALLS: {BEYOND: told["system_calls"] - bare},
    }


def count_start_steps(there: Place) -> Counts:
    """Under valgrind, whose own part of the start is the same with the library and without."""
    bare = Place(there.folder, None).step(["/bin/true"], still=False).total
    return {AT_START_STEPS: {BEYOND: there.step(["/bin/true"], still=False).total - bare}}


def threads(there: Place, count: int, *options: str) -> dict[str, int]:
    command = [there.path("threads_at_rest"), f"--threads={count}", *options]
    told: dict[str, int] = json.loads(there.observe(command)["printed"].splitlines()[0])
    return told


def count_threads(there: Place, *how_many: int) -> dict[str, float]:
    counts: dict[str, float] = {}
    for count in how_many:
        one = threads(there, count, "--sizes=1")
        five = threads(there, count)
        mixed = threads(there, count, "--bytes=65536")
        of = f"{count} threads" if count > 1 else "one thread"
        counts[f"{of}, an object of 16 B"] = one["kept_kib"]
        counts[f"{of}, one object of each of five sizes"] = five["kept_kib"]
        counts[f"{of}, these freed"] = five["freed_kib"]
        counts[f"{of}, 64 KiB of mixed sizes freed"] = mixed["freed_kib"]
    return counts


def count_growing(there: Place, command: list[str], name: str) -> Counts:
    counted = counts_of(there.observe(in_folder(command, there)), name)
    return {of_growing(title): of for title, of in counted.items()}


def in_folder(command: list[str], there: Place) -> list[str]:
    return [word.replace("{bench}", str(there.folder)) for word in command]


def count_program(there: Place, each: Program, name: str) -> Counts:
    each.bring_input("small", there.folder)
    told = there.observe(each.words("small", there.folder), each.environment)
    # Of other files more or less is mapped, as the length of the library places them.
    parts = (told["resident"][part] for part in ("of_malloc", "of_library", "data_of_library"))
    return {RESIDENT: {name: sum(parts)}} | counts_of(told, name)


def counts_of(told: dict[str, Any], name: str) -> Counts:
    counts: Counts = {PEAK: {name: told["peak"]}}
    # Where the system lets nobody count them, they are not told.
    if "malloc_faults" in told:
        counts[FAULTS] = {name: told["malloc_faults"]}
    return counts


def count_program_steps(there: Place, each: Program, name: str, size: Size) -> Counts:
    each.bring_input(size, there.folder)
    steps = there.step(each.words(size, there.folder), each.environment)
    return {PROGRAM_STEPS[size]: {name: steps.total}}


def plan_of(recording: Path, folder: Path) -> Path:
    chunks, plan = folder / "chunks", folder / f"{recording.stem}.plan"
    trace = trace_file.Trace.read(recording, chunks, lambda done, of: None)
    replay.helper("loft-trace", trace, "plan", chunks, "0", "1", plan)
    return plan


def count_replay(there: Place, recording: Path) -> Counts:
    plan = plan_of(recording, there.folder)
    command = [there.path("loft-replay"), str(plan), "0", "pages"]
    counts: Counts = {REPLAYED_PEAK: {recording.stem: there.observe(command)["peak"]}}
    if there.is_loft:
        # The statistics take memory, so they have a run of their own.
        said = there.observe(command, {"LOFT_STATS": "json"})["said"]
        counts[REPLAYED_END] = {recording.stem: json.loads(said)["committed_bytes"]}
    return counts


def count_replayed_steps(there: Place, recording: Path) -> Counts:
    plan = plan_of(recording, there.folder)
    steps = there.step([there.path("loft-replay"), str(plan), "0", "ends"])
    return {REPLAYED_STEPS: {recording.stem: steps.total}}


def simulate(there: Place, engine: str, *options: str) -> dict[str, float]:
    """What a thousand objects cost."""
    command = [str(BUILD / "papers" / f"simulate-{engine}"), *options]
    told = json.loads(there.run(command, {"LOFT_DECAY_MS": "0"})[0])
    told.pop("bench")
    return {name: round(1000 * n / told["operations"], 1) for name, n in told.items()}


def count_simulated(there: Place) -> Counts:
    counts: Counts = {ATOMICS: {}, MOVES: {}}
    for name, options in SIMULATED.items():
        told = simulate(there, "loft", "--heaps=8", *options)
        counts[ATOMICS][name], counts[MOVES][name] = told["atomics"], told["moves"]
    return counts


def count_crowds(there: Place) -> Counts:
    counts: Counts = {CYCLES: {}, MOVES_OF_MANY: {}, OWN_MOVES: {}, FORWARDED: {}}
    for name, crowd in CROWDS.items():
        options = (f"--pattern={crowd.pattern}", f"--heaps={crowd.heaps}", *crowd.options)
        told = simulate(there, crowd.engine, *options)
        for title, word in crowd.counts.items():
            # The few lines that start a heap are no sharing.
            counts[title][name] = round(told[word], 0 if title == OWN_MOVES else 1)
    return counts


@dataclass(frozen=True)
class Part:
    """What is counted by itself."""

    count: Callable[[Place], Counts]
    # Whether it is a program whose faults are counted, and Debian's package of it.
    runs: bool = False
    package: str = ""
    processors: int = 1
    # Of loft alone: other allocators have no such settings.
    own: bool = False
    # Whether every peer is counted, too, and not only those that stand beside it in all.
    of_every_peer: bool = False
    night: bool = False

    def why_not(self, ledger: Ledger) -> str:
        """Why this machine cannot count what the ledger has; empty if it can."""
        if len(os.sched_getaffinity(0)) < self.processors:
            return f"takes {self.processors} processors"
        if not self.package:
            return ""
        written, here = ledger.packages.get(self.package, ""), version(self.package)
        if written == here:
            return ""
        return f"the ledger is of {self.package} {written}; here is {here or 'none'}"


def parts() -> dict[str, Part]:
    """In the order of the ledger."""
    made = {}
    for setting in STEPPED:
        title = instructions_of(setting)
        made[title] = Part(
            lambda there, title=title, setting=setting: {  # type: ignore[misc]
                title: count_instructions(there, setting)
            },
            processors=2 if setting == "owner=cpu" else 1,
            own=setting != "owner=thread",
            of_every_peer=setting == "owner=thread",
        )
    made["start"] = Part(count_start)
    made["start, steps"] = Part(count_start_steps, package="libc6")
    made["threads"] = Part(lambda there: {OF_THREAD: count_threads(there, 1, 1000)})
    made["many threads"] = Part(lambda there: {OF_CROWD: count_threads(there, 10_000)}, night=True)
    for name, command in growing().items():
        made[f"program: {name}"] = Part(
            lambda there, command=command, name=name: count_growing(there, command, name),  # type: ignore[misc]
            runs=True,
        )
    repeating = {name: each for name, each in programs().items() if not each.threads}
    for name, each in repeating.items():
        made[f"program: {name}"] = Part(
            lambda there, each=each, name=name: count_program(there, each, name),  # type: ignore[misc]
            runs=True,
            package=each.package,
        )
    for size in PROGRAM_STEPS:
        for name, each in repeating.items():
            made[f"program steps: {name}, {size}"] = Part(
                lambda there, each=each, name=name, size=size: count_program_steps(  # type: ignore[misc]
                    there, each, name, size
                ),
                package=each.package,
                of_every_peer=True,
                night=size == "large",
            )
    for recording in sorted(KEPT.glob("*.zst")):
        made[f"replay: {recording.stem}"] = Part(
            lambda there, recording=recording: count_replay(there, recording)  # type: ignore[misc]
        )
    for recording in sorted(KEPT.glob("*.zst")):
        made[f"steps: {recording.stem}"] = Part(
            lambda there, recording=recording: count_replayed_steps(  # type: ignore[misc]
                there, recording
            )
        )
    made["simulated"] = Part(count_simulated, own=True)
    made["simulated, many heaps"] = Part(count_crowds, own=True)
    return made
