"""Names from DWARF, read here, for where no tool of the system is: functions, lines, inlined calls.

Lines are looked up in the units that hold a wanted address and in no other. Functions are searched
among everything that such a unit describes, which is slow in Python; beyond MOST_BYTES of units a
function's name is the symbol's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

from loft_malloc.profile.model import Frame

# About ten seconds.
MOST_BYTES = 4 << 20
FUNCTION_TAGS = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine")
# From a call to what was inlined, or to its declaration.
ORIGINS = ("DW_AT_abstract_origin", "DW_AT_specification")
MOST_ORIGINS = 8


@dataclass(frozen=True)
class _Row:
    address: int
    file: str
    line: int
    ends: bool


def frames(path: Path, addresses: list[int]) -> dict[int, list[Frame]]:
    """Those at each address of which something is known; a name may be empty."""
    found: dict[int, list[Frame]] = {}
    with path.open("rb") as file:
        # A path, so that what is kept apart for several files is found.
        elf = ELFFile(file, lambda name: (path.parent / name).open("rb"))
        dwarf = elf.get_dwarf_info()
        spent = 0
        for unit, inside in _by_unit(dwarf, addresses).values():
            rows = _rows(dwarf, unit)
            starts = [row.address for row in rows]
            spent += unit["unit_length"]
            functions = _functions(unit, inside) if spent <= MOST_BYTES else {}
            names = _file_names(dwarf, unit)
            for address in inside:
                row = rows[index] if (index := bisect_right(starts, address) - 1) >= 0 else None
                place = ("", 0) if row is None or row.ends else (row.file, row.line)
                found[address] = list(_chain(functions.get(address, []), place, names))
    return found


def _by_unit(dwarf: DWARFInfo, addresses: list[int]) -> dict[int, tuple[CompileUnit, list[int]]]:
    """The units that hold an address, and which they hold."""
    units: dict[int, tuple[CompileUnit, list[int]]] = {}
    left = []
    table = dwarf.get_aranges()
    for address in addresses:
        offset = table.cu_offset_at_addr(address) if table is not None and table.keys else None
        if offset is None:
            left.append(address)
        else:
            units.setdefault(offset, (dwarf.get_CU_at(offset), []))[1].append(address)
    if not left:
        return units
    left.sort()
    for unit in dwarf.iter_CUs():
        top = unit.get_top_DIE()
        for low, high in _ranges(top):
            first = bisect_right(left, low - 1)
            inside = left[first : bisect_right(left, high - 1)]
            if inside:
                units.setdefault(unit.cu_offset, (unit, []))[1].extend(inside)
    return units


def _ranges(die: DIE) -> Iterator[tuple[int, int]]:
    attributes = die.attributes
    if "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value
    elif "DW_AT_ranges" in attributes:
        top = die.cu.get_top_DIE().attributes
        base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
        lists = die.cu.dwarfinfo.range_lists()
        if lists is None or not isinstance(die.cu, CompileUnit):
            return
        for entry in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, die.cu):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            else:
                start = 0 if entry.is_absolute else base
                yield start + entry.begin_offset, start + entry.end_offset


def _functions(unit: CompileUnit, addresses: list[int]) -> dict[int, list[DIE]]:
    """Those that an address lies in, the outermost first."""
    found: dict[int, list[DIE]] = {}
    ordered = sorted(addresses)
    for die in unit.iter_DIEs():
        if die.tag in FUNCTION_TAGS:
            for low, high in _ranges(die):
                first = bisect_right(ordered, low - 1)
                for address in ordered[first : bisect_right(ordered, high - 1)]:
                    found.setdefault(address, []).append(die)
    return found


def _chain(functions: list[DIE], place: tuple[str, int], files: list[str]) -> Iterator[Frame]:
    """The innermost first; each next one is at the line where the one before was called."""
    if not functions:
        if place[1]:
            yield Frame("", *place)
        return
    for die in reversed(functions):
        name = _name(die)
        yield Frame(name, *place, system_name=name)
        index, line = (_number(die, f"DW_AT_call_{what}") for what in ("file", "line"))
        place = (files[index] if index < len(files) else "", line)


def _number(die: DIE, name: str) -> int:
    attribute = die.attributes.get(name)
    return int(attribute.value) if attribute is not None else 0


def _name(die: DIE) -> str:
    """The linker's if there is one, since that has the function's whole name in it."""
    plain = ""
    for _ in range(MOST_ORIGINS):
        for attribute in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
            if attribute in die.attributes:
                return _text(die.attributes[attribute].value)
        if not plain and "DW_AT_name" in die.attributes:
            plain = _text(die.attributes["DW_AT_name"].value)
        origin = next((each for each in ORIGINS if each in die.attributes), None)
        if origin is None:
            break
        die = die.get_DIE_from_attribute(origin)
    return plain


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _rows(dwarf: DWARFInfo, unit: CompileUnit) -> list[_Row]:
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return []
    files = _file_names(dwarf, unit)
    rows = []
    for entry in program.get_entries():
        state = entry.state
        if state is not None:
            file = files[state.file] if state.file < len(files) else ""
            rows.append(_Row(state.address, file, state.line, state.end_sequence))
    # Where one sequence ends another may begin.
    return sorted(rows, key=lambda row: (row.address, not row.ends))


def _file_names(dwarf: DWARFInfo, unit: CompileUnit) -> list[str]:
    """By their numbers in this unit's lines and calls."""
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return []
    top = unit.get_top_DIE().attributes
    home = _text(top["DW_AT_comp_dir"].value) if "DW_AT_comp_dir" in top else ""
    header = program.header
    folders = [_text(each) for each in header["include_directory"]]
    # Before version 5 both tables begin at 1, and 0 is the unit's own folder.
    if program["version"] < 5:
        folders = ["", *folders]
    names = [] if program["version"] >= 5 else [""]
    for entry in header["file_entry"]:
        folder = folders[entry.dir_index] if entry.dir_index < len(folders) else ""
        names.append(str(PurePosixPath(home, folder, _text(entry.name))))
    return names
