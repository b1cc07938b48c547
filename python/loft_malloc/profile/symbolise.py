"""Gives the locations of a profile their frames: file by file, from what knows most.

Addresses are those that calls return to. The call is before, perhaps in another line or another
inlined function: what is looked up is one less.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loft_malloc.profile import debug_files, demangle, dwarf, elf_symbols, symbolizers
from loft_malloc.profile.debug_files import Found
from loft_malloc.profile.model import Frame, Location, Profile

# How many files are done, of how many, and which is next.
Progress = Callable[[int, int, str], None]


def symbolise(profile: Profile, progress: Progress | None = None) -> list[str]:
    """What is to be said about it: files that were not used. Frames that are there already stay."""
    by_file: dict[tuple[str, str], list[Location]] = {}
    for location in profile.locations():
        mapping = location.mapping
        # [vdso] and what a program has generated have no file.
        if mapping is not None and mapping.file.startswith("/") and not location.frames:
            by_file.setdefault((mapping.file, mapping.build_id), []).append(location)
    remarks = []
    for done, ((name, build_id), locations) in enumerate(by_file.items()):
        if progress is not None:
            progress(done, len(by_file), Path(name).name)
        found = debug_files.find(name, build_id)
        remarks += found.remarks
        try:
            _name_all(found, locations)
        except Exception:
            # Debug information is written by many compilers, and some of it is damaged.
            remarks.append(f"{name} cannot be read for names; its functions stay addresses")
    _demangle(profile)
    return remarks


def _name_all(found: Found, locations: list[Location]) -> None:
    shape, names = found.program or found.names, found.names
    if shape is None or names is None:
        return
    by_address: dict[int, list[Location]] = {}
    for location in locations:
        assert location.mapping is not None
        place = location.address - 1 - location.mapping.start + location.mapping.offset
        address = shape.address(place)
        if address is not None:
            by_address.setdefault(address, []).append(location)
    addresses = sorted(by_address)
    if not addresses:
        return
    known = _frames(names.path, names.has_dwarf, addresses)
    # A debug file without symbols, and a program with some.
    symbols = elf_symbols.read(shape.path)
    others = elf_symbols.read(names.path) if names is not shape else symbols
    for address, inside in by_address.items():
        symbol = others.name(address) or symbols.name(address) or ""
        frames = _complete(known.get(address, []), symbol)
        for location in inside:
            location.frames = frames


def _frames(path: Path, has_dwarf: bool, addresses: list[int]) -> dict[int, list[Frame]]:
    if not has_dwarf:
        return {}
    found = symbolizers.frames(path, addresses)
    return dwarf.frames(path, addresses) if found is None else found


def _complete(frames: list[Frame], symbol: str) -> list[Frame]:
    """The outermost function is the symbol's, where nothing else says its name."""
    if not frames:
        return [Frame(symbol, system_name=symbol)] if symbol else []
    *inner, outer = frames
    if outer.name in ("", "??"):
        outer = Frame(symbol or "??", outer.file, outer.line, symbol, outer.start_line)
    return [*inner, outer]


def _demangle(profile: Profile) -> None:
    locations = profile.locations()
    names = {frame.name for location in locations for frame in location.frames}
    readable = demangle.demangle(names)
    for location in locations:
        location.frames = [
            Frame(readable[frame.name], frame.file, frame.line, frame.system_name, frame.start_line)
            for frame in location.frames
        ]
