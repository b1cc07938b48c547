"""Profiles as pprof's files: the message `Profile` of its schema, mostly in gzip.

The numbers of the fields are those of the public profile.proto. Strings are numbers in a table, and
functions, mappings and locations name each other by ids, which may stand in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, Union

from loft_malloc.profile import wire
from loft_malloc.profile.model import Frame, Kind, Label, Location, Mapping, Profile, Sample
from loft_malloc.profile.wire import WireError

Value = Union[int, memoryview]
T = TypeVar("T")


@dataclass
class _Tables:
    """The parts of a message, sorted by what they are and not yet read."""

    strings: list[str] = field(default_factory=list)
    parts: dict[int, list[memoryview]] = field(default_factory=dict)
    numbers: dict[int, list[int]] = field(default_factory=dict)

    def text(self, value: Value) -> str:
        index = wire.number(value)
        if not 0 <= index < len(self.strings):
            raise WireError(f"it names string {index} of {len(self.strings)}")
        return self.strings[index]

    def one(self, number: int) -> int:
        return (self.numbers.get(number) or [0])[-1]


# Fields of Profile.
KINDS, SAMPLES, MAPPINGS, LOCATIONS, FUNCTIONS, STRINGS = 1, 2, 3, 4, 5, 6
TIME, DURATION, PERIOD_KIND, PERIOD, COMMENTS, DEFAULT = 9, 10, 11, 12, 13, 14
MESSAGES = (KINDS, SAMPLES, MAPPINGS, LOCATIONS, FUNCTIONS, PERIOD_KIND)


def decode(data: bytes) -> Profile:
    """Raises WireError if this is no profile."""
    tables = _Tables()
    for number, value in wire.fields(memoryview(data)):
        if number == STRINGS:
            tables.strings.append(bytes(wire.message(value)).decode(errors="replace"))
        elif number in MESSAGES:
            tables.parts.setdefault(number, []).append(wire.message(value))
        elif number == COMMENTS:
            tables.numbers.setdefault(number, []).extend(wire.numbers(value))
        elif number in (TIME, DURATION, PERIOD, DEFAULT):
            tables.numbers[number] = [wire.signed(value)]
    if not tables.strings or tables.strings[0]:
        raise WireError("it has no table of strings that begins with an empty one")
    profile = Profile([_kind(part, tables) for part in tables.parts.get(KINDS, [])])
    if not profile.kinds:
        raise WireError("it does not say what its values count")
    frames = _by_id("function", FUNCTIONS, _function, tables)
    mappings = _by_id("mapping", MAPPINGS, _mapping, tables)
    profile.mappings = list(mappings.values())
    locations = _by_id(
        "location", LOCATIONS, lambda part, tables: _location(part, mappings, frames), tables
    )
    width = len(profile.kinds)
    for part in tables.parts.get(SAMPLES, []):
        profile.samples.append(_sample(part, tables, locations, width))
    for part in tables.parts.get(PERIOD_KIND, []):
        profile.period_kind = _kind(part, tables)
    profile.period = tables.one(PERIOD)
    profile.time_ns, profile.duration_ns = tables.one(TIME), tables.one(DURATION)
    profile.default_type = tables.text(tables.one(DEFAULT))
    profile.comments = [tables.text(each) for each in tables.numbers.get(COMMENTS, [])]
    return profile


def _by_id(
    what: str,
    number: int,
    read: Callable[[memoryview, _Tables], tuple[int, T]],
    tables: _Tables,
) -> dict[int, T]:
    found: dict[int, T] = {}
    for part in tables.parts.get(number, []):
        each_id, each = read(part, tables)
        if each_id == 0 or each_id in found:
            raise WireError(f"the id {each_id} is not one {what}'s")
        found[each_id] = each
    return found


def _named(what: str, found: dict[int, T], each_id: int) -> T:
    if each_id not in found:
        raise WireError(f"it names {what} {each_id}, which it does not have")
    return found[each_id]


def _kind(part: memoryview, tables: _Tables) -> Kind:
    texts = {1: "", 2: ""}
    for number, value in wire.fields(part):
        if number in texts:
            texts[number] = tables.text(value)
    return Kind(texts[1], texts[2])


def _function(part: memoryview, tables: _Tables) -> tuple[int, Frame]:
    """As a frame that has no line yet."""
    each_id = start = 0
    texts = {2: "", 3: "", 4: ""}
    for number, value in wire.fields(part):
        if number == 1:
            each_id = wire.number(value)
        elif number in texts:
            texts[number] = tables.text(value)
        elif number == 5:
            start = wire.signed(value)
    name, system_name, file = texts.values()
    return each_id, Frame(name or system_name, file, 0, system_name, start)


def _mapping(part: memoryview, tables: _Tables) -> tuple[int, Mapping]:
    numbers = dict.fromkeys(range(1, 5), 0)
    texts = {5: "", 6: ""}
    for number, value in wire.fields(part):
        if number in numbers:
            numbers[number] = wire.number(value)
        elif number in texts:
            texts[number] = tables.text(value)
    each_id, start, limit, offset = numbers.values()
    return each_id, Mapping(start, limit, offset, texts[5], texts[6])


def _location(
    part: memoryview, mappings: dict[int, Mapping], functions: dict[int, Frame]
) -> tuple[int, Location]:
    each_id, location = 0, Location(0)
    for number, value in wire.fields(part):
        if number == 1:
            each_id = wire.number(value)
        elif number == 2 and (mapping_id := wire.number(value)):
            location.mapping = _named("mapping", mappings, mapping_id)
        elif number == 3:
            location.address = wire.number(value)
        elif number == 4:
            location.frames.append(_line(wire.message(value), functions))
    return each_id, location


def _line(part: memoryview, functions: dict[int, Frame]) -> Frame:
    function_id = line = 0
    for number, value in wire.fields(part):
        if number == 1:
            function_id = wire.number(value)
        elif number == 2:
            line = wire.signed(value)
    named = _named("function", functions, function_id)
    return Frame(named.name, named.file, line, named.system_name, named.start_line)


def _sample(
    part: memoryview, tables: _Tables, locations: dict[int, Location], width: int
) -> Sample:
    ids: list[int] = []
    values: list[int] = []
    labels: list[Label] = []
    for number, value in wire.fields(part):
        if number == 1:
            ids += wire.numbers(value)
        elif number == 2:
            values += wire.signeds(value)
        elif number == 3:
            labels.append(_label(wire.message(value), tables))
    if len(values) != width:
        raise WireError(f"a sample has {len(values)} values, and not {width}")
    return Sample([_named("location", locations, each) for each in ids], values, labels)


def _label(part: memoryview, tables: _Tables) -> Label:
    texts = {1: "", 2: "", 4: ""}
    amount = 0
    for number, value in wire.fields(part):
        if number in texts:
            texts[number] = tables.text(value)
        elif number == 3:
            amount = wire.signed(value)
    return Label(texts[1], texts[2], amount, texts[4])
