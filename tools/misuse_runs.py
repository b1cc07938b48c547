"""Makes the programs of test/misuse, and runs a case under loft or a peer: tools/misuse.py."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from compilers import cached

from loft_malloc.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SOURCES = ROOT / "test" / "misuse"

# Far above what any case takes, on a machine that is busy.
TIMEOUT_S = 60
# Of the last lines of what a process wrote: enough for a report.
REPORT_BYTES = 400

# What a case says by its exit status (test/misuse/cases.h).
STATUS = {20: "avoided", 21: "through", 22: "unseen", 23: "absent"}
# What the processor or the system refused, in place of the allocator.
FAULTS = {signal.SIGSEGV, signal.SIGBUS}
# The mistake did no harm.
GOOD = {"stopped", "fault", "avoided"}
WORDS = ("stopped", "fault", "avoided", "unseen", "through", "absent", "hung", "broken")


@dataclass(frozen=True)
class Configuration:
    name: str
    # None: glibc's own.
    library: Path | None
    variables: Mapping[str, str] = field(default_factory=dict)
    # Of the library, without which there is no such configuration.
    option: str | None = None
    # How often each case runs. What differs from one time to the next is told with its numbers.
    tries: int = 3
    # Preloaded in front of the library.
    before: Path | None = None

    def is_there(self) -> bool:
        if self.option is not None and self.option not in options_of_loft():
            return False
        return all(each.is_file() for each in self.preloaded())

    def preloaded(self) -> list[Path]:
        return [each for each in (self.before, self.library) if each is not None]


def options_of_loft() -> set[str]:
    return set(json.loads((ROOT / "python" / "loft_malloc" / "options.json").read_text()))


def loft(mode: str, **variables: str) -> Configuration:
    library = Path(os.environ.get("LOFT_LIB", BUILD / "libloft.so"))
    if mode != "off":
        variables["LOFT_HARDENED"] = mode
    # As `loft run --bounds`: who wants all of it wants that as well.
    before = library.parent / "libloft-bounds.so" if mode == "full" else None
    option = "hardened" if variables else None
    return Configuration(mode, library, variables, option, before=before)


def peer(name: str, file: str) -> Configuration:
    return Configuration(name, BUILD / "peers" / f"{file}.so")


# loft's modes; and those that defend themselves best of what tools/peers.sh gets.
# Of guard without a sample, what is found of any object; and what is found of a sample.
MODES = (loft("off"), loft("guard", LOFT_SAMPLE_BYTES="1000G"), loft("full"))
SAMPLED = replace(loft("guard", LOFT_SAMPLE_BYTES="1"), name="guard's samples")
CONFIGURATIONS = (
    *MODES[:2],
    SAMPLED,
    *MODES[2:],
    Configuration("glibc", None),
    peer("hardened_malloc", "hardened"),
    peer("hardened_malloc light", "hardened-light"),
    peer("scudo", "scudo"),
    peer("snmalloc checks", "snmalloc-checks"),
    peer("mimalloc secure", "mimalloc3-secure"),
)


@dataclass(frozen=True)
class Case:
    name: str
    section: str
    says: str
    size: str

    @property
    def family(self) -> str:
        """The name without the size."""
        return self.name.rpartition("-")[0] if self.size else self.name


@dataclass(frozen=True)
class Ending:
    word: str
    report: str


def compiled(folder: Path) -> Path:
    """The program, made anew. Neither the compiler nor libc is to find the mistakes."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-O1", "-g", "-fno-builtin", "-U_FORTIFY_SOURCE", "-pthread", "-Wall", "-Wextra"]
    objects = []
    for source in sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.cc")]):
        compiler = ["g++", "-std=c++20"] if source.suffix == ".cc" else ["gcc", "-std=gnu17"]
        objects.append(str(folder / f"{source.stem}.o"))
        # Absurd sizes are meant to be.
        command = [
            *cached(compiler[0]),
            *compiler[1:],
            *flags,
            "-Wno-alloc-size-larger-than",
            "-c",
            str(source),
        ]
        call([*command, "-o", objects[-1]])
    program = folder / "misuse_cases"
    call(["g++", *objects, "-pthread", "-ldl", "-o", str(program)])
    return program


def call(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise UserError(f"{command[0]} cannot be run: {error.strerror}; install it") from None
    if done.returncode != 0:
        raise UserError(f"{' '.join(command)} fails:\n{done.stderr}")


def cases_of(program: Path) -> list[Case]:
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    return [Case(*line.split("\t")) for line in listed.stdout.splitlines()]


def run_case(
    program: Path, case: str, configuration: Configuration, timeout: float = TIMEOUT_S
) -> Ending:
    """One process, of which nothing runs on. It sees nothing of the caller's settings."""
    environment = {"PATH": os.environ["PATH"], **configuration.variables}
    if preloaded := configuration.preloaded():
        environment["LD_PRELOAD"] = ":".join(map(str, preloaded))
    with subprocess.Popen(
        [program, case],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
            hung = False
        except subprocess.TimeoutExpired:
            hung = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if hung:
            process.communicate()
            return Ending("hung", f"had not ended after {timeout} s")
    report = errors.decode(errors="replace").strip()[-REPORT_BYTES:]
    return Ending(word_for(process.returncode, output.startswith(b"misuse")), report)


def word_for(status: int, made_its_mistake: bool) -> str:
    if status in STATUS:
        return STATUS[status]
    if not made_its_mistake or status in (0, 2, 24):
        return "broken"
    return "fault" if -status in FAULTS else "stopped"
