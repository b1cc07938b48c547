"""Asks a process for what its loft tells: HTTP over a Unix socket, a connection for each question.

Whoever answers is told by the system, so that no other process is taken for the one that is meant.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from loft_malloc.errors import UserError
from loft_malloc.printable import one_line

# An answer of a large heap takes a second; a process that is stopped gives none.
LIMIT_S = 20.0
# Above the map of a heap of a million slabs.
MOST_BYTES = 1 << 29
# What an address of a socket can hold.
MOST_PATH = 107
PEER = struct.Struct("3i")
MOST_SAID = 200


class Gone(UserError):
    """Nobody answers there any more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 1)


class Refused(UserError):
    """The process has answered that it will not, and why."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, 1)
        self.status = status


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        name = os.fspath(self.path)
        if len(os.fsencode(name)) <= MOST_PATH:
            self.sock.connect(name)
            return
        # A longer way to it is as good, by a folder that is open.
        folder = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self.path.name}")
        finally:
            os.close(folder)

    def peer(self) -> int:
        """The process that listens there; 0 if it is out of sight, in another container."""
        found = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        pid: int = PEER.unpack(found)[0]
        return pid


class Client:
    """One process's socket. With a `pid`, no other process may answer."""

    def __init__(self, path: Path, pid: int | None = None, limit_s: float = LIMIT_S) -> None:
        self.path = path
        self.pid = pid
        self.limit_s = limit_s

    def get(self, name: str) -> bytes:
        return self._ask("GET", name, None)

    def post(self, name: str, body: str = "") -> bytes:
        return self._ask("POST", name, body.encode())

    def json(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self.get(name))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self.path} does not answer {name} with JSON: {error}", 1) from None
        if not isinstance(found, dict):
            raise UserError(f"{self.path} answers {name} with JSON that is not an object", 1)
        return found

    def peer(self) -> int:
        """Who listens there. Nothing is asked."""
        connection = _Connection(self.path, self.limit_s)
        try:
            connection.connect()
            return connection.peer()
        except OSError as error:
            raise self._gone(error) from None
        finally:
            connection.close()

    def _ask(self, method: str, name: str, body: bytes | None) -> bytes:
        connection = _Connection(self.path, self.limit_s)
        try:
            connection.connect()
            self._check(connection.peer())
            # Who answers early, and reads no more, has still answered.
            with suppress(BrokenPipeError):
                connection.request(method, name, body)
            answer = connection.getresponse()
            data = answer.read(MOST_BYTES + 1)
            status = answer.status
            if answer.length and len(data) <= MOST_BYTES:
                raise http.client.IncompleteRead(data)
        except TimeoutError:
            raise UserError(
                f"{self.path} does not answer {name} within {self.limit_s:g} s; the process may "
                "be stopped",
                1,
            ) from None
        except (http.client.RemoteDisconnected, http.client.IncompleteRead):
            raise Gone(f"{self.path} has broken off its answer to {name}") from None
        except OSError as error:
            raise self._gone(error) from None
        except http.client.HTTPException as error:
            what = f"{type(error).__name__} {error}".strip()
            raise UserError(f"{self.path} does not speak HTTP as loft does: {what}", 1) from None
        finally:
            connection.close()
        if len(data) > MOST_BYTES:
            raise UserError(f"{self.path} answers {name} with more than {MOST_BYTES >> 20} MiB", 1)
        if status >= 300:
            said = one_line(" ".join(data[:MOST_SAID].decode(errors="replace").split()))
            raise Refused(
                f"{self.path} answers {name} with {status}: {said or answer.reason}", status
            )
        return data

    def _check(self, peer: int) -> None:
        if self.pid is not None and peer not in (0, self.pid):
            raise Gone(f"{self.path} is the socket of process {peer} and not of {self.pid}")

    def _gone(self, error: OSError) -> UserError:
        if isinstance(error, PermissionError):
            return UserError(f"{self.path}: only the process's user and root may use it", 1)
        return Gone(f"nobody answers at {self.path} ({error.strerror or error})")
