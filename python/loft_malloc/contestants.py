"""Who takes part in a comparison: allocators by name or path, each with settings of its own.

`--with` gives one contestant after another, with commas between them. A contestant is a name, or a
name and settings: `loft:owner=cpu;decay_ms=0`. What a setting sets is an option of loft, and for
the others a variable of the environment. A backslash takes the meaning of a comma, a semicolon or
a backslash behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from loft_malloc import elf, options
from loft_malloc.allocators import PAPER_PEERS, Allocator
from loft_malloc.errors import UserError
from loft_malloc.printable import printable

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def chosen(texts: list[str], there: list[Allocator]) -> list[Allocator]:
    """Those that the texts name, or all that are there but the papers'."""
    named = [each for text in texts for each in split(text, ",") if each]
    if not named:
        return [each for each in there if each.name not in PAPER_PEERS]
    by_name = {allocator.name: allocator for allocator in there}
    picked: dict[str, Allocator] = {}
    # A comma that was meant to be of a value.
    hint = "; put a backslash before a comma inside a value" if any(map(_sets, named)) else ""
    for text in named:
        allocator = _contestant(text, by_name, hint)
        if picked.setdefault(allocator.name, allocator) != allocator:
            raise UserError(f"--with: two libraries are called {allocator.name}; rename one")
    return list(picked.values())


def split(text: str, separator: str) -> Iterator[str]:
    """The parts between separators without a backslash before them; backslashes stay."""
    start = 0
    for match in re.finditer(rf"\\.|{re.escape(separator)}", text, re.DOTALL):
        if match[0] == separator:
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def _plain(text: str) -> str:
    return re.sub(r"\\([,;\\])", r"\1", text)


def _contestant(text: str, by_name: dict[str, Allocator], hint: str) -> Allocator:
    name, colon, settings = text.partition(":")
    name = _plain(name)
    allocator = by_name.get(name) or _given(name, list(by_name), hint)
    if not colon:
        return allocator
    given = [_setting(name, _plain(each)) for each in split(settings, ";") if each]
    if not given:
        raise UserError(f"--with {name}: settings follow the colon, as {_form()}")
    if elf.is_loft(allocator.library):
        variables = options.environment([f"{key}={value}" for key, value in given])
    else:
        variables = dict(_variable(name, key, value) for key, value in given)
    called = " ".join([allocator.name, *(f"{key}={value}" for key, value in given)])
    return replace(allocator, name=printable(called), variables=variables)


def _sets(text: str) -> bool:
    return ":" in text


def _form() -> str:
    return "name:key=value;key=value"


def _setting(name: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(
            f"--with {name}: {text!r} sets nothing; write {_form()}, and put a backslash before "
            "a comma inside a value"
        )
    return key, value


def _variable(name: str, key: str, value: str) -> tuple[str, str]:
    if not VARIABLE.fullmatch(key):
        raise UserError(f"--with {name}: {key!r} is not the name of an environment variable")
    if key == "LD_PRELOAD":
        raise UserError(f"--with {name}: a comparison sets LD_PRELOAD itself")
    return key, value


def _given(name: str, known: list[str], hint: str) -> Allocator:
    """A library of the user's."""
    path = Path(name)
    if not path.is_file():
        if "/" in name:
            raise UserError(f"--with {name}: there is no such file")
        raise UserError(
            f"--with {name}: there is no allocator of that name, only {', '.join(known)}; "
            f"a library can be named by its path{hint}"
        )
    if not elf.replaces_malloc(path):
        raise UserError(f"--with {name}: not a library that defines malloc")
    return Allocator(printable(path.stem), path.resolve())
