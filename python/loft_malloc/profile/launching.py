"""Runs a command under loft with its heap profiled: which files that leaves, and how it ended.

The command has this terminal, its input and its signals; this process waits, to read the profile.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from loft_malloc import options
from loft_malloc import run as run_command
from loft_malloc.errors import UserError
from loft_malloc.outcome import Outcome
from loft_malloc.profile.files import MOST_BYTES

SUFFIX = ".pb.gz"
# The mean between two samples, as the library has it.
BYTES = "512K"
# Ctrl-C at a terminal reaches the command by itself; these reach this process alone.
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
HANDLED = (signal.SIGINT, *PASSED_ON)


@dataclass(frozen=True)
class Wanted:
    """How the library is to profile."""

    bytes: str
    # At the exit (on), at the highest point of what is live, what nothing points to any more, or
    # what objects keep from being used by others.
    at: str = "peak"
    settings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        titles = {"on": "at its exit", "peak": "at its peak", "leaks": "leaks", "waste": "waste"}
        return titles[self.at]

    def variables(self, folder: Path) -> dict[str, str]:
        return {
            **options.environment(list(self.settings)),
            "LOFT_SAMPLE_BYTES": self.bytes,
            "LOFT_PROFILE": self.at,
            "LOFT_PROFILE_FILE": str(folder / f"heap.%p{SUFFIX}"),
        }


@dataclass(frozen=True)
class Ran:
    outcome: Outcome
    pid: int
    # By process, what each has left.
    files: dict[int, Path]
    # When it was started, by the clock that files are dated by.
    begun: float


def run(command: list[str], wanted: Wanted, folder: Path) -> Ran:
    environment = run_command.prepared(command, wanted.variables(folder))
    sys.stdout.flush()
    sys.stderr.flush()
    # Until both know what to do with them, no signal is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    begun = time.time()
    pid = os.fork()
    if pid == 0:
        _become(command, environment)
    with _signals_for(pid):
        _, status = os.waitpid(pid, 0)
    files = {}
    for path in sorted(folder.glob(f"heap.*{SUFFIX}")):
        number = path.name.removeprefix("heap.").removesuffix(SUFFIX)
        if number.isdigit() and path.stat().st_size <= MOST_BYTES:
            files[int(number)] = path
    return Ran(Outcome.of_status(os.waitstatus_to_exitcode(status)), pid, files, begun)


def _become(command: list[str], environment: dict[str, str]) -> None:
    """In the child, which never returns from here."""
    code = 1
    try:
        for number in HANDLED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        run_command.become(command, environment)
    except UserError as error:
        print(f"loft: {error}", file=sys.stderr, flush=True)
        code = error.exit_code
    finally:
        os._exit(code)


@contextmanager
def _signals_for(pid: int) -> Iterator[None]:
    """Meanwhile the command is who ends, and this process lives on to say how."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def stay(number: int, frame: FrameType | None) -> None:
        pass

    before = {number: signal.getsignal(number) for number in HANDLED}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, pass_on if number in PASSED_ON else stay)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
