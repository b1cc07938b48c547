"""`loft record`: a command whose allocation calls are written to a file while it runs.

The command has this terminal. A library that is preloaded into it, and into all that it starts,
notes the calls and writes them to a pipe; what a process had not written when it ended lies in a
file of its own, and is collected at the end.
"""

from __future__ import annotations

import fcntl
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from loft_malloc import allocators, elf, linked, metrics, places, program, trace_file
from loft_malloc.allocators import Allocator
from loft_malloc.errors import NOT_EXECUTABLE, UserError
from loft_malloc.older import F_SETPIPE_SZ
from loft_malloc.outcome import Outcome
from loft_malloc.printable import printable
from loft_malloc.profile.steps import Steps

# Where the files of the processes lie: in memory, if the system has such a place.
MEMORY = Path("/dev/shm")
CHUNK = 4096
HEADER = 48
PIECE = 1 << 20


def record(command: list[str], out: Path, *, force: bool) -> int:
    program.check(command)
    # A pipe or a device has nothing to lose, and neither has what mktemp made.
    if not force and out.is_file() and out.stat().st_size:
        raise UserError(f"{out} is there already; --force replaces it")
    path = program.last(program.executed(command))
    if elf.defines_malloc(path):
        raise UserError(f"{path} has a malloc of its own, whose calls cannot be recorded")
    for library in linked.allocators(path):
        say(f"{path} is linked with {library}: its operator new is not recorded")
    with trace_file.written(out) as file, _folder() as folder:
        header = {
            "command": command,
            "loft": places.version(),
            "machine": platform.machine(),
            "system": platform.release(),
            "libc": " ".join(platform.libc_ver()),
            "page_bytes": os.sysconf("SC_PAGE_SIZE"),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        writer = trace_file.Writer(file, header)
        started = time.monotonic()
        outcome = _run(command, folder, writer)
        seconds = time.monotonic() - started
        _collect(folder, writer)
        writer.finish({"outcome": str(outcome), "code": outcome.exit_code, "seconds": seconds})
        if outcome.exit_code:
            say(f"the command failed: {outcome}")
        if writer.bytes_in:
            size = metrics.kibibytes(file.tell() / 1024)
            say(f"{out}: {metrics.kibibytes(writer.bytes_in / 1024)} of calls, {size} packed")
        else:
            say(f"{out}: no process could be recorded")
    return outcome.exit_code


def say(what: str) -> None:
    print(f"loft: {printable(what)}", file=sys.stderr, flush=True)


@contextmanager
def _folder() -> Iterator[Path]:
    place = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="loft-record-", dir=place) as name:
        yield Path(name)


def _run(command: list[str], folder: Path, writer: trace_file.Writer) -> Outcome:
    """Runs it to its end; what comes through the pipe meanwhile goes to the writer."""
    os.mkfifo(folder / "pipe", 0o600)
    pipe = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with suppress(OSError):
        fcntl.fcntl(pipe, F_SETPIPE_SZ, PIECE)
    # So that the pipe is never at its end, however many come and go at the other side.
    kept = os.open(folder / "pipe", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        none = Allocator("glibc", None)
        preloaded = allocators.preload_value(none, [places.find("loft-record.so")])
        variables = {"LD_PRELOAD": preloaded, "LOFT_RECORD_FOLDER": str(folder)}
        with _passing_signals() as passing:
            try:
                process = subprocess.Popen(command, env={**os.environ, **variables})
            except OSError as error:
                raise UserError(
                    f"{command[0]} cannot be executed: {error.strerror}", NOT_EXECUTABLE
                ) from None
            passing.begin(process)
            _read_until_end(process, pipe, writer)
        return Outcome.of_status(process.wait())
    finally:
        os.close(kept)
        os.close(pipe)


class _Passing:
    """Signals on their way to the command. Ctrl-C reaches it as it is; its end is waited for."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # Those that came before there was a command.
        self._early: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        elif number != signal.SIGINT:
            self._process.send_signal(number)

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for number in self._early:
            process.send_signal(number)


@contextmanager
def _passing_signals() -> Iterator[_Passing]:
    passing = _Passing()
    # What is ignored already, as under nohup, is to stay so.
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, passing) for number in numbers}
    try:
        yield passing
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read_until_end(process: subprocess.Popen[bytes], pipe: int, writer: trace_file.Writer) -> None:
    ended = os.pidfd_open(process.pid)
    try:
        over = False
        while not over:
            ready, _, _ = select.select([pipe, ended], [], [])
            # What was written before its end is in the pipe by now.
            over = ended in ready
            while piece := _read(pipe):
                writer.write(piece)
    finally:
        os.close(ended)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, PIECE)
    except BlockingIOError:
        return b""


def _collect(folder: Path, writer: trace_file.Writer) -> None:
    """What the threads of all processes had in their buffers when these ended."""
    left = [path for path in sorted(folder.iterdir()) if path.name != "pipe"]
    with Steps() as steps:
        for done, path in enumerate(left):
            steps.step("collecting what processes had left", done, len(left))
            with path.open("rb") as file:
                while len(chunk := file.read(CHUNK)) == CHUNK:
                    length = int.from_bytes(chunk[4:8], "little")
                    if HEADER < length <= CHUNK:
                        writer.write(chunk[:length])
