"""A sample's stack as it is shown: frames with names, the outermost first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from loft_malloc.profile.model import Frame, Location, Sample


def unnamed(location: Location) -> Frame:
    """What an address is called for which there is no name: its place in its file."""
    mapping = location.mapping
    if mapping is None or not mapping.file:
        return Frame(f"0x{location.address:x}")
    place = location.address - mapping.start + mapping.offset
    return Frame(f"{PurePath(mapping.file).name}+0x{place:x}", mapping.file)


def shown_frames(sample: Sample) -> Iterator[Frame]:
    for location in reversed(sample.locations):
        if location.frames:
            yield from reversed(location.frames)
        else:
            yield unnamed(location)
