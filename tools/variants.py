#!/usr/bin/env python3
"""Writes the single file of a library whose profile (src/cache/profile.h) is another one.

    tools/variants.py --list
    tools/variants.py 1x4 --output build/variants/1x4.cc

A variant is named after the shape of its batch cache, ways x sets, and how it evicts if that is not
as usual. The build makes libraries of them (target loft_variants), which tools/bench.py measures.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from amalgamate import ROOT, AmalgamationError, amalgamate

EVICTIONS = ROOT / "bench" / "variants" / "evictions.h"


@dataclass(frozen=True)
class Variant:
    ways: int = 2
    sets: int = 8
    eviction: str = "FullerGoes"


# The first is the profile of the library itself, built like the others.
VARIANTS = {
    "2x8": Variant(),
    "1x1": Variant(1, 1),
    "1x4": Variant(1, 4),
    "1x8": Variant(1, 8),
    "1x16": Variant(1, 16),
    "2x4": Variant(2, 4),
    "2x16": Variant(2, 16),
    "2x8-emptier": Variant(eviction="EmptierGoes"),
    "2x8-in-turn": Variant(eviction="EachInTurn"),
    "2x8-newest": Variant(eviction="NewestGoes"),
}


class VariantError(Exception):
    pass


def with_profile(text: str, variant: Variant) -> str:
    """The single file, or profile.h, with the variant's words in its struct."""
    base = Variant()
    changes = [
        (f"kBatchWays = {base.ways};", f"kBatchWays = {variant.ways};"),
        (f"kBatchSets = {base.sets};", f"kBatchSets = {variant.sets};"),
        (f"using Eviction = {base.eviction};", f"using Eviction = {variant.eviction};"),
        ("struct Profile {", f"{EVICTIONS.read_text(encoding='utf-8')}\nstruct Profile {{"),
    ]
    for old, new in changes:
        if text.count(old) != 1:
            raise VariantError(f"no single `{old}`; is src/cache/profile.h another one?")
        text = text.replace(old, new)
    return text


def write_variant(variant: Variant) -> str:
    return with_profile(amalgamate(ROOT / "src", ROOT / "include"), variant)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", nargs="?", help="its name")
    parser.add_argument("--list", action="store_true", help="list the names and stop")
    parser.add_argument("--output", type=Path, help="the file (default: standard output)")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(VARIANTS))
        return 0
    variant = VARIANTS.get(arguments.variant)
    if variant is None:
        named = f"no variant {arguments.variant}" if arguments.variant else "which variant?"
        print(f"variants: {named}; there are: {', '.join(VARIANTS)}", file=sys.stderr)
        return 2
    try:
        text = write_variant(variant)
    except (VariantError, AmalgamationError) as error:
        print(f"variants: {error}", file=sys.stderr)
        return 1
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
