"""Which allocators a program or a library contains under names of their own.

Preloading replaces `malloc` and its kin. A program that takes memory from `_rjem_malloc` or
`mi_malloc` never asks for that, and nothing that is preloaded reaches those calls.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

from loft_malloc import elf, linked
from loft_malloc.older import tomllib
from loft_malloc.places import PACKAGE


@dataclass(frozen=True)
class Signature:
    """A table of signatures.toml, which says what these are."""

    name: str
    takes: str
    inner: str = "(?!)"
    texts: Mapping[str, str] = field(default_factory=dict)
    remedy: str = "build it without that allocator, if it has an option for that"


CALLS = "malloc|calloc|realloc|free|memalign|aligned_alloc|posix_memalign"
WRITTEN = (PACKAGE / "signatures.toml").read_text(encoding="utf-8").replace("CALLS", CALLS)
SIGNATURES = [Signature(name, **given) for name, given in tomllib.loads(WRITTEN).items()]
GO = "Go's runtime"
# A text longer than this is neither a name nor a message.
MOST_TEXT = 200


@dataclass(frozen=True)
class Contained:
    allocator: str
    # What gave it away.
    sign: str
    # A text alone may be there for another reason.
    certain: bool
    remedy: str

    def __str__(self) -> str:
        if self.certain:
            return f"{self.allocator} (it defines {self.sign})"
        return f"what looks like {self.allocator} (the text {self.sign!r})"


@cache
def allocators(path: Path) -> tuple[Contained, ...]:
    """Those that this file contains; none where it cannot be read, and loft is not counted."""
    if elf.is_loft(path):
        return ()
    (symbols, _), texts = _symbols(path), _texts(path)
    return tuple(
        Contained(
            each.name, symbols.get(each.name) or texts[each.name], each.name in symbols, each.remedy
        )
        for each in SIGNATURES
        if each.name in symbols or each.name in texts
    )


def taken_from(path: Path, library: Path) -> str | None:
    """A function by which this file takes memory from this library's allocator past malloc."""
    (there, _), (_, asked_for) = _symbols(library), _symbols(path)
    return next((symbol for name, symbol in asked_for.items() if name in there), None)


def libraries(path: Path) -> list[Path]:
    """Those loaded with a program that contain allocators; whole mallocs are not among them."""
    return [
        library
        for library in linked.libraries(path)
        if not linked.is_libc(library) and not elf.replaces_malloc(library) and allocators(library)
    ]


# Groups by the number of the signature. The compiler appends something to the name of a part or a
# variant of a function that it has made a function of its own.
NAMES = re.compile(
    (
        "(?:"
        + "|".join(
            f"(?P<takes_{i}>{signature.takes})|(?P<inner_{i}>{signature.inner})"
            for i, signature in enumerate(SIGNATURES)
        )
        + r")(?:\.\w+)*\0"
    ).encode()
)


@cache
def _symbols(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """A function of each allocator that the file defines, and one that it asks for, by the
    allocator's name."""
    here: dict[str, str] = {}
    asked_for: dict[str, str] = {}
    try:
        with path.open("rb") as file:
            described = ELFFile(file)
            for section_name in (".dynsym", ".symtab"):
                for match, defined in elf.symbols(described, section_name, NAMES):
                    kind, _, number = (match.lastgroup or "").partition("_")
                    name, symbol = SIGNATURES[int(number)].name, match[0].rstrip(b"\0").decode()
                    if defined:
                        here.setdefault(name, symbol)
                    elif kind == "takes":
                        asked_for.setdefault(name, symbol)
    except Exception:
        # A damaged file raises whatever the place of the damage suggests.
        pass
    return here, asked_for


def _texts(path: Path) -> dict[str, str]:
    """A text of each allocator, by the allocator's name."""
    found: dict[str, str] = {}
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                start = segment["p_offset"]
                end = start + segment["p_filesz"]
                for signature in SIGNATURES:
                    for part, whole in signature.texts.items():
                        if string := _text(content, part.encode(), whole, start, end):
                            found.setdefault(signature.name, string)
    except Exception:
        # It is empty and cannot be mapped, or damaged.
        pass
    return found


def _text(content: mmap.mmap, part: bytes, whole: str, start: int, end: int) -> str | None:
    """The first C string between two places that holds the part and is such a text."""
    at = content.find(part, start, end)
    while at >= 0:
        first = content.rfind(b"\0", max(start, at - MOST_TEXT), at) + 1 or start
        last = content.find(b"\0", at, min(end, at + MOST_TEXT))
        string = content[first:last].decode(errors="replace")
        if last >= 0 and re.fullmatch(whole, string, re.DOTALL):
            return string.strip()
        at = content.find(part, at + 1, end)
    return None
