"""One line of `loft doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loft_malloc.older import tomllib
from loft_malloc.places import PACKAGE

TEXTS = tomllib.loads((PACKAGE / "findings.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Finding:
    level: Literal["ok", "note", "warning"]
    what: str
    value: str
    why: str
    # What to do about it; nothing when all is well.
    do: str = ""
    # loft does not work at all as things are.
    blocks: bool = False


def finding(case: str, value: object, **words: object) -> Finding:
    """What findings.toml says of a case, such as `overcommit.strict`."""
    check, _, name = case.partition(".")
    said = {"level": "ok", "what": TEXTS[check]["what"], "do": "", **TEXTS[check][name]}
    level, what, why, do = (said[key].format(**words) for key in ("level", "what", "why", "do"))
    return Finding(level, what, str(value), why, do, said.get("blocks", False))
