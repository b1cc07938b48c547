"""`loft env`: the variables that put a program under loft, in the words of whoever starts it.

Each form quotes as its reader unquotes. A file of plain lines has two readers, which agree only
where nothing is quoted: systemd takes quotes and backslashes out, Docker leaves them in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Literal

from loft_malloc import options, preload
from loft_malloc.errors import UserError
from loft_malloc.places import library

Form = Literal["plain", "shell", "systemd", "docker"]
# What systemd and Docker both take as it stands.
PLAIN = re.compile(r"[A-Za-z0-9_./+@:,~-]*")


def env(settings: list[str], form: Form, path: str) -> list[str]:
    """The lines. The library is this one, or where another machine or an image has it."""
    if path and not path.startswith("/"):
        raise UserError(f"--library {path}: the loader needs an absolute path")
    file = path or str(library())
    preload.check(file)
    if "\n" in file or "\0" in file:
        raise UserError(f"{file!r}: a path must not have a line break")
    return FORMS[form]({"LD_PRELOAD": file, **options.environment(settings)})


def _plain(variables: Mapping[str, str]) -> list[str]:
    for name, value in variables.items():
        if not PLAIN.fullmatch(value):
            raise UserError(
                f"{name}={value}: systemd and Docker read this differently in a plain file; "
                "use --format systemd or --format docker"
            )
    return [f"{name}={value}" for name, value in variables.items()]


def _shell(variables: Mapping[str, str]) -> list[str]:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    # What the shell preloads already stays, behind loft, as with `loft run`.
    return [f'{lines[0]}"${{LD_PRELOAD:+:$LD_PRELOAD}}"', *lines[1:]]


def _systemd(variables: Mapping[str, str]) -> list[str]:
    def quoted(text: str) -> str:
        return re.sub(r'(["\\])', r"\\\1", text).replace("%", "%%")

    return ["[Service]", *(f'Environment="{n}={quoted(v)}"' for n, v in variables.items())]


def _docker(variables: Mapping[str, str]) -> list[str]:
    def quoted(text: str) -> str:
        return re.sub(r'(["\\$])', r"\\\1", text)

    return [f'ENV {name}="{quoted(value)}"' for name, value in variables.items()]


FORMS: dict[Form, Callable[[Mapping[str, str]], list[str]]] = {
    "plain": _plain,
    "shell": _shell,
    "systemd": _systemd,
    "docker": _docker,
}
