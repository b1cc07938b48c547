"""How a command ended, and how that reads."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TIMEOUT_CODE = 124
DIFFERENT_CODE = 1


@dataclass(frozen=True)
class Outcome:
    """The last three are a server's: its client failed, it ended before its client could, or it
    accepted no connection in time."""

    kind: Literal["exit", "signal", "timeout", "client", "early", "unready"]
    # The exit code, its own or the client's, or the number of the signal.
    number: int = 0

    @classmethod
    def of_status(cls, code: int) -> Outcome:
        """From what os.waitstatus_to_exitcode says."""
        return cls("exit", code) if code >= 0 else cls("signal", -code)

    @property
    def measurable(self) -> bool:
        """A command that exits has done its work, whatever its code says about the result."""
        return self.kind == "exit"

    @property
    def exit_code(self) -> int:
        """As a shell gives it."""
        if self.kind in ("timeout", "unready"):
            return TIMEOUT_CODE
        if self.kind == "early":
            return DIFFERENT_CODE
        return 128 + self.number if self.kind == "signal" else self.number

    def __str__(self) -> str:
        if self.kind == "timeout":
            return "killed at the time limit"
        if self.kind == "unready":
            return "no port opened in time"
        if self.kind == "early":
            return "ended before its client; a server has to stay in the foreground"
        if self.kind == "client":
            late = self.number == TIMEOUT_CODE
            return f"its client: {Outcome('timeout' if late else 'exit', self.number)}"
        if self.kind == "signal":
            return f"ended by {signal_name(self.number)}"
        # A shell that saw its command crash says so in its own exit code.
        by_shell = self.number - 128
        hint = f" (128 + {signal_name(by_shell)})" if by_shell in signal.valid_signals() else ""
        return f"exit code {self.number}{hint}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def judge(outcomes: Mapping[str, Counter[Outcome]]) -> tuple[list[str], int]:
    """What is to be said about how the runs ended under each allocator, and the exit code."""
    seen = {outcome for counter in outcomes.values() for outcome in counter}
    if len(seen) == 1:
        outcome = seen.pop()
        if outcome == Outcome("exit", 0):
            return [], 0
        return [f"the command ended alike under every allocator: {outcome}"], outcome.exit_code
    lines = []
    for name, counter in outcomes.items():
        ways = [
            f"{outcome} ({count} {'run' if count == 1 else 'runs'})"
            for outcome, count in counter.items()
        ]
        lines.append(f"under {name}: {', '.join(ways)}")
    return ["the command did not end alike under all allocators:", *lines], DIFFERENT_CODE
