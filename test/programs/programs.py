"""The real programs that loft is tried with, and how they are run.

The tests here compare what they do with and without loft; tools/program_rss.py measures what they
hold.

A program is a bash script that runs in a fresh folder. What it reads was made once, by `prepare`,
in a folder that all programs share ($INPUT). The allocator under test is preloaded into the shell
and so into everything that the script starts.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from limits import HANGS_S

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "test" / "programs" / "sources"
# Debian's own: its test modules are a package, and another interpreter may be first in PATH.
PYTHON = "/usr/bin/python3"
# How the one line on a misuse ends, where nobody has asked for its stack.
HOW_TO_GET_STACKS = r" \(LOFT_REPORT_FILE=PATH adds the stack\)\n"


OWNERS = ("thread", "cpu", "shared")


def as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True)
class Program:
    name: str
    script: str
    # Files that the script leaves behind and that must not differ by a byte.
    files: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    # Takes out of what is printed what differs between any two runs, and nothing else.
    normalise: Callable[[str], str] = as_it_is
    # Whether threads race for what is written to standard error.
    racy_stderr: bool = False
    # Whether the program fits into 500 MB of address space under the system's own allocator.
    small: bool = False
    # A little before pytest's limit: what it waits for is told.
    timeout: int = HANGS_S - 60


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: str
    stderr: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Clock:
    """One that stands still in programs until the test lets time pass."""

    library: Path
    file: Path

    def settings(self, lib: Path) -> dict[str, str]:
        return {"LD_PRELOAD": f"{self.library}:{lib}", "STANDING_CLOCK": str(self.file)}

    def set(self, seconds: float) -> None:
        """So long after the program's start."""
        with self.file.open("r+b") as file:
            file.write(int(seconds * 1e9).to_bytes(8, "little"))


# For the tests: compiles a file of sources/; runs a program without the library, once, beside
# whatever else goes on; and runs a command with the library, or without if preload=False.
Build = Callable[..., Path]
Reference = Callable[[Program], Future[Outcome]]
Execute = Callable[..., subprocess.CompletedProcess[str]]


def library() -> Path:
    return Path(os.environ.get("LOFT_LIB", ROOT / "build" / "libloft.so")).resolve()


def environment(home: Path) -> dict[str, str]:
    """What every program sees: nothing of the caller's settings but where programs are found."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "SOURCES": str(SOURCES),
        "PYTHON": PYTHON,
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A Writer",
        "GIT_AUTHOR_EMAIL": "writer@example.org",
        "GIT_AUTHOR_DATE": "1700000000 +0000",
        "GIT_COMMITTER_NAME": "A Writer",
        "GIT_COMMITTER_EMAIL": "writer@example.org",
        "GIT_COMMITTER_DATE": "1700000000 +0000",
    }
    # A toolchain kept in the caller's home folder is looked for there, not in the program's.
    for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")):
        place = Path(os.environ.get(name, Path.home() / folder))
        if place.is_dir():
            env[name] = str(place)
    return env


class NeverEnds(Exception):
    """A program did not end, and what was known of it then."""


def what_they_wait_for(group: int) -> str:
    """The threads of all processes of a group, with the system call that each of them is in.
    Python's test runner also writes where in its own code each one is, to standard error."""
    lines = []
    for process in sorted(Path("/proc").glob("[0-9]*")):
        # It may end meanwhile, or not be ours to look at.
        with contextlib.suppress(OSError):
            if os.getpgid(int(process.name)) != group:
                continue
            lines.append(f"process {process.name}")
            for task in sorted(process.glob("task/*")):
                lines.append(f"  thread {task.name} ({(task / 'comm').read_text().strip()})")
                lines[-1] += f": {(task / 'syscall').read_text().strip()}"
            maps = (process / "maps").read_text().splitlines()
            lines += [line for line in maps if line.endswith(("libloft.so.0", "[heap]"))]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGUSR1)
        time.sleep(2)  # time: while its runner writes; the test has failed already
    return "\n".join(lines)


def prepare(folder: Path) -> None:
    """Makes what the programs read."""
    script = """
    set -euo pipefail
    "$PYTHON" "$SOURCES/tree.py"
    git init --quiet --bare --initial-branch=main history.git
    "$PYTHON" "$SOURCES/history.py" | git -C history.git fast-import --quiet
    """
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment(folder), check=True)


@contextlib.contextmanager
def session(
    command: Sequence[str | Path], folder: Path, env: Mapping[str, str], **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """A command that leads a session of its own, of which nothing runs on in the end."""
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def captured(
    command: Sequence[str | Path], folder: Path, env: Mapping[str, str], limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    """What a command prints, and how it ends. Pytest ends what hangs, but not in another thread:
    that has a limit."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "errors": "replace"}
    with session(command, folder, env, text=True, **pipes) as process:
        output, errors = process.communicate(timeout=limit)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def script(program: Program) -> str:
    return "set -euo pipefail\n" + program.script


def run(
    program: Program,
    folder: Path,
    inputs: Path,
    *preload: Path,
    address_space: int = 0,
) -> Outcome:
    """Runs a program in a new folder. `address_space` is a limit in bytes, as by `ulimit -v`."""
    work = folder / "work"
    work.mkdir(parents=True)
    limited = ["prlimit", f"--as={address_space}"] if address_space else []
    preloaded = ["env", f"LD_PRELOAD={':'.join(map(str, preload))}"] if preload else []
    command = [*limited, *preloaded, "bash", "-c", script(program)]
    # Files, not pipes: a server that a failed script leaves behind would hold a pipe open.
    hung: str | None = None
    env = environment(folder) | {"INPUT": str(inputs)} | dict(program.env)
    with (
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
        session(command, work, env, stdout=stdout, stderr=stderr) as process,
    ):
        try:
            process.wait(program.timeout)
        except subprocess.TimeoutExpired:
            hung = what_they_wait_for(process.pid)
    if hung is not None:
        ends = [
            (folder / name).read_text(errors="replace")[-6000:] for name in ("stdout", "stderr")
        ]
        raise NeverEnds(
            "\n".join((f"{program.name} had not ended after {program.timeout} s", hung, *ends))
        )
    outcome = Outcome(
        status=process.returncode,
        stdout=program.normalise((folder / "stdout").read_text(errors="replace")),
        stderr=program.normalise((folder / "stderr").read_text(errors="replace")),
        files={
            str(path.relative_to(work)): path.read_bytes()
            for pattern in program.files
            for path in sorted(work.glob(pattern))
        },
    )
    # Build trees are large, and what is compared is in hand.
    shutil.rmtree(work)
    return outcome


def differences(program: Program, under_loft: Outcome, expected: Outcome) -> list[str]:
    """What a program did otherwise than without loft, in words; empty if nothing."""
    found = []
    if expected.status != 0:
        found.append(f"fails without loft too ({expected.status}): {expected.stderr[-2000:]}")
    if under_loft.status != expected.status:
        found.append(
            f"status {under_loft.status}, not {expected.status}: {under_loft.stderr[-2000:]}"
        )
    texts = [("standard output", under_loft.stdout, expected.stdout)]
    if not program.racy_stderr:
        texts.append(("standard error", under_loft.stderr, expected.stderr))
    for name, ours, theirs in texts:
        if ours != theirs:
            lines = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), lineterm="", n=0)
            found.append(f"{name}:\n" + "\n".join(list(lines)[2:30]))
    found += [
        f"file {name}"
        for name in sorted(under_loft.files.keys() | expected.files.keys())
        if under_loft.files.get(name) != expected.files.get(name)
    ]
    found += [
        line for line in under_loft.stderr.splitlines() if "loft:" in line or "ld.so:" in line
    ]
    return found


# How the runner writes a time: "38.2 sec", "1 min 2 sec", "750 ms".
DURATION = r"[\d.]+ (?:hour|min|sec|ms)(?: \d+ (?:min|sec))?"
# What Python's test runner prints that is a time, a load, a folder's name, a process's number or an
# address.
PYTHON_NOISE = (
    (re.compile(r"^== cwd: .*$", re.MULTILINE), "== cwd: FOLDER"),
    (re.compile(r"^\d+:\d\d:\d\d (?:load avg: [\d.]+ )?", re.MULTILINE), ""),
    (re.compile(r"^(Ran \d+ tests? in) [\d.]+s$", re.MULTILINE), r"\1 TIME"),
    (re.compile(rf"^Total duration: {DURATION}$", re.MULTILINE), "Total duration: TIME"),
    # Of a module that took less than 30 seconds it says how it ended only if that was not well.
    (re.compile(rf"^test_\w+ passed in {DURATION}\n", re.MULTILINE), ""),
    (re.compile(rf"^(test_\w+ .+) in {DURATION}$", re.MULTILINE), r"\1"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"(\breaped child process |\bpid=)\d+"), r"\1NUMBER"),
    # test_various_ops tells what its threads happen to do.
    (
        re.compile(
            r"(?:task )?<thread \d+> .*\n|\d+ tasks are running\n"
            r"|waiting for all tasks .*\n|all tasks done\n"
        ),
        "",
    ),
)


def python_report(text: str) -> str:
    for pattern, replacement in PYTHON_NOISE:
        text = pattern.sub(replacement, text)
    return text


# Tests of waiting, not of memory: they take seconds, and fail on a machine that is busy.
WAITING = (
    "*timeout*",
    "BarrierTests",
    "test_communicate_repeated_call_after_stdout_close",
    "test_terminate_dead",
    "test_send_signal_dead",
    "test_kill_dead",
    # An event is set for an instant, which five threads have a second to reach.
    "test_set_and_clear",
    # A tenth of a second later other threads must have let go of what they hold,
    "test_release_task_refs",
    # or have written what they hold into a pipe.
    "*TestQueue.test_get",
)
# To end a pool that has work can wait for ever for a lock of a worker that was ended while it held
# it: python/cpython issues 73945 and 96995, open. It did so without loft, too, once in 400 times.
ENDLESS = ("*TestPool.test_terminate",)


def python_tests(
    name: str,
    module: str,
    classes: tuple[str, ...] = (),
    small: bool = False,
    racy_stderr: bool = False,
) -> list[Program]:
    """One of Python's own test modules, with Python's arenas and with malloc for every object."""
    options = [f"--ignore '{name}'" for name in (*WAITING, *ENDLESS)]
    options += [f"--match '{name}'" for name in classes]
    arenas = Program(
        f"python-{name}",
        f'exec "$PYTHON" -m test -v {" ".join(options)} {module}',
        normalise=python_report,
        racy_stderr=racy_stderr,
        small=small,
    )
    return [arenas, replace(arenas, name=f"{arenas.name}-malloc", env={"PYTHONMALLOC": "malloc"})]


PROGRAMS = (
    *python_tests("json", "test_json", small=True),
    *python_tests("ctypes", "test_ctypes", small=True),
    *python_tests("threading", "test_threading"),
    *python_tests("subprocess", "test_subprocess"),
    *python_tests(
        "multiprocessing",
        "test_multiprocessing_fork",
        classes=(
            "WithProcessesTestPool",
            "WithProcessesTestSharedMemory",
            "WithProcessesTestSharedCTypes",
            "WithProcessesTestHeap",
            "WithProcessesTestConnection",
            "WithProcessesTestQueue",
            "WithManagerTestPool",
        ),
        # Its resource tracker may hear of a segment's end twice.
        racy_stderr=True,
    ),
    Program(
        "sqlite3",
        """
        sqlite3 shop.db < "$SOURCES/tables.sql"
        sqlite3 shop.db .dump | cksum
        """,
        files=("shop.db",),
        small=True,
    ),
    Program("redis", 'exec bash "$SOURCES/traffic.sh"'),
    Program(
        "git",
        """
        git clone --quiet --no-local "$INPUT/history.git" copy
        cd copy
        git rev-list --objects --all | sort | cksum
        git gc --quiet --aggressive --prune=now
        git fsck --full --strict
        git rev-list --objects --all | sort | cksum
        git cat-file --batch-all-objects --batch-check | cksum
        git log -p --stat --all | cksum
        git blame folder2/file30.txt | tail -n 5
        git checkout --quiet -b more
        git mv renamed moved
        for file in folder[0-6]/*1.txt; do sed -i 's/line/row/' "$file"; done
        git commit --quiet --all --message "more"
        git diff --find-renames --stat HEAD~1 | tail -n 3
        git repack -q -a -d -f --threads=2
        git fsck --full
        git for-each-ref
        """,
        small=True,
    ),
    Program("perl", 'exec perl "$SOURCES/words.pl"', env={"PERL_HASH_SEED": "0"}, small=True),
    Program("php", 'exec php "$SOURCES/bindings.php"', small=True),
    Program(
        "g++",
        """
        cp "$SOURCES/templates.cc" .
        g++ -std=c++20 -O1 -S templates.cc
        cksum templates.s
        """,
        files=("templates.s",),
        small=True,
    ),
    Program(
        "cargo",
        """
        cp -r "$SOURCES/crate" .
        cd crate
        cargo build --offline --release --quiet
        ./target/release/meadow
        """,
    ),
    Program("node", 'exec node "$SOURCES/workers.js"'),
    # Without the file in which others could read its state: its name is the process's number, and
    # two of them at once, each in a container of its own, may have the same one.
    Program(
        "java",
        """
        javac -J-XX:-UsePerfData -d . "$SOURCES/Crowd.java"
        java -XX:-UsePerfData -Xmx128m -cp . Crowd
        """,
        files=("*.class",),
    ),
    Program("bash", 'exec bash "$SOURCES/arrays.sh"', small=True),
    Program(
        "find",
        """
        cd "$INPUT"
        find tree -type f -name '*.[ch]' -size +1 -printf '%s %d %f\\n' | sort | cksum
        find tree -regextype posix-extended -regex '.*/d1?[0-9]/e(2|3)[0-9]?/.*[13579][.]txt' |
          sort | cksum
        find tree -type f -newermt 1990-01-01 ! -empty -exec grep -lF oak77 {} + | sort | cksum
        find tree -mindepth 1 -maxdepth 2 -type d | sort | tail -n 3
        """,
        small=True,
    ),
    Program(
        "sort",
        """
        sort --parallel=2 --buffer-size=16M "$INPUT/lines.txt" > sorted.txt
        sort --parallel=2 --stable --key=2,3 "$INPUT/lines.txt" | cksum
        sort --unique --key=1,1n sorted.txt | tail -n 2
        """,
        files=("sorted.txt",),
        small=True,
    ),
    Program(
        "tar",
        """
        tar --create --sort=name --mtime=@0 --numeric-owner --directory "$INPUT" tree |
          xz -T2 -3 --block-size=2MiB > tree.tar.xz
        tar --extract --xz --file tree.tar.xz
        diff --recursive tree "$INPUT/tree"
        tar --list --file tree.tar.xz | cksum
        """,
        files=("tree.tar.xz",),
        small=True,
    ),
)
