"""The file of a mapping, and the one with its debug information.

A name in a profile says where a file was when the program ran. What lies there now counts only if
its build id is the same; the build id also finds what distributions keep apart.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.segments import NoteSegment

DEBUG_ROOT = Path("/usr/lib/debug")
DELETED = " (deleted)"
# A server far away may have to unpack a large package first.
FETCH_LIMIT_S = 90
PART = 1 << 20


@dataclass(frozen=True)
class Described:
    """What of an ELF file matters here."""

    path: Path
    build_id: str
    # Offset in the file, size there, address: of each loaded segment.
    segments: tuple[tuple[int, int, int], ...]
    has_dwarf: bool
    has_symbols: bool
    # The name of its debug file, and that one's checksum.
    link: tuple[str, int] | None

    def address(self, place: int) -> int | None:
        """As the linker counts, of what lies there in the file."""
        for offset, size, address in self.segments:
            if offset <= place < offset + size:
                return address + place - offset
        return None


@dataclass
class Found:
    """The file itself, and where its names are: often there too."""

    program: Described | None = None
    names: Described | None = None
    remarks: list[str] = field(default_factory=list)


def describe(path: Path) -> Described | None:
    """None if there is no file, or it is no ELF file or cannot be read."""
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            build_id, segments = "", []
            for each in elf.iter_segments():
                if each["p_type"] == "PT_LOAD":
                    segments.append((each["p_offset"], each["p_filesz"], each["p_vaddr"]))
                elif isinstance(each, NoteSegment) and each["p_filesz"]:
                    for note in each.iter_notes():
                        if note["n_type"] == "NT_GNU_BUILD_ID":
                            build_id = note["n_desc"]
            symbols = elf.get_section_by_name(".symtab")
            return Described(
                path,
                build_id,
                tuple(segments),
                # Debian 12's pyelftools takes a table of frames for DWARF, and every file has one.
                any(elf.get_section_by_name(name) for name in (".debug_info", ".zdebug_info")),
                symbols is not None and symbols["sh_type"] == "SHT_SYMTAB",
                _link(elf),
            )
    except Exception:
        # A damaged file raises whatever the place of the damage suggests.
        return None


def _link(elf: ELFFile) -> tuple[str, int] | None:
    section = elf.get_section_by_name(".gnu_debuglink")
    if section is None:
        return None
    data = section.data()
    name, _, _ = data.partition(b"\0")
    checksum = data[-4:] if elf.little_endian else data[:-5:-1]
    return os.fsdecode(name), int.from_bytes(checksum, "little")


def find(name: str, build_id: str) -> Found:
    found = Found()
    path = Path(name.removesuffix(DELETED))
    there = describe(path) if path.is_absolute() and path.is_file() else None
    if there is not None and build_id and there.build_id != build_id:
        found.remarks.append(
            f"{path} has changed since (its build id is {there.build_id or 'none'}, that of the "
            f"profile {build_id}) and is not used"
        )
        there = None
    found.program = there
    if there is not None and there.has_dwarf:
        found.names = there
        return found
    wanted = build_id or (there.build_id if there is not None else "")
    found.names = next(_apart(there, wanted), None) or there
    return found


def _apart(program: Described | None, build_id: str) -> Iterator[Described]:
    """Files with the debug information, nearest first."""
    for path in _by_build_id(build_id):
        each = describe(path)
        if each is not None and each.build_id == build_id and each.has_dwarf:
            yield each
    if program is not None and program.link is not None:
        name, checksum = program.link
        folder = program.path.resolve().parent
        for path in (
            folder / name,
            folder / ".debug" / name,
            DEBUG_ROOT / folder.relative_to("/") / name,
        ):
            each = describe(path)
            # The program itself may have the name, too.
            if each is not None and each.has_dwarf and _checksum(path) == checksum:
                yield each
    if build_id and (fetched := _fetched(build_id)) is not None:
        each = describe(fetched)
        if each is not None and each.build_id == build_id:
            yield each


def _by_build_id(build_id: str) -> Iterator[Path]:
    if len(build_id) > 2 and build_id.isalnum():
        yield DEBUG_ROOT / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        for cache in _caches():
            yield cache / build_id / "debuginfo"


def _caches() -> Iterator[Path]:
    if given := os.environ.get("DEBUGINFOD_CACHE_PATH"):
        yield Path(given)
        return
    home = os.environ.get("HOME", "")
    yield Path(os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache") / "debuginfod_client"


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while part := file.read(PART):
            checksum = zlib.crc32(part, checksum)
    return checksum


def _fetched(build_id: str) -> Path | None:
    """From the servers that the user names, if any."""
    tool = shutil.which("debuginfod-find")
    if tool is None or not os.environ.get("DEBUGINFOD_URLS", "").strip():
        return None
    try:
        ran = subprocess.run(
            [tool, "debuginfo", build_id],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=FETCH_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(os.fsdecode(ran.stdout.strip())) if ran.returncode == 0 else None
