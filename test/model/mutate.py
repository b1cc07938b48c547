"""Makes a copy of one source file with one seeded bug of mutants.txt in it.

If the text to be replaced is not there, the copy is the original: the explorer then finds nothing,
and the test that expects the bug to be caught says so.
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
            if text.count(old) == 1:
                text = text.replace(old, new)
            else:
                print(f"{name}: {text.count(old)} places in {file} match its text", file=sys.stderr)
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        return
    sys.exit(f"no mutant {name}")


if __name__ == "__main__":
    mutate(Path(sys.argv[1]).read_text(), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
