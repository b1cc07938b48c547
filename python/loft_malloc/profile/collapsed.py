"""Collapsed stacks: a line for each, `outer;inner 4096`, as flame graphs are often drawn from."""

from __future__ import annotations

from collections.abc import Iterator

from loft_malloc.profile.model import Frame, Kind, Location, Profile, Sample
from loft_malloc.profile.stacks import shown_frames


class CollapsedError(Exception):
    """Which line is not of that form."""


def decode(text: str) -> Profile:
    profile = Profile([Kind("inuse_space", "bytes")])
    known: dict[str, Location] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        stack, _, count = line.rstrip().rpartition(" ")
        # More digits than a count of bytes has are no count, and slow to read.
        if not stack or not count.isascii() or not count.isdigit() or len(count) > 19:
            raise CollapsedError(f"line {number} does not end with a number of bytes")
        locations = []
        for name in reversed(stack.split(";")):
            known.setdefault(name, Location(0, frames=[Frame(name)]))
            locations.append(known[name])
        profile.samples.append(Sample(locations, [int(count)]))
    return profile


def lines(profile: Profile, column: int) -> Iterator[str]:
    """The stacks that hold something, each once."""
    sums: dict[str, int] = {}
    for sample in profile.samples:
        names = (frame.name for frame in shown_frames(sample))
        stack = ";".join(name.replace(";", ":").replace("\n", " ") for name in names)
        sums[stack] = sums.get(stack, 0) + sample.values[column]
    return (f"{stack} {value}" for stack, value in sums.items() if value)
