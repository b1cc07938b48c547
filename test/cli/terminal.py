"""A program in a terminal: what stands on its screen, and keys that are pressed there."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios

import pyte

PART = 1 << 16


class Terminal:
    def __init__(
        self, command: list[str], columns: int = 100, rows: int = 32, **variables: str
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.status: int | None = None
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            # Where the tests have no terminal, readline sets the second and the third in workers.
            left_out = ("NO_COLOR", "COLUMNS", "LINES")
            environment = {k: v for k, v in os.environ.items() if k not in left_out}
            # Its size is there before the program is.
            self._set_size(0, columns, rows)
            os.execve(command[0], command, {**environment, "TERM": "xterm-256color", **variables})

    @staticmethod
    def _set_size(file: int, columns: int, rows: int) -> None:
        fcntl.ioctl(file, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._set_size(self.file, columns, rows)

    def press(self, keys: str) -> None:
        os.write(self.file, keys.encode())

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, *parts: str, without: str = "") -> str:
        """The screen, once it shows all of these parts. A picture may come in pieces, so a test
        names here whatever it expects of the same picture."""
        while True:
            text = self.text()
            missing = [part for part in parts if part not in text]
            if not missing and not (without and without in text):
                return text
            assert self.read() or self.status is None, f"ended without {missing or without}\n{text}"

    def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(self.status or 0)

    def read(self) -> bool:
        """False once there is nothing more to come."""
        if self.status is not None:
            return False
        try:
            part = os.read(self.file, PART)
        except OSError:
            # The other side is closed.
            part = b""
        if not part:
            _, self.status = os.waitpid(self.pid, 0)
            return False
        self.raw += part
        self.stream.feed(part)
        return True

    def close(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.file)
