"""Which ports accept connections, and whose they are, without a connection being made.

A server of one connection would be done after a look that makes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

TABLES = ("tcp", "tcp6")
# The kernel's number of the state in which a socket accepts connections.
LISTENING = "0A"
SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening(folder: Path = Path("/proc/net")) -> dict[str, int]:
    """The ports, by the numbers of their sockets."""
    found = {}
    for table in TABLES:
        try:
            lines = (folder / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if len(fields) > 9 and fields[3] == LISTENING:
                found[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return found


def of_processes(processes: Iterable[psutil.Process]) -> int | None:
    """The lowest port at which one of them listens."""
    there = listening()
    theirs = (socket for each in processes for socket in _sockets(each.pid))
    return min((there[socket] for socket in theirs if socket in there), default=None)


def _sockets(pid: int) -> set[str]:
    found = set()
    # The process may end meanwhile, or close one of them: there is a next look.
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if match := SOCKET.fullmatch(str(entry.readlink())):
                    found.add(match[1])
    return found
