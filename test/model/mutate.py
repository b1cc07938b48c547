"""Makes a copy of one source file with one seeded bug of a mutants.txt in it:

    mutate.py MUTANTS NAME SOURCES TARGET    # what the build calls
    mutate.py --check                        # whether the text that each bug replaces is there

That is an error unless it is there once: the text has changed, and the bug has to follow it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Each list of bugs, and the folder of the files that it names.
LISTS = {
    ROOT / "test" / "model" / "mutants.txt": ROOT / "src",
    ROOT / "test" / "fuzz" / "mutants.txt": ROOT,
}


def bugs(mutants: Path) -> Iterator[tuple[str, str, list[str]]]:
    """The name of each, its file, and the lines of its change."""
    for block in mutants.read_text().split("\n== ")[1:]:
        head, *body = block.split("\n")
        title, _, file = (part.strip() for part in head.split("|"))
        yield title, file, body


def with_bug(name: str, body: list[str], source: Path) -> str:
    olds = [line[2:].strip() for line in body if line.startswith("- ")]
    news = [line[2:].strip() for line in body if line.startswith("+ ")]
    text = source.read_text()
    for old, new in zip(olds, news, strict=True):
        if text.count(old) != 1:
            places = f"{text.count(old)} places in {source} read {old!r}"
            sys.exit(f"seeded bug {name}: {places}; mend mutants.txt")
        text = text.replace(old, new)
    return text


def mutate(mutants: Path, name: str, sources: Path, target: Path) -> None:
    for title, file, body in bugs(mutants):
        if title == name:
            copy = target / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(with_bug(name, body, sources / file))
            return
    sys.exit(f"no mutant {name}")


def check() -> None:
    for mutants, sources in LISTS.items():
        for name, file, body in bugs(mutants):
            with_bug(name, body, sources / file)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    else:
        mutate(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
