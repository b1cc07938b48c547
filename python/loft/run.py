"""`loft run`: a command under loft, in this process's place: signals and exit code are its own."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from loft import options, places, preload, program
from loft.errors import NOT_EXECUTABLE, UserError


def run(command: list[str], settings: list[str]) -> NoReturn:
    variables = options.environment(settings)
    program.check(command)
    library = preload.value([places.library()], preload.inherited())
    # Python ignores these, and what is ignored stays so in the command.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, {**os.environ, **variables, "LD_PRELOAD": library})
    except OSError as error:
        raise UserError(
            f"{command[0]} cannot be executed: {error.strerror}", NOT_EXECUTABLE
        ) from None
