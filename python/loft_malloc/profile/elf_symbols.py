"""Names from an ELF file's tables of symbols: what is left without debug information."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

# Name, value, size, info, section: of a symbol, by the file's class.
ENTRIES = {32: ("IIIBxH", (0, 1, 2, 3, 4)), 64: ("IBxHQQ", (0, 3, 4, 1, 2))}
# Functions, and those that the loader chooses by the processor.
FUNCTION_TYPES = (2, 10)


@dataclass(frozen=True)
class Symbols:
    starts: list[int]
    ends: list[int]
    names: list[str]

    def name(self, address: int) -> str | None:
        index = bisect_right(self.starts, address) - 1
        return self.names[index] if index >= 0 and address < self.ends[index] else None


def read(path: Path) -> Symbols:
    found: dict[int, tuple[int, str]] = {}
    with path.open("rb") as file:
        elf = ELFFile(file)
        # What others see is a part of what is there, but the other part may be stripped.
        for section_name in (".dynsym", ".symtab"):
            section = elf.get_section_by_name(section_name)
            # In a debug file the first of them is a hole.
            if not isinstance(section, SymbolTableSection) or section["sh_type"] == "SHT_NOBITS":
                continue
            names = section.stringtable.data()
            form, order = ENTRIES[elf.elfclass]
            form = ("<" if elf.little_endian else ">") + form
            for entry in struct.iter_unpack(form, section.data()):
                name_at, value, size, info, index = (entry[place] for place in order)
                if index and value and info & 15 in FUNCTION_TYPES:
                    name = names[name_at : names.index(b"\0", name_at)].decode(errors="replace")
                    found[value] = max(found.get(value, (0, "")), (size, name))
    starts = sorted(found)
    ends = []
    for start, following in zip(starts, [*starts[1:], starts[-1] + 1 if starts else 0]):
        size = found[start][0]
        # Those written in assembler may have no size.
        ends.append(start + size if size else following)
    return Symbols(starts, ends, [found[start][1] for start in starts])
