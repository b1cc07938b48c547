"""One line of `loft doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warning"]


@dataclass(frozen=True)
class Finding:
    level: Level
    what: str
    value: str
    why: str
    # What to do about it; nothing when all is well.
    do: str = ""
    # loft does not work at all as things are.
    blocks: bool = False
