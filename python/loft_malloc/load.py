"""A server under load: it is started, awaited, asked by a client, and stopped.

The server's process is what is measured; the wall time is the client's, which runs with no
allocator preloaded. All of it happens in the watcher of the server's run, between two looks at
whether the server has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace

import psutil

from loft_malloc import allocators, launch, ports
from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError
from loft_malloc.launch import Job, Result
from loft_malloc.memory import MemoryWatch
from loft_malloc.outcome import Outcome

# Servers that load their data first may take long.
START_LIMIT_S = 60.0
# From SIGTERM to SIGKILL; a server may write its data down.
STOP_LIMIT_S = 10.0
LOOK_S = 0.02
# While the client is at work: that its server lives.
CALM_LOOK_S = 0.25
# What stands for the port in the client's command.
PORT = "{port}"


@dataclass(frozen=True)
class Load:
    client: list[str]
    # Where the server is to listen; None is wherever it does.
    port: int | None = None


class ServerEnded(Exception):
    """There is nobody left whom the client could ask."""


def run(load: Load, server: Job, watch: MemoryWatch | None, tail_s: float) -> Result:
    """The outcome of both, the server's account with the client's wall time, and what the client
    wrote. The limit of time is the client's."""
    if load.port is not None and load.port in ports.listening().values():
        raise UserError(
            f"--port {load.port}: something listens there already, and would be asked instead; "
            "end it, or take another port"
        )
    session = Session(load, server, watch, STOP_LIMIT_S + tail_s)
    return session.judged(launch.run(replace(server, timeout_s=None), session))


@dataclass
class Session:
    """A launch.Watcher of the server's run."""

    load: Load
    server: Job
    watch: MemoryWatch | None
    stop_limit_s: float
    client: Result | None = None
    # What kept the client from its work.
    failure: Outcome | None = None
    # By itself, before it was asked to.
    server_ended: bool = False
    killed: bool = False
    started: float = field(default_factory=time.monotonic)
    _stopped_at: float | None = None
    _command: psutil.Process | None = None

    def __call__(self, launcher: psutil.Process) -> float:
        pause = LOOK_S if self.watch is None else min(LOOK_S, self.watch(launcher))
        if self._command is None:
            # The first is the command itself; what it leaves behind becomes the launcher's later.
            self._command = next(iter(launcher.children()), None)
        if self._stopped_at is not None:
            self._end_at_last(launcher)
            return pause
        port = self._port(launcher)
        if port is not None:
            self._ask(launcher, port)
            self._stop()
        elif time.monotonic() - self.started > START_LIMIT_S:
            self.failure = Outcome("unready")
            self._stop()
        return pause

    def _port(self, launcher: psutil.Process) -> int | None:
        """Where the server accepts connections; None if it does not yet."""
        wanted = self.load.port
        if wanted is None:
            return ports.of_processes(launch.living_below(launcher))
        return wanted if wanted in ports.listening().values() else None

    def _ask(self, launcher: psutil.Process, port: int) -> None:
        def look(_: psutil.Process) -> float:
            if not _lives(self._command):
                raise ServerEnded
            return CALM_LOOK_S if self.watch is None else self.watch(launcher)

        job = Job(
            [word.replace(PORT, str(port)) for word in self.load.client],
            allocators.preload_value(Allocator("glibc", None), []),
            self.server.timeout_s,
            "keep",
            environment=dict(os.environ),
        )
        try:
            self.client = launch.run(job, look)
        except ServerEnded:
            self.server_ended = True
            return
        if self.server.output == "show":
            sys.stdout.write(self.client.stdout)
            sys.stderr.write(self.client.stderr)
        self.server_ended = not _lives(self._command)
        if self.client.outcome.exit_code:
            self.failure = Outcome("client", self.client.outcome.exit_code)

    def _stop(self) -> None:
        self._stopped_at = time.monotonic()
        # A server that has others work for it ends them itself.
        if self._command is not None:
            with suppress(psutil.NoSuchProcess):
                self._command.send_signal(signal.SIGTERM)

    def _end_at_last(self, launcher: psutil.Process) -> None:
        assert self._stopped_at is not None
        if time.monotonic() - self._stopped_at <= self.stop_limit_s:
            return
        if self.killed:
            raise UserError(f"{self.server.command[0]} does not end, even when it is killed", 1)
        self.killed = True
        launch.end_all_below(launcher)

    def judged(self, result: Result) -> Result:
        usage = result.usage
        if usage is not None and self.client is not None and self.client.usage is not None:
            usage = replace(usage, wall_s=self.client.usage.wall_s)
        wrote = self.client or result
        return replace(
            result,
            outcome=self._outcome(result.outcome),
            usage=usage,
            stdout=wrote.stdout,
            stderr=wrote.stderr,
        )

    def _outcome(self, server: Outcome) -> Outcome:
        asked_to_end = [128 + signal.SIGTERM, *([128 + signal.SIGKILL] if self.killed else [])]
        # A client that fails because the server has crashed is not to blame. One that was ended
        # with it, or had not begun, has said nothing either.
        if server.kind == "signal" and server.exit_code not in asked_to_end:
            return server
        if self.server_ended or (self.client is None and self.failure is None):
            return server if server.exit_code else Outcome("early")
        if self.failure is not None:
            return self.failure
        # Some exit with the number that a shell gives to a signal.
        return Outcome("exit") if server.exit_code in asked_to_end else server


def _lives(process: psutil.Process | None) -> bool:
    try:
        return process is not None and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
