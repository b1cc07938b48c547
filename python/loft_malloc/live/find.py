"""Which processes have a socket to ask, and where it is.

The environment says where a process was told to open it, and the kernel's table which sockets there
are. Neither proves whose a socket is; whoever connects is told, and nothing need be asked for that.
Descriptors are no help: the thread that serves has a table of its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loft_malloc.errors import UserError
from loft_malloc.live.client import Client

PROC = Path("/proc")
VARIABLE = "LOFT_SOCKET"
# In /proc/net/unix: the flag of a socket that listens.
LISTENS = 0x10000
# In the name of a socket that the environment does not name.
MARK = "loft"
RUN = Path(f"/run/user/{os.getuid()}")
PLACE = f"{RUN if RUN.is_dir() else '/tmp'}/loft.%p"
HOW = f"start it with {VARIABLE}={PLACE}, or with loft run --option socket={PLACE} -- CMD"


@dataclass(frozen=True)
class Found:
    """A process that can be asked."""

    pid: int
    path: Path

    def client(self) -> Client:
        return Client(self.path, self.pid)


def name_of(pid: int) -> str:
    """Of its program, as the kernel has it; empty if there is no such process."""
    try:
        return (PROC / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""


def started(pid: int) -> str:
    """When, in the kernel's ticks: another process of the same number has another."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return ""
    # Behind the name, which may have brackets and spaces: the state is the first of these.
    words = text.rpartition(")")[2].split()
    if words[0] in "ZX":
        return ""
    return words[19]


def client_of(pid: int | None, given: Path | None) -> Client:
    """The one that is meant, by its number or by its socket; raises how to come by one."""
    if given is not None:
        client = Client(given, pid)
        peer = client.peer()
        client.pid = pid or peer or None
        return client
    if pid is None:
        raise UserError("give a PID, or a socket with --socket")
    if not started(pid):
        raise UserError(f"there is no process {pid}")
    found = of(pid)
    if found is None:
        raise UserError(_why_none(pid))
    return found.client()


def of(pid: int) -> Found | None:
    table = PROC / str(pid) / "net" / "unix"
    marked = [path for path in _listening(table) if MARK in path.name]
    for path in dict.fromkeys([*_named(pid), *marked]):
        if (reached := _reached(pid, path)) is not None:
            return Found(pid, reached)
    return None


def everywhere() -> list[Found]:
    """Of all processes that this user may ask, by their numbers."""
    found = {}
    for path in _listening(PROC / "net" / "unix"):
        if MARK in path.name and path.is_absolute() and (peer := _peer(path)):
            found[peer] = Found(peer, path)
    pids = [int(each.name) for each in PROC.iterdir() if each.name.isdigit()]
    for pid in pids:
        for path in [] if pid in found else _named(pid):
            if (reached := _reached(pid, path)) is not None:
                found[pid] = Found(pid, reached)
                break
    return [found[pid] for pid in sorted(found)]


def remove_dead(there: list[Found]) -> list[Path]:
    """Removes this user's sockets of processes that are gone, from the folders of those that can be
    asked and from the one where `HOW` has them; returns which.

    A process that ends by a signal or by `_exit` leaves its socket, and with %p none replaces it.
    """
    own = Path(os.environ.get(VARIABLE) or PLACE)
    folders = [each.path.parent for each in there] + [own.parent, Path(PLACE).parent]
    removed = []
    for folder in dict.fromkeys(folder.absolute() for folder in folders):
        with suppress(OSError), _locked(folder):
            for path in sorted(folder.iterdir()):
                if MARK in path.name and _is_dead(path):
                    with suppress(OSError):
                        path.unlink()
                        removed.append(path)
    return removed


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """As the library locks it (inspect/place.cc): meanwhile no socket is there that is not listened
    on yet. OSError if it is being locked."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def _is_dead(path: Path) -> bool:
    """Whether it is this user's socket of a process that is gone, by whose number it is named."""
    numbers = re.findall(r"\d+", path.name)
    try:
        status = path.lstat()
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
            return False
        if not numbers or any(started(int(number)) for number in numbers):
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            return probe.connect_ex(os.fspath(path)) == errno.ECONNREFUSED
    except OSError:
        return False


def _why_none(pid: int) -> str:
    who = f"process {pid} ({name_of(pid)})"
    if not os.access(PROC / str(pid) / "environ", os.R_OK):
        return f"{who} belongs to another user; only that user and root may ask it"
    if given := _environment(pid).get(VARIABLE):
        return (
            f"{who} has {VARIABLE}={given} but does not listen there: it runs without loft, or is "
            f"the child of a fork, which opens its own socket. See loft doctor --pid {pid}"
        )
    return (
        f"{who} has no socket that loft can find: {HOW}; or name it with --socket. "
        "A program that makes itself a daemon is the child of a fork, and has none"
    )


def _environment(pid: int) -> dict[str, str]:
    try:
        data = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(each).partition("=") for each in data.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def _named(pid: int) -> list[Path]:
    """By the environment."""
    text = _environment(pid).get(VARIABLE, "")
    return [Path(text.replace("%p", str(_own_number(pid))))] if text else []


def _own_number(pid: int) -> int:
    """What the process itself takes for its number, in its container."""
    try:
        for line in (PROC / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    except OSError:
        pass
    return pid


def _listening(table: Path) -> list[Path]:
    """The paths of sockets on which somebody listens."""
    try:
        text = table.read_text(errors="surrogateescape")
    except OSError:
        return []
    found = []
    for line in text.split("\n")[1:]:
        # Num RefCount Protocol Flags Type St Inode Path
        words = line.split(maxsplit=7)
        if len(words) == 8 and int(words[3], 16) & LISTENS and not words[7].startswith("@"):
            found.append(Path(words[7]))
    return found


def _reached(pid: int, path: Path) -> Path | None:
    """The way to it from here, if the process listens there; it may have another root or folder."""
    root, folder = PROC / str(pid) / "root", PROC / str(pid) / "cwd"
    ways = [path, root / str(path).lstrip("/")] if path.is_absolute() else [folder / path]
    return next((way for way in ways if _peer(way) == pid), None)


def _peer(path: Path) -> int:
    """Who listens there; 0 if nobody does, or one who is out of sight."""
    try:
        return Client(path).peer()
    except UserError:
        return 0
