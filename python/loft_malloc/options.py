"""loft's options as the command line gives them, `name=value`, and as a program receives them."""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from loft_malloc.errors import UserError
from loft_malloc.places import PACKAGE

PREFIX = "LOFT_"
INDENT = " " * 6
# Below this a name has little in common with an option's and is somebody else's variable.
CLOSE = 0.62


@dataclass(frozen=True)
class Option:
    """Without choices its value is one of its unit: bytes, milliseconds, a path and others."""

    unit: str
    choices: list[str]
    default: str
    # What it does, in a sentence or more.
    meaning: str = ""


# tools/gen_options_doc.py writes them from the table in src/base/options.h.
OPTIONS = {
    name: Option(**given)
    for name, given in json.loads((PACKAGE / "options.json").read_text(encoding="utf-8")).items()
}
SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}
# The values of each unit, and what is said of others.
ACCEPTED = {
    "milliseconds": (r"[0-9]{1,19}", "a number of milliseconds, such as 500"),
    "path": (r".{1,4095}", "a path"),
    "signal": (r"(SIG)?[A-Z][A-Z0-9]*|[0-9]{1,2}|none", "a signal, such as USR2 or 12, or none"),
    "bytes": (r"0*([0-9]{1,20})([KMGkmg]?)", "a number of bytes, such as 4096, 64K or 2M"),
}


def environment(settings: list[str]) -> dict[str, str]:
    """The variables that set these options."""
    return {variable(name): value for name, value in map(checked, settings)}


def variable(name: str) -> str:
    return PREFIX + name.upper()


def misspelt(environment: Mapping[str, str]) -> list[str]:
    """What is to be said of variables that look like options and set none."""
    return [
        f"{name} is no option of loft and sets nothing; did you mean {variable(meant)}?"
        for name in sorted(environment)
        if (meant := _meant(name)) is not None
    ]


def _meant(name: str) -> str | None:
    """The option whose variable this nearly is."""
    if not name.upper().startswith(PREFIX) or name in map(variable, OPTIONS):
        return None
    return next(iter(_near(name[len(PREFIX) :].lower())), None)


def _near(asked: str) -> list[str]:
    begun = [option for option in OPTIONS if asked and option.startswith(f"{asked}_")]
    return begun or difflib.get_close_matches(asked, OPTIONS, 1, CLOSE)


def checked(setting: str) -> tuple[str, str]:
    """The name and the value of `name=value`; an error if there is no such option or value."""
    name, equals, value = setting.partition("=")
    if not equals:
        raise UserError(f"option {setting}: write name=value, such as stats=text")
    if name not in OPTIONS:
        near = next(iter(_near(name)), None)
        known = f"did you mean {near}?" if near else "`loft run --help` lists all"
        raise UserError(f"there is no option {name!r}; {known}")
    option = OPTIONS[name]
    words = "|".join(map(re.escape, option.choices)), ", ".join(option.choices)
    pattern, accepted = ACCEPTED.get(option.unit, words)
    if not re.fullmatch(pattern, value) or (option.unit == "bytes" and _bytes(value) is None):
        raise UserError(f"{name}={value}: expected {accepted}")
    return name, value


def _bytes(value: str) -> int | None:
    """None if it is no number of bytes, or one that has no room in the library's."""
    match = re.fullmatch(ACCEPTED["bytes"][0], value)
    number = int(match[1]) << SHIFTS[match[2].upper()] if match else 1 << 64
    return number if number < 1 << 64 else None


def check_bytes(name: str, value: str) -> None:
    """Of an option of a command, and none of these."""
    if not _bytes(value):
        raise UserError(f"{name} {value}: expected {ACCEPTED['bytes'][1]}")


def table() -> str:
    """The options for a help text: what each accepts, its default and its meaning."""
    lines = []
    for name, option in OPTIONS.items():
        default = f"  (default {option.default})" if option.default else ""
        lines.append(f"  {name}={'|'.join(option.choices) or option.unit.upper()}{default}")
        lines += textwrap.wrap(
            f"{option.meaning}.", 78, initial_indent=INDENT, subsequent_indent=INDENT
        )
    return "\n".join(lines)
