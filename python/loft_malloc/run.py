"""`loft run`: a command under loft, in this process's place: signals and exit code are its own."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from loft_malloc import allocators, elf, options, places, preload, program
from loft_malloc.errors import NOT_EXECUTABLE, UserError

SHELL = "/bin/sh"


def run(command: list[str], settings: list[str], bounds: bool) -> NoReturn:
    before = [places.bounds()] if bounds else []
    become(command, prepared(command, options.environment(settings), before))


def prepared(
    command: list[str], variables: Mapping[str, str], before: Sequence[Path] = ()
) -> dict[str, str]:
    """The environment of a command under loft, with these variables and with these libraries in
    front of it; raises what is wrong."""
    program.check(command)
    for complaint in options.misspelt(os.environ):
        print(f"loft: {complaint}", file=sys.stderr, flush=True)
    there = preload.inherited()
    # A second one would be loaded and set up, and never called.
    others = [each for each in there if not elf.is_loft(allocators.preloaded(each, os.environ))]
    library = preload.value([*before, places.library()], others)
    return {**os.environ, **variables, "LD_PRELOAD": library}


def become(command: list[str], environment: dict[str, str]) -> NoReturn:
    # Python ignores these, and what is ignored stays so in the command.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        _execute(command, environment)
    except OSError as error:
        raise UserError(
            f"{command[0]} cannot be executed: {error.strerror}", NOT_EXECUTABLE
        ) from None


def _execute(command: list[str], environment: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    # A script that names no interpreter is the shell's, to shells and to execvp alike.
    name = command[0] if "/" in command[0] else str(program.find(command[0]).absolute())
    os.execve(SHELL, [SHELL, name, *command[1:]], environment)
