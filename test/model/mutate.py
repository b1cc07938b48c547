"""Makes a copy of one source file with one seeded bug of mutants.txt in it.

The build ends with an error if the text to be replaced is not there once: it has changed, and the
bug has to follow it.
"""

from __future__ import annotations

import sys
from pathlib import Path


def mutate(mutants: str, name: str, sources: Path, target: Path) -> None:
    for block in mutants.split("\n== ")[1:]:
        head, *body = block.split("\n")
        title, _, file = (part.strip() for part in head.split("|"))
        if title != name:
            continue
        olds = [line[2:].strip() for line in body if line.startswith("- ")]
        news = [line[2:].strip() for line in body if line.startswith("+ ")]
        text = (sources / file).read_text()
        for old, new in zip(olds, news, strict=True):
            if text.count(old) != 1:
                places = f"{text.count(old)} places in {sources / file} read {old!r}"
                sys.exit(f"seeded bug {name}: {places}; mend mutants.txt")
            text = text.replace(old, new)
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        return
    sys.exit(f"no mutant {name}")


if __name__ == "__main__":
    mutate(Path(sys.argv[1]).read_text(), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
