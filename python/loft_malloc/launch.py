"""One run of a command: what it cost, how it ended, and nothing left of it afterwards.

All that is measured is started here: by `loft compare`, and by the scripts in tools/.
"""

from __future__ import annotations

import errno
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal, Union

import psutil

from loft_malloc import places
from loft_malloc.allocators import Allocator
from loft_malloc.errors import NOT_EXECUTABLE, UserError
from loft_malloc.outcome import Outcome

# A process that the kernel does not let go (it waits for a disk) is not waited for longer.
KILL_LIMIT_S = 10.0
KILL_STEP_S = 0.005


@dataclass(frozen=True)
class Job:
    command: list[str]
    preload: str
    timeout_s: float | None = None
    # What becomes of what the command writes.
    output: Literal["drop", "show", "keep"] = "drop"
    count: bool = False
    # Its LD_PRELOAD is left out: it is the launcher's own.
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path | None = None


def job(
    command: list[str],
    allocator: Allocator,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> Job:
    """What the scripts run: one command under one allocator, of which they read what it wrote."""
    mine = os.environ if environment is None else environment
    return Job(
        command,
        str(allocator.library or ""),
        timeout_s,
        output="keep",
        environment={**mine, **allocator.variables},
    )


@dataclass(frozen=True)
class Usage:
    """From the kernel's own account of the command and the children it waited for."""

    wall_s: float
    user_s: float
    system_s: float
    # The largest of these processes, not their sum.
    peak_rss_kib: int
    minor_faults: int
    major_faults: int
    # How often a thread gave its processor away to wait: for a lock, another thread, a disk.
    sleeps: int


USAGE_UNITS = {
    "wall_s": "s",
    "user_s": "s",
    "system_s": "s",
    "peak_rss_kib": "KiB",
    "minor_faults": "faults",
    "major_faults": "faults",
    "sleeps": "sleeps",
}
COUNTS_UNITS = {"instructions": "instructions", "cycles": "cycles"}


@dataclass(frozen=True)
class Counts:
    """Counted by the processor, in user mode; or why not."""

    instructions: int = 0
    cycles: int = 0
    missing: int = 0


@dataclass(frozen=True)
class Result:
    outcome: Outcome
    # None if there was no end to account for.
    usage: Usage | None
    counts: Counts
    # Processes that were still there when the command had ended.
    left_behind: int
    # What the command wrote, if it was to be kept.
    stdout: str = ""
    stderr: str = ""

    @property
    def complaint(self) -> str:
        """How it ended, and the last that it said of it; empty if it ended well."""
        last = self.stderr.strip().splitlines()[-1:] or ["no message"]
        return f"{self.outcome}: {last[0]}" if self.outcome.exit_code else ""


# Called again and again while the command runs, with the process above all of the command's;
# returns after how many seconds it wants to be called again.
Watcher = Callable[[psutil.Process], float]
Output = Union[IO[bytes], int, None]


def run(job: Job, watch: Watcher | None = None) -> Result:
    if job.output != "keep":
        unread = None if job.output == "show" else subprocess.DEVNULL
        return _run(job, watch, unread, unread)
    # Files, not pipes: nobody reads while the command runs.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        result = _run(job, watch, out, err)
        return replace(result, stdout=_written(out), stderr=_written(err))


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _run(job: Job, watch: Watcher | None, out: Output, err: Output) -> Result:
    report_in, report_out = os.pipe()
    gate_in, gate_out = os.pipe()
    told = [str(report_out), str(gate_in), job.preload, str(int(job.count))]
    launcher = None
    try:
        launcher = subprocess.Popen(
            [places.find("loft-launch"), *told, *job.command],
            env={name: text for name, text in job.environment.items() if name != "LD_PRELOAD"},
            cwd=job.folder,
            pass_fds=(report_out, gate_in),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            # Ctrl-C at the terminal is ours to handle.
            start_new_session=True,
        )
        os.close(report_out)
        report_out = -1
        process = psutil.Process(launcher.pid)
        line = _read_line(report_in, process, job.timeout_s, watch)
        return _result(line, end_all_below(process), job.command[0])
    finally:
        if launcher is not None:
            end_all_below(psutil.Process(launcher.pid))
            launcher.kill()
            launcher.wait()
        for descriptor in (report_in, report_out, gate_in, gate_out):
            if descriptor >= 0:
                os.close(descriptor)


def _read_line(
    report: int, process: psutil.Process, timeout_s: float | None, watch: Watcher | None
) -> bytes:
    """What the launcher reports; empty when the time is over."""
    started = time.monotonic()
    text = b""
    while not text.endswith(b"\n"):
        waits = [] if watch is None else [watch(process)]
        if timeout_s is not None:
            left = started + timeout_s - time.monotonic()
            if left <= 0:
                return b""
            waits.append(left)
        # Without a watcher or a limit this sleeps until the command ends: nobody disturbs it.
        ready, _, _ = select.select([report], [], [], min(waits) if waits else None)
        if ready:
            part = os.read(report, 4096)
            if not part:
                raise UserError("loft-launch ended without a report", 1)
            text += part
    return text


def _result(line: bytes, left_behind: int, name: str) -> Result:
    if not line:
        return Result(Outcome("timeout"), None, Counts(), left_behind)
    # Where nothing could be executed, the child says so, and the end of the child may follow.
    first, _, _ = line.partition(b"\n")
    word, *fields = first.decode().split()
    numbers = [int(part) for part in fields]
    if word == "exec":
        raise UserError(f"{name} cannot be executed: {os.strerror(numbers[0])}", NOT_EXECUTABLE)
    status, wall_ns, user_us, system_us, *counted, instructions, cycles = numbers
    usage = Usage(wall_ns / 1e9, user_us / 1e6, system_us / 1e6, *counted)
    if instructions < 0 or cycles < 0:
        counts = Counts(missing=-min(instructions, cycles))
    elif instructions == 0 or cycles == 0:
        # The kernel had the counters, but not for us.
        counts = Counts(missing=errno.EBUSY)
    else:
        counts = Counts(instructions, cycles)
    outcome = Outcome.of_status(os.waitstatus_to_exitcode(status))
    return Result(outcome, usage, counts, left_behind)


def end_all_below(process: psutil.Process) -> int:
    """Kills every process below this one, those started meanwhile too; how many there were."""
    killed: set[int] = set()
    empty_looks = 0
    limit = time.monotonic() + KILL_LIMIT_S
    # One look can miss a process whose parent ends meanwhile: it is just moving to the launcher.
    while empty_looks < 2 and time.monotonic() < limit:
        alive = living_below(process)
        if not alive:
            empty_looks += 1
            continue
        empty_looks = 0
        for each in alive:
            killed.add(each.pid)
            with suppress(psutil.NoSuchProcess):
                each.kill()
        time.sleep(KILL_STEP_S)
    return len(killed)


def living_below(process: psutil.Process) -> list[psutil.Process]:
    living = []
    with suppress(psutil.NoSuchProcess):
        for each in process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if each.status() != psutil.STATUS_ZOMBIE:
                    living.append(each)
    return living
