#!/usr/bin/env python3
"""Writes the single file of a library whose profile (src/cache/profile.h) is another one.

    tools/variants.py                                   lists them
    tools/variants.py 1x4 --output build/variants/1x4.cc
    tools/variants.py 1x4 --profile --output build/variants/1x4/cache/profile.h

A variant is named after the shape of its batch cache, ways x sets, and how it evicts if that is not
as usual; in the last one each remote free is a batch, and sent at once. The build makes libraries
of them (target loft_variants), which tools/bench.py measures.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from amalgamate import ROOT, AmalgamationError, amalgamate, write

PROFILE = ROOT / "src" / "cache" / "profile.h"
EVICTIONS = ROOT / "bench" / "variants" / "evictions.h"


@dataclass(frozen=True)
class Variant:
    ways: int = 2
    sets: int = 8
    eviction: str = "LeastGrownGoes"
    batch_bytes: int = 16384
    outbox_bytes: int = 65536


# The first is the profile of the library itself, built like the others.
VARIANTS = {
    "2x8": Variant(),
    "1x1": Variant(1, 1),
    "1x4": Variant(1, 4),
    "1x8": Variant(1, 8),
    "1x16": Variant(1, 16),
    "2x4": Variant(2, 4),
    "2x16": Variant(2, 16),
    "2x8-fuller": Variant(eviction="FullerGoes"),
    "2x8-emptier": Variant(eviction="EmptierGoes"),
    "2x8-in-turn": Variant(eviction="EachInTurn"),
    "unbatched": Variant(batch_bytes=1, outbox_bytes=1),
}


def with_profile(text: str, variant: Variant) -> str:
    """The single file, or profile.h, with the variant's words in its struct."""
    base = Variant()
    changes = [
        (f"kBatchWays = {base.ways};", f"kBatchWays = {variant.ways};"),
        (f"kBatchSets = {base.sets};", f"kBatchSets = {variant.sets};"),
        (f"using Eviction = {base.eviction};", f"using Eviction = {variant.eviction};"),
        (f"kBatchBytes = {base.batch_bytes};", f"kBatchBytes = {variant.batch_bytes};"),
        (f"kOutboxBytes = {base.outbox_bytes};", f"kOutboxBytes = {variant.outbox_bytes};"),
        ("struct Profile {", f"{EVICTIONS.read_text(encoding='utf-8')}\nstruct Profile {{"),
    ]
    for old, new in changes:
        if text.count(old) != 1:
            raise AmalgamationError(f"no single `{old}`; is src/cache/profile.h another one?")
        text = text.replace(old, new)
    return text


def write_variant(variant: Variant) -> str:
    return with_profile(amalgamate(ROOT / "src", ROOT / "include"), variant)


def write_profile(variant: Variant) -> str:
    """What stands in the place of profile.h, in front of it on the compiler's path."""
    return with_profile(PROFILE.read_text(encoding="utf-8"), variant)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", nargs="?", help="its name; without one, the names are listed")
    parser.add_argument("--profile", action="store_true", help="only the file of its profile")
    parser.add_argument("--output", type=Path, default="/dev/stdout", help="the file")
    arguments = parser.parse_args()
    if arguments.variant is None:
        print("\n".join(VARIANTS))
    elif arguments.variant not in VARIANTS:
        parser.exit(2, f"variants: no {arguments.variant}; there are: {', '.join(VARIANTS)}\n")
    else:
        try:
            wanted = write_profile if arguments.profile else write_variant
            write(arguments.output, wanted(VARIANTS[arguments.variant]))
        except AmalgamationError as error:
            sys.exit(f"variants: {error}")


if __name__ == "__main__":
    main()
