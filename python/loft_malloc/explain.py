"""`loft explain`: reports of misuse, with functions and source lines in place of addresses.

docs/internals/reports.md says what a report looks like. All other lines are passed through as
they are, so that the whole standard error of a program can be given.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from loft_malloc.errors import UserError
from loft_malloc.printable import one_line
from loft_malloc.profile import debug_files, symbolise
from loft_malloc.profile.model import Location, Mapping, Profile, Sample
from loft_malloc.profile.steps import Steps

FRAME = re.compile(
    r"(?P<head>  #\d+ 0x[0-9a-f]+) in (?P<file>.*)\+0x(?P<address>[0-9a-f]+)"
    r"(?: build-id (?P<id>[0-9a-f]+))?"
)
REPORT = re.compile(r"^loft: ", re.MULTILINE)
# More than any log that is looked at by hand.
LONGEST = 256 << 20


@dataclass(frozen=True)
class Place:
    file: str
    build_id: str
    # As the linker counts, and behind the call.
    address: int


def explain(name: str) -> int:
    lines = _text(name).split("\n")
    frames = {line: place for line in lines if (place := _place(line)) is not None}
    with Steps() as steps:
        named, remarks = _named(set(frames.values()), steps)
    for line in lines[: -1 if lines[-1] == "" else None]:
        places = named.get(frames[line], []) if line in frames else []
        head = FRAME.fullmatch(line)
        if head is None or not places:
            print("\t".join(map(one_line, line.split("\t"))))
        for said in places:
            print(f"{head['head'] if head else ''} {one_line(said)}")
    if not frames:
        remarks.append("no report has a stack; the option report_file makes loft write one")
    for remark in remarks:
        print(f"loft: {one_line(remark)}", file=sys.stderr)
    return 0


def _text(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LONGEST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LONGEST + 1)
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    shown = "the standard input" if name == "-" else name
    if len(data) > LONGEST:
        raise UserError(f"{shown} is longer than {LONGEST >> 20} MiB; extract the report")
    text = data.decode(errors="replace").replace("\r\n", "\n")
    if REPORT.search(text) is None:
        raise UserError(f"{shown} has no report of loft: no line begins with 'loft: '")
    return text


def _place(line: str) -> Place | None:
    found = FRAME.fullmatch(line)
    if found is None or len(found["address"]) > 16:
        return None
    return Place(found["file"], found["id"] or "", int(found["address"], 16))


def _named(places: set[Place], steps: Steps) -> tuple[dict[Place, list[str]], list[str]]:
    """What is said of each place, the innermost of inlined functions first."""
    mappings: dict[tuple[str, str], Mapping] = {}
    locations: dict[Place, Location] = {}
    for place in places:
        key = (place.file, place.build_id)
        if key not in mappings:
            mappings[key] = Mapping(0, 1 << 64, 0, *key)
    for key, mapping in mappings.items():
        shape = _shape(*key)
        for place in (each for each in places if (each.file, each.build_id) == key):
            locations[place] = Location(_offset(shape, place.address), mapping)
    profile = Profile([], [Sample(list(locations.values()), [])], list(mappings.values()))
    remarks = symbolise.symbolise(
        profile, lambda done, total, name: steps.step(f"names of {name}", done, total)
    )
    return {place: _said(location) for place, location in locations.items()}, remarks


def _shape(file: str, build_id: str) -> debug_files.Described | None:
    found = debug_files.find(file, build_id)
    return found.program or found.names


def _offset(shape: debug_files.Described | None, address: int) -> int:
    """Where in the file that is, by which symbolise looks it up."""
    for offset, size, start in shape.segments if shape is not None else ():
        if start < address <= start + size:
            return address - start + offset
    return address


def _said(location: Location) -> list[str]:
    said = []
    for i, frame in enumerate(location.frames):
        inlined = " (inlined)" if i + 1 < len(location.frames) else ""
        line = f":{frame.line}" if frame.line else ""
        at = f" at {frame.file}{line}" if frame.file else ""
        said.append(f"in {frame.name or '??'}{inlined}{at}")
    return said
