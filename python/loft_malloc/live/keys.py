"""Keys as they are pressed, and the terminal as it was at the end."""

from __future__ import annotations

import os
import select
import signal
import termios
import tty
from contextlib import suppress
from types import FrameType, TracebackType

# What a key sends that has no letter; others of the kind are nothing.
SPECIAL = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
    "\x1b": "escape", "\r": "enter", "\n": "enter", "\t": "tab",
}  # fmt: skip
PART = 64


class Keys:
    """Of this descriptor, if it is a terminal; else there are none, and waiting is only that."""

    def __init__(self, descriptor: int = 0) -> None:
        self.descriptor = descriptor
        self.active = os.isatty(descriptor)
        self.before: list[object] = []
        self.wake_out, self.wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.resized: object = None

    def __enter__(self) -> Keys:
        if self.active:
            self.before = termios.tcgetattr(self.descriptor)
            tty.setcbreak(self.descriptor)
            changed = termios.tcgetattr(self.descriptor)
            # Ctrl-Z would leave this screen to the shell.
            changed[6][termios.VSUSP] = b"\0"
            termios.tcsetattr(self.descriptor, termios.TCSANOW, changed)
        self.resized = signal.signal(signal.SIGWINCH, self._on_resize)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGWINCH, self.resized or signal.SIG_DFL)  # type: ignore[arg-type]
        if self.active:
            # What was typed meanwhile is no command for the shell.
            termios.tcsetattr(self.descriptor, termios.TCSAFLUSH, self.before)  # type: ignore[arg-type]

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        self.wake()

    def wake(self) -> None:
        """Ends the waiting; from any thread."""
        # A full pipe has enough of them.
        with suppress(BlockingIOError):
            os.write(self.wake_in, b".")

    def wait(self, limit_s: float) -> list[str]:
        """Until a key, a new size of the terminal, or the limit."""
        watched = [self.wake_out, *([self.descriptor] if self.active else [])]
        ready, _, _ = select.select(watched, [], [], max(limit_s, 0))
        if self.wake_out in ready:
            os.read(self.wake_out, 4096)
        if self.descriptor not in ready or not self.active:
            return []
        data = os.read(self.descriptor, PART)
        if not data:
            # The terminal is gone.
            return ["q"]
        return split(data.decode(errors="replace"))


def split(text: str) -> list[str]:
    """A key for each letter, and one for each sequence."""
    keys = []
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == "\x1b" and text[at + 1 : at + 2] in ("[", "O"):
            end = at + 2
            while end < len(text) and not ("@" <= text[end] <= "~"):
                end += 1
            end += 1
        part = text[at:end]
        keys.append(SPECIAL.get(part, part if len(part) == 1 else ""))
        at = end
    return [key for key in keys if key]
