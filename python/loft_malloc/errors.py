"""What is wrong with what the user asked for, in one line."""

from __future__ import annotations

NOT_EXECUTABLE = 126
NOT_FOUND = 127


class UserError(Exception):
    """Printed as it is, without a traceback; the exit codes are a shell's."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
