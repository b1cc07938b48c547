"""What an executable or a library says about itself, as far as preloading is concerned."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import InterpSegment


@dataclass(frozen=True)
class Elf:
    machine: str
    # The dynamic loader that the program asks for; None in what is statically linked, and in most
    # libraries.
    interpreter: str | None
    # Of the names below: what others see, and what is only there (a statically linked allocator
    # whose names the program does not export).
    exported: frozenset[str]
    defined: frozenset[str]
    # What it calls itself, and which libraries it asks the loader for.
    soname: str = ""
    needed: tuple[str, ...] = ()


# The second is in what libloft.a was linked into: the linker takes no function from there that the
# program does not call, and malloc itself needs this table.
LOFT_NAMES = frozenset({"loft_malloc", "_ZN4loft7pagemapE"})
NAMES = LOFT_NAMES | {"malloc"}
WHOLE_NAMES = re.compile(f"({'|'.join(sorted(NAMES))})\0".encode())
SHN_UNDEF = 0


@cache
def read(path: Path | None) -> Elf | None:
    """None if there is no file, or it is no ELF file or cannot be read."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            machine = f"{elf.elfclass}-bit {elf.get_machine_arch()}"
            segments = elf.iter_segments("PT_INTERP")
            found = (each.get_interp_name() for each in segments if isinstance(each, InterpSegment))
            exported, defined = (_defined_in(elf, name) for name in (".dynsym", ".symtab"))
            return Elf(machine, next(found, None), exported, defined, *_linked(elf))
    except Exception:
        # A damaged file raises whatever the place of the damage suggests.
        return None


def _linked(elf: ELFFile) -> tuple[str, tuple[str, ...]]:
    segments = elf.iter_segments("PT_DYNAMIC")
    dynamic = (each for each in segments if isinstance(each, DynamicSegment))
    # A tag has its text by its own name.
    tags = [vars(tag) for each in dynamic for tag in each.iter_tags()]
    sonames = [str(tag["soname"]) for tag in tags if "soname" in tag]
    return "".join(sonames[:1]), tuple(str(tag["needed"]) for tag in tags if "needed" in tag)


def _defined_in(elf: ELFFile, section_name: str) -> frozenset[str]:
    found = symbols(elf, section_name, WHOLE_NAMES)
    return frozenset(match[1].decode() for match, defined in found if defined)


# st_name and st_shndx, with what lies before, between and behind them.
ENTRIES = {32: "I10xH", 64: "I2xH16x"}


def symbols(
    elf: ELFFile, section_name: str, pattern: re.Pattern[bytes]
) -> Iterator[tuple[re.Match[bytes], bool]]:
    """The symbols whose names begin so, and whether the file defines each or lacks it.

    Large programs have a million symbols: only those that match become objects.
    """
    section = elf.get_section_by_name(section_name)
    if not isinstance(section, SymbolTableSection):
        return
    names = section.stringtable.data()
    entry = ("<" if elf.little_endian else ">") + ENTRIES[elf.elfclass]
    for name_at, section_index in struct.iter_unpack(entry, section.data()):
        if match := pattern.match(names, name_at):
            yield match, section_index != SHN_UNDEF


def replaces_malloc(path: Path | None) -> bool:
    elf = read(path)
    return elf is not None and "malloc" in elf.exported


def defines_malloc(path: Path) -> bool:
    """Also for itself alone."""
    elf = read(path)
    return elf is not None and "malloc" in elf.exported | elf.defined


def is_loft(path: Path | None) -> bool:
    """loft itself, or what is linked with libloft.a."""
    elf = read(path)
    return elf is not None and bool(LOFT_NAMES & (elf.exported | elf.defined))
