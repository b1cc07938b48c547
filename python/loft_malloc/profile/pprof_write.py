"""A profile as a file of pprof, with the names that were found: what `-o heap.pb.gz` writes."""

from __future__ import annotations

import gzip
from collections.abc import Hashable

from loft_malloc.profile.model import Frame, Kind, Label, Location, Mapping, Profile, Sample
from loft_malloc.profile.pprof import (
    COMMENTS,
    DEFAULT,
    DURATION,
    FUNCTIONS,
    KINDS,
    LOCATIONS,
    MAPPINGS,
    PERIOD,
    PERIOD_KIND,
    SAMPLES,
    STRINGS,
    TIME,
)
from loft_malloc.profile.wire import Writer

HAS_FUNCTIONS, HAS_FILES, HAS_LINES, HAS_INLINED = 7, 8, 9, 10


class _Ids:
    """Numbers for things, by the order in which they are asked for."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.ids: dict[Hashable, int] = {}

    def of(self, thing: Hashable) -> int:
        return self.ids.setdefault(thing, self.first + len(self.ids))


class _Encoder:
    def __init__(self) -> None:
        self.strings, self.functions = _Ids(0), _Ids(1)
        self.mappings, self.locations = _Ids(1), _Ids(1)
        self.strings.of("")

    def text(self, into: Writer, number: int, text: str) -> None:
        into.number(number, self.strings.of(text))

    def kind(self, kind: Kind) -> Writer:
        out = Writer()
        self.text(out, 1, kind.type)
        self.text(out, 2, kind.unit)
        return out

    def sample(self, sample: Sample) -> Writer:
        out = Writer()
        out.packed(1, [self.locations.of(each) for each in sample.locations])
        out.packed(2, sample.values)
        for label in sample.labels:
            out.message(3, self.label(label))
        return out

    def label(self, label: Label) -> Writer:
        out = Writer()
        self.text(out, 1, label.key)
        self.text(out, 2, label.text)
        out.number(3, label.number)
        self.text(out, 4, label.unit)
        return out

    def mapping(self, mapping: Mapping, locations: list[Location]) -> Writer:
        out = Writer()
        out.number(1, self.mappings.of(mapping))
        for number, value in enumerate((mapping.start, mapping.limit, mapping.offset), 2):
            out.number(number, value)
        self.text(out, 5, mapping.file)
        self.text(out, 6, mapping.build_id)
        frames = [frame for location in locations for frame in location.frames]
        out.number(HAS_FUNCTIONS, bool(frames))
        out.number(HAS_FILES, any(frame.file for frame in frames))
        out.number(HAS_LINES, any(frame.line for frame in frames))
        out.number(HAS_INLINED, any(len(location.frames) > 1 for location in locations))
        return out

    def location(self, location: Location) -> Writer:
        out = Writer()
        out.number(1, self.locations.of(location))
        if location.mapping is not None:
            out.number(2, self.mappings.of(location.mapping))
        out.number(3, location.address)
        for frame in location.frames:
            line = Writer()
            line.number(1, self.functions.of(_function_of(frame)))
            line.number(2, frame.line)
            out.message(4, line)
        return out

    def function(self, frame: Frame) -> Writer:
        out = Writer()
        out.number(1, self.functions.of(frame))
        self.text(out, 2, frame.name)
        self.text(out, 3, frame.system_name or frame.name)
        self.text(out, 4, frame.file)
        out.number(5, frame.start_line)
        return out


def _function_of(frame: Frame) -> Frame:
    return Frame(frame.name, frame.file, 0, frame.system_name, frame.start_line)


def encode(profile: Profile) -> bytes:
    encoder, out = _Encoder(), Writer()
    locations = profile.locations()
    mappings = dict.fromkeys(profile.mappings)
    in_mapping: dict[Mapping, list[Location]] = {each: [] for each in mappings}
    for location in locations:
        if location.mapping is not None:
            in_mapping.setdefault(location.mapping, []).append(location)
    for kind in profile.kinds:
        out.message(KINDS, encoder.kind(kind))
    for sample in profile.samples:
        out.message(SAMPLES, encoder.sample(sample))
    for mapping, inside in in_mapping.items():
        out.message(MAPPINGS, encoder.mapping(mapping, inside))
    functions: dict[Frame, None] = {}
    for location in locations:
        out.message(LOCATIONS, encoder.location(location))
        functions |= dict.fromkeys(map(_function_of, location.frames))
    for function in functions:
        out.message(FUNCTIONS, encoder.function(function))
    out.number(TIME, profile.time_ns)
    out.number(DURATION, profile.duration_ns)
    out.message(PERIOD_KIND, encoder.kind(profile.period_kind))
    out.number(PERIOD, profile.period)
    out.packed(COMMENTS, [encoder.strings.of(each) for each in profile.comments])
    encoder.text(out, DEFAULT, profile.default_type)
    # Last, when all that is named is known.
    for text in list(encoder.strings.ids):
        out.bytes(STRINGS, str(text).encode(errors="replace"))
    return bytes(out.data)


def compressed(profile: Profile) -> bytes:
    """The same bytes for the same profile."""
    return gzip.compress(encode(profile), mtime=0)
