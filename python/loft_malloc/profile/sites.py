"""The stacks that hold most, line by line: of a leak, how the program came to make it."""

from __future__ import annotations

from collections.abc import Iterator

from loft_malloc.printable import counted as count
from loft_malloc.printable import one_line
from loft_malloc.profile import top
from loft_malloc.profile.model import Frame, Profile
from loft_malloc.profile.stacks import shown_frames

# The callers above these say where a program begins.
MOST_FRAMES = 16


def lines(profile: Profile, most: int) -> Iterator[str]:
    """Of what the profile is looked at for; those that have the same lines are one."""
    main = profile.main_index
    objects = profile.index(profile.kinds[main].type.replace("_space", "_objects"))
    held: dict[tuple[Frame, ...], list[int]] = {}
    for sample in profile.samples:
        if sample.values[main]:
            # The innermost first, as in the list of functions.
            stack = tuple(shown_frames(sample))[::-1]
            sums = held.setdefault(stack, [0] * len(profile.kinds))
            sums[:] = map(sum, zip(sums, sample.values))
    ordered = sorted(held, key=lambda stack: -held[stack][main])
    for stack in ordered[:most]:
        yield ""
        counted = (
            f" in {count(held[stack][objects], 'object')}" if objects not in (None, main) else ""
        )
        yield top.amount(held[stack][main], profile.kinds[main].unit) + counted
        for frame in stack[:MOST_FRAMES]:
            place = top.place_in(frame.file, frame.line)
            yield f"    {one_line(frame.name or '??')}  {one_line(place)}".rstrip()
        if len(stack) > MOST_FRAMES:
            yield f"    and {count(len(stack) - MOST_FRAMES, 'more caller')}"
    if len(ordered) > most:
        yield ""
        yield f"and {count(len(ordered) - most, 'more stack')}"
