"""`loft profile PID`: the profile of a process that runs, by its socket."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from loft_malloc import options
from loft_malloc.errors import UserError
from loft_malloc.live import find
from loft_malloc.live.client import Client, Refused
from loft_malloc.profile import command, files, made_code
from loft_malloc.profile.command import Shown, Target
from loft_malloc.profile.launching import BYTES
from loft_malloc.profile.model import Profile
from loft_malloc.profile.steps import Steps

HEAP, PEAK, OPTIONS = "/debug/pprof/heap", "/peak", "/options"
# What the process answers where its option is off.
UNAVAILABLE = 503
# How often the bar of a wait moves.
STEP_S = 0.2


@dataclass(frozen=True)
class Wanted:
    peak: bool = False
    # How long to look; 0 for what there is.
    seconds: float = 0
    # Switch the profile on first, with so many bytes between two samples.
    start: bool = False
    bytes: str = BYTES

    def check(self, shown: Shown) -> None:
        if self.seconds and (self.peak or shown.base is not None):
            raise UserError("--seconds compares two moments; leave out --peak and --base")
        if self.bytes != BYTES and not self.start:
            raise UserError("with a running process, --bytes needs --start")
        options.check_bytes("--bytes", self.bytes)


def fetched(client: Client, name: str = HEAP) -> Profile:
    """Raises how to switch it on, where that is what lacks."""
    try:
        data = client.get(name)
    except Refused as error:
        if error.status != UNAVAILABLE:
            raise
        who = client.pid or f"--socket {client.path}"
        raise UserError(
            f"process {client.pid or client.path} has no profile: its option profile is off; "
            f"loft profile {who} --start switches it on, for what is allocated from then on",
            1,
        ) from None
    return files.parsed(data, f"{client.path}{name}")


def attach(pid: int | None, socket: Path | None, wanted: Wanted, shown: Shown) -> int:
    wanted.check(shown)
    base = None if shown.base is None else files.read(shown.base)
    shown.check()
    client = find.client_of(pid, socket)
    if wanted.start:
        _start(client, wanted)
        if not wanted.seconds:
            print(f"{_name(client)} takes samples from now on; without --start they are shown")
            return 0
    against = "" if shown.base is None else str(shown.base)
    with Steps() as steps:
        steps.step("asking the process")
        if wanted.seconds:
            base, against = fetched(client), f"{wanted.seconds:g} s before"
            _wait(wanted.seconds, steps)
        profile = fetched(client, PEAK if wanted.peak else HEAP)
        _name_made_code(client, profile, *([base] if wanted.seconds and base else []))
    title = f"{_name(client)}, {'at its peak' if wanted.peak else 'now'}"
    if base is None:
        command.look_at_allocated(profile)
    said = [] if profile.samples else ["no samples yet"]
    command.show(profile, base, shown, Target(Console(), title, shown.output, against), said)
    return 0


def _name_made_code(client: Client, *profiles: Profile) -> None:
    if client.pid is None:
        return
    # A process that has just ended has left nothing to look at.
    with suppress(psutil.Error):
        process = psutil.Process(client.pid)
        path, begun, owner = (
            made_code.of_process(client.pid), process.create_time(), process.uids().effective
        )  # fmt: skip
        for profile in profiles:
            made_code.name(profile, path, begun, owner)


def _name(client: Client) -> str:
    return f"{find.name_of(client.pid or 0)} {client.pid or client.path}".strip()


def _start(client: Client, wanted: Wanted) -> None:
    lines = [f"sample_bytes={wanted.bytes}"] if wanted.bytes != BYTES else []
    client.post(OPTIONS, "\n".join([*lines, "profile=on"]))


def _wait(seconds: float, steps: Steps) -> None:
    begun = time.monotonic()
    while (left := begun + seconds - time.monotonic()) > 0:
        steps.step(f"{left:.0f} s left", int((seconds - left) * 1000), int(seconds * 1000))
        time.sleep(min(left, STEP_S))
