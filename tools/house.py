#!/usr/bin/env python3
"""What the house has, counted: lines, files, floors, arrows, names with two meanings.

tools/house.py            prints the table, and what the counts are of
tools/house.py --write    writes it into CONTRIBUTING.md, and the floors into src/README.md
tools/house.py --check    exit 1 if a document is not what would be written

Lines are rounded to hundreds, so that not every commit changes the table. How large the library is
depends on the compiler: --check takes what stands there, and --write what was built, if anything.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from check_includes import (
    CORE,
    FLOOR_TABLE,
    GUESTS,
    includes_of,
    sources_of,
    without_comments,
)

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "build" / "libloft.so"
SLOW_FREE = "malloc/free.cc"
IDEAS = "## Before free's slow path is changed"

SIZE_ROW = "text of `libloft.so`, KB"


@dataclass(frozen=True)
class Row:
    """`was`: before the house became smaller. `goal`: what it is to be."""

    what: str
    was: str
    now: str
    goal: str

    def __str__(self) -> str:
        return f"| {self.what} | {self.was} | {self.now} | {self.goal} |\n"


def code_lines(path: Path) -> int:
    """Lines that have more than a comment."""
    text = without_comments(path.read_text(encoding="utf-8"), keep_quoted=True)
    return sum(1 for line in text.splitlines() if line.strip())


def hundreds(lines: int) -> str:
    return f"{round(lines, -2):,}"


TYPE = re.compile(
    r"\b(?:struct|class|enum(?: class)?) (?:alignas\([^()]*(?:\([^()]*\))?\) )?(?:LOFT_\w+ )?(\w+)"
    r"(?: final)?(?: ?:[^:;{}][^;{}]*)? ?\{"
)
NAMESPACE = re.compile(r'\b(?:inline )?namespace[\w: ]*\{|\bextern " *" *\{|\bextern "C" *\{')


def types_of(text: str) -> set[str]:
    """The names of the types that stand in a namespace, and in no other type or function."""
    code = re.sub(r"\s+", " ", without_comments(text, keep_quoted=True))
    opens = {match.end() - 1: match[1] for match in TYPE.finditer(code)}
    spaces = {match.end() - 1 for match in NAMESPACE.finditer(code)}
    found = set()
    depth = 0  # of braces that are no namespace's
    stack: list[bool] = []
    for match in re.finditer(r"""[{}]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", code):
        if match[0] == "{":
            if depth == 0 and match.start() in opens:
                found.add(opens[match.start()])
            stack.append(match.start() in spaces)
            depth += not stack[-1]
        elif match[0] == "}" and stack:
            depth -= not stack.pop()
    return found


class House:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "src"
        self.files = sources_of(self.source)

    def floor_of(self, path: Path) -> str:
        return path.relative_to(self.source).parts[0]

    @cached_property
    def arrows(self) -> dict[tuple[str, str], int]:
        """How many includes go from one floor to another."""
        arrows: dict[tuple[str, str], int] = defaultdict(int)
        for path in self.files:
            for name in includes_of(path):
                target = name.split("/")[0]
                if target != self.floor_of(path) and (self.source / name).is_file():
                    arrows[self.floor_of(path), target] += 1
        return arrows

    def below(self, floor: str) -> list[str]:
        return [target for source, target in self.arrows if source == floor]

    @cached_property
    def heights(self) -> dict[str, int]:
        """The longest way down from a floor, itself counted."""
        heights: dict[str, int] = {}
        for floor in FLOOR_TABLE:  # lowest first
            heights[floor.name] = 1 + max(
                (heights[name] for name in self.below(floor.name)), default=0
            )
        return heights

    def reached(self, floor: str) -> set[str]:
        """All floors that a floor comes to, by way of others."""
        return {name for below in self.below(floor) for name in (below, *self.reached(below))}

    def reduced(self, without: set[str]) -> Iterator[tuple[str, str]]:
        """The arrows that do not follow from others."""
        for source, target in self.arrows:
            others = [name for name in self.below(source) if name != target]
            if not {source, target} & without and not any(
                target in self.reached(name) for name in others
            ):
                yield source, target

    def headers_of(self, name: str) -> set[str]:
        """All headers that a file takes in."""
        found: set[str] = set()
        waiting = [self.source / name]
        while waiting:
            for header in includes_of(waiting.pop()):
                if header not in found and (self.source / header).is_file():
                    found.add(header)
                    waiting.append(self.source / header)
        return found

    @cached_property
    def inspect(self) -> list[Path]:
        return sources_of(self.root / "inspect")

    @cached_property
    def same_headers(self) -> dict[str, list[str]]:
        paths = (path for path in [*self.files, *self.inspect] if path.suffix == ".h")
        return doubles((path.name, path.relative_to(self.root).as_posix()) for path in paths)

    @cached_property
    def same_types(self) -> dict[str, list[str]]:
        return doubles(
            (name, path.relative_to(self.root).as_posix())
            for path in [*self.files, *self.inspect]
            for name in types_of(path.read_text(encoding="utf-8"))
        )

    def ideas(self) -> int:
        text = (self.source / "README.md").read_text(encoding="utf-8")
        section = text.partition(f"{IDEAS}\n")[2].partition("\n## ")[0]
        return len(re.findall(r"^\d+\. ", section, re.MULTILINE))

    def rows(self, text_size: str) -> list[Row]:
        core_files = [path for path in self.files if self.floor_of(path) in CORE]
        among = [name for name in CORE if name not in {"base", "os"}]
        arrows = sum(source in among and target in among for source, target in self.arrows)
        to_guests = sum(
            count
            for (source, target), count in self.arrows.items()
            if source in CORE and target in GUESTS
        )
        possible = len(among) * (len(among) - 1) // 2
        all_lines = sum(map(code_lines, [*self.files, *self.inspect]))
        core_lines = sum(map(code_lines, core_files))
        options = json.loads((self.root / "python/loft_malloc/options.json").read_text("utf-8"))
        return [
            Row("lines of code, `src` and `inspect`", "23,500", hundreds(all_lines), "19,000"),
            Row("lines of code of the core", "15,000", hundreds(core_lines), "11,500"),
            Row("files of the core", "", str(len(core_files)), "90"),
            Row("folders of the core", "", str(len(CORE)), "10"),
            Row(
                "ideas to have [before free's slow path is changed](src/README.md)",
                "36",
                str(self.ideas()),
                "24",
            ),
            Row(
                f"headers of ours that `{SLOW_FREE}` takes in",
                "73",
                str(len(self.headers_of(SLOW_FREE))),
                "40",
            ),
            Row("floors, one above the other", "17", str(max(self.heights.values())), "8"),
            Row(
                f"arrows among the core's folders but `base` and `os`, of {possible}",
                "24",
                str(arrows),
                "16",
            ),
            Row("includes of a guest's from the core", "", str(to_guests), "0"),
            Row(SIZE_ROW, "448", text_size, "270"),
            Row("options", "28", str(len(options)), "20"),
            Row("names that several headers have", "", str(len(self.same_headers)), "0"),
            Row("names that several types have", "", str(len(self.same_types)), "0"),
        ]

    def floors(self) -> str:
        """The table of floors, and the picture."""
        lines = ["| | floor | what is there |\n|---:|---|---|\n"]
        for floor in reversed(FLOOR_TABLE):
            kind = "guest: " if floor.guest else ""
            lines.append(f"| {self.heights[floor.name]} | `{floor.name}/` | {kind}{floor.what} |\n")
        return "".join([*lines, "\n", *self.picture()])

    def picture(self) -> Iterator[str]:
        """The core bold, guests dashed; without the floors that all include."""
        yield "```mermaid\nflowchart TD\n"
        for source, target in sorted(self.reduced({"base", "os"})):
            yield f"  {source} --> {target}\n"
        yield "  classDef core stroke-width:3px\n  classDef guest stroke-dasharray:5\n"
        yield f"  class {','.join(name for name in CORE if name not in {'base', 'os'})} core\n"
        yield f"  class {','.join(GUESTS)} guest\n```\n"


def doubles(pairs: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand in several places."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}


def text_size_of(library: Path) -> str | None:
    """In KB; nothing if it is not built."""
    if not library.exists():
        return None
    size = subprocess.run(["size", library], capture_output=True, text=True, check=True).stdout
    return str(round(int(size.splitlines()[1].split()[0]) / 1000))


def kept_size(document: str) -> str:
    found = re.search(rf"^\| {re.escape(SIZE_ROW)} \| \d* \| (\d*) ", document, re.MULTILINE)
    return found[1] if found else ""


def put(document: str, mark: str, text: str) -> str:
    """The document with the text between the marks of the name."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->\n"
    if begin not in document or end not in document:
        sys.exit(f"house: the marks of {mark} are not there")
    return document.partition(begin)[0] + begin + text + end + document.partition(end)[2]


def table(rows: list[Row]) -> str:
    return "".join(["| | was | is | goal |\n|---|---:|---:|---:|\n", *map(str, rows)])


def list_doubles(kind: str, names: Mapping[str, list[str]]) -> None:
    for name, places in names.items():
        print(f"{kind} {name}: {', '.join(places)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--write", action="store_true")
    which.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    house = House(ROOT)
    counts, floors = ROOT / "CONTRIBUTING.md", ROOT / "src" / "README.md"
    was = {path: path.read_text(encoding="utf-8") for path in (counts, floors)}
    kept = kept_size(was[counts])
    rows = house.rows(kept if arguments.check else text_size_of(LIBRARY) or kept)
    written = {
        counts: put(was[counts], "house", table(rows)),
        floors: put(was[floors], "floors", house.floors()),
    }
    if arguments.check:
        if stale := [path for path in written if written[path] != was[path]]:
            names = " and ".join(path.relative_to(ROOT).as_posix() for path in stale)
            sys.exit(f"{names}: not as the sources are: run tools/house.py --write")
    elif arguments.write:
        for path, text in written.items():
            path.write_text(text, encoding="utf-8")
    else:
        print(table(rows))
        for (source, target), includes in sorted(house.arrows.items()):
            if source in CORE and target in CORE and target not in {"base", "os"}:
                print(f"arrow {source} -> {target}: {includes}")
        list_doubles("header", house.same_headers)
        list_doubles("type", house.same_types)


if __name__ == "__main__":
    main()
