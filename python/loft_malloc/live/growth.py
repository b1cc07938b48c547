"""Which stacks have grown since the first look: the difference of two profiles."""

from __future__ import annotations

from dataclasses import dataclass

from loft_malloc.live.client import Client
from loft_malloc.profile import attached, symbolise
from loft_malloc.profile.model import Profile
from loft_malloc.profile.stacks import shown_frames

# Of a stack that is shown in a line: what is called, and by whom.
FRAMES = 12
ARROW = " < "


@dataclass(frozen=True)
class Stack:
    """The innermost function first."""

    title: str
    in_use: int
    objects: int
    grown: int


class Growth:
    """Profiles are told by addresses; names are looked up once for each."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.first: dict[str, list[int]] | None = None

    def look(self) -> list[Stack]:
        profile = attached.fetched(self.client)
        symbolise.symbolise(profile)
        now = _by_stack(profile)
        if self.first is None:
            self.first = now
        nothing = [0, 0]
        return [
            Stack(
                title,
                in_use=now.get(title, nothing)[0],
                objects=now.get(title, nothing)[1],
                grown=now.get(title, nothing)[0] - self.first.get(title, nothing)[0],
            )
            for title in {**self.first, **now}
        ]

    def restart(self) -> None:
        """What is there now is what growth is counted from."""
        self.first = None


def _by_stack(profile: Profile) -> dict[str, list[int]]:
    space, objects = profile.main_index, profile.index("inuse_objects")
    found: dict[str, list[int]] = {}
    for sample in profile.samples:
        names = [frame.name for frame in shown_frames(sample)][-FRAMES:]
        values = found.setdefault(ARROW.join(reversed(names)), [0, 0])
        values[0] += sample.values[space]
        values[1] += 0 if objects is None else sample.values[objects]
    return found
