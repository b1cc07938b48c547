"""A heap profile in memory: samples, where in the program they were taken, and what that is called.

It is what `pprof` calls a profile, without its tables of numbers: whoever reads one gets objects
that point to each other. Frames are added to the locations when names are found for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """What one of a sample's values counts, such as inuse_space in bytes."""

    type: str
    unit: str

    @property
    def title(self) -> str:
        return TITLES.get(self.type, self.type)


ALLOCATED = "alloc_space"
TITLES = {
    "inuse_space": "in use",
    "inuse_objects": "objects in use",
    "alloc_space": "allocated",
    "alloc_objects": "objects allocated",
}


@dataclass(eq=False)
class Mapping:
    """A file, as it lay in the process's memory."""

    start: int
    limit: int
    offset: int
    file: str
    build_id: str = ""


@dataclass(frozen=True)
class Frame:
    """A function at a line; several at one address where functions were inlined."""

    name: str
    file: str = ""
    line: int = 0
    # As the linker knows it.
    system_name: str = ""
    start_line: int = 0


@dataclass(eq=False)
class Location:
    """An address that calls return to."""

    address: int
    mapping: Mapping | None = None
    # The innermost first; empty while nobody knows.
    frames: list[Frame] = field(default_factory=list)


@dataclass(frozen=True)
class Label:
    key: str
    text: str = ""
    number: int = 0
    unit: str = ""


# The key and the unit of the label that the library writes.
LIFETIME = ("lifetime", "microseconds")


@dataclass(eq=False)
class Sample:
    # The innermost first.
    locations: list[Location]
    # One for each of the profile's kinds.
    values: list[int]
    labels: list[Label] = field(default_factory=list)

    @property
    def lifetime_us(self) -> int:
        """How long the objects lived that were freed, on average; 0: nobody knows."""
        found = (each for each in self.labels if (each.key, each.unit) == LIFETIME)
        return max((each.number for each in found), default=0)


@dataclass(eq=False)
class Profile:
    kinds: list[Kind]
    samples: list[Sample] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    # What is sampled, and how much of it lies between two samples.
    period_kind: Kind = field(default_factory=lambda: Kind("space", "bytes"))
    period: int = 0
    default_type: str = ""
    comments: list[str] = field(default_factory=list)
    time_ns: int = 0
    duration_ns: int = 0
    # What is looked at in place of the default; it is not written.
    shown_type: str = ""

    def locations(self) -> list[Location]:
        """Each once, in the order of the samples."""
        return list(dict.fromkeys(each for sample in self.samples for each in sample.locations))

    def index(self, *types: str) -> int | None:
        """The column of the first of these types that there is."""
        mine = [kind.type for kind in self.kinds]
        return next((mine.index(each) for each in types if each in mine), None)

    @property
    def main_index(self) -> int:
        """The column that is looked at first."""
        found = self.index(self.shown_type, self.default_type, "inuse_space")
        return len(self.kinds) - 1 if found is None else found

    def total(self, column: int) -> int:
        return sum(sample.values[column] for sample in self.samples)
