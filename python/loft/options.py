"""loft's options as the command line gives them, `name=value`, and as a program receives them."""

from __future__ import annotations

import re

from loft.errors import UserError
from loft.option_table import OPTIONS

SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}


def environment(settings: list[str]) -> dict[str, str]:
    """The variables that set these options."""
    return {f"LOFT_{name.upper()}": value for name, value in map(_checked, settings)}


def _checked(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise UserError(f"--option {setting}: write name=value, such as stats=1")
    if name not in OPTIONS:
        raise UserError(f"no option is named {name!r}; there are {', '.join(OPTIONS)}")
    option = OPTIONS[name]
    if option.choices and value not in option.choices:
        raise UserError(f"{name}={value}: accepted is {', '.join(option.choices)}")
    if option.unit == "milliseconds" and not re.fullmatch(r"[0-9]{1,19}", value):
        raise UserError(f"{name}={value}: accepted is a number of milliseconds, such as 500")
    if option.unit == "processor" and not re.fullmatch(r"[0-9]{1,4}|any", value):
        raise UserError(f"{name}={value}: accepted is a processor's number, such as 1, or any")
    if option.unit == "bytes" and not _is_byte_count(value):
        raise UserError(f"{name}={value}: accepted is a number of bytes, such as 4096, 64K or 2M")
    return name, value


def _is_byte_count(text: str) -> bool:
    match = re.fullmatch(r"([0-9]+)([KMGkmg]?)", text)
    return match is not None and int(match[1]) << SHIFTS[match[2].upper()] < 1 << 64


def table() -> str:
    """The options for a help text, one a line."""
    width = max(map(len, OPTIONS))
    return "\n".join(
        f"{name:{width}}  {'|'.join(option.choices) or option.unit}, default {option.default}"
        for name, option in OPTIONS.items()
    )
