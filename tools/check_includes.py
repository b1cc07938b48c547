#!/usr/bin/env python3
"""Checks the order of the floors in src/ and what each floor may know: tools/floors.toml.

- A file includes from its own floor and those below it, never from above.
- The core includes nothing of a guest's.
- No file includes one that includes it, by way of however many others. A header and its source
  count as one.
- From outside it includes only what needs no C++ library to link: the freestanding headers, and of
  libc what the allocation functions speak of. System headers stay in os/.
- Only os/ and base/ name a system, an architecture, an intrinsic or assembler.
- Every header has `#pragma once`.
- Each file that the map, src/README.md, names is there, and defines the functions that the map
  names in it.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RULES = tomllib.loads((ROOT / "tools" / "floors.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Floor:
    name: str
    what: str
    core: bool = False
    guest: bool = False


FLOOR_TABLE = [Floor(**row) for row in RULES["floors"]]
FLOORS = [floor.name for floor in FLOOR_TABLE]
CORE = [floor.name for floor in FLOOR_TABLE if floor.core]
GUESTS = [floor.name for floor in FLOOR_TABLE if floor.guest]
PUBLIC_HEADER: str = RULES["public_header"]
NAMES = [
    (re.compile(rf"\b({rule['pattern']})\b", re.VERBOSE), rule["floors"]) for rule in RULES["names"]
]
# A declaration's symbol name, which is the same on every architecture, and no assembler.
SYMBOL_NAME = re.compile(r'\b__asm__\(\s*"_Z\w+"\)')
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>|(.*))')


# A comment, a string, or a character, whichever starts first.
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL)


def without_comments(text: str, *, keep_quoted: bool = False) -> str:
    """Blanks comments and what stands in quotes, and keeps every line where it was."""

    def blank(match: re.Match[str]) -> str:
        if keep_quoted and match.group()[0] != "/":
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    # 1'000'000 is a number, not a character.
    return TOKEN.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text))


def check_include(source: Path, path: Path, line: str) -> str | None:
    """What is wrong with one #include line, or nothing."""
    floor = path.relative_to(source).parts[0]
    match = INCLUDE.match(line)
    if match is None:
        return None
    quoted, angled, other = match.groups()
    if other is not None:
        return "the name of an included file must stand in quotes or angle brackets"
    name = quoted or angled
    if name == PUBLIC_HEADER:
        if floor not in RULES["public_header_floors"]:
            return f"{floor}/ may not include the public header"
        return None
    if quoted is not None:
        target = quoted.split("/")[0]
        if "/" not in quoted or target not in FLOORS:
            return f'"{quoted}" must be written from src/, as "floor/file.h"'
        if FLOORS.index(target) > FLOORS.index(floor):
            return f"{floor}/ may not include from {target}/, which is above it"
        if floor in CORE and target in GUESTS:
            return f"{floor}/ is of the core, and may not include from {target}/, a guest"
        if not (source / quoted).is_file():
            return f'"{quoted}" does not exist'
        return None
    known = [rule for rule in RULES["headers"] if any(fnmatchcase(name, n) for n in rule["names"])]
    if any(floor in rule.get("floors", FLOORS) for rule in known):
        return None
    if known:
        return f"<{name}> is a system's header, which {floor}/ may not know"
    return f"<{name}> is not on the list of headers that need no C++ library"


def check_file(path: Path, source: Path) -> Iterator[str]:
    relative = path.relative_to(source)
    floor = relative.parts[0]
    shown = Path(source.name) / relative
    if len(relative.parts) < 2 or floor not in FLOORS:
        yield f"{shown}:1: belongs to no floor; the floors are {', '.join(FLOORS)}"
        return
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if path.suffix == ".h" and not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield f"{shown}:1: a header needs #pragma once"
    named = SYMBOL_NAME.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    code = without_comments(named).splitlines()
    for number, (line, bare) in enumerate(zip(lines, code, strict=True), 1):
        # The included name is blanked in `bare`, which only tells that the line is no comment.
        if bare.lstrip().startswith("#"):
            problem = check_include(source, path, line)
            if problem is not None:
                yield f"{shown}:{number}: {problem}"
        for pattern, floors in NAMES:
            if floor not in floors and (found := pattern.search(bare)):
                yield f"{shown}:{number}: {found.group()} belongs in {'/ or '.join(floors)}/"


def includes_of(path: Path) -> Iterator[str]:
    """The files of ours that a file includes."""
    for line in path.read_text(encoding="utf-8").splitlines():
        match = INCLUDE.match(line)
        if match is not None and match.group(1) is not None:
            yield match.group(1)


def module_of(path: Path, source: Path) -> str:
    return path.relative_to(source).with_suffix("").as_posix()


def check_cycles(files: list[Path], source: Path) -> Iterator[str]:
    """A cycle of modules is reported once, at one of them."""
    included: dict[str, set[str]] = {module_of(path, source): set() for path in files}
    for path in files:
        for name in includes_of(path):
            target = module_of(source / name, source)
            if target in included and target != module_of(path, source):
                included[module_of(path, source)].add(target)
    try:
        TopologicalSorter(included).prepare()
    except CycleError as error:
        cycle = error.args[1]
        shown = Path(source.name) / f"{cycle[0]}.h"
        yield f"{shown}:1: an include cycle: {' includes '.join(reversed(cycle))}"


def sources_of(source: Path) -> list[Path]:
    return sorted(path for path in source.rglob("*") if path.suffix in {".cc", ".h"})


# The end of a function's head, from after its parameters on.
BEGINS_BODY = re.compile(r"\s*(const\b\s*)?(noexcept\b\s*)?(LOFT_\w+\s*)*(:(?!:)|\{)")


def defines(code: str, function: str) -> bool:
    """Whether the code, which is without comments, defines a function of the name."""
    for match in re.finditer(rf"(?<![.>])\b{function}\s*\(", code):
        end, depth = match.end(), 1
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        if BEGINS_BODY.match(code, end):
            return True
    return False


# A file, and functions in it: `heap/heap.cc refill, release`.
NAMED = re.compile(r"`(\w+/\w+\.(?:h|cc))((?: \w+,?)*)`")


def check_map(source: Path) -> Iterator[str]:
    """Each file that the map names is there, and has the functions that it names."""
    text = (source / "README.md").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        for name, functions in NAMED.findall(line):
            shown = f"{source.name}/README.md:{number}"
            folder = name.split("/")[0]
            if folder not in FLOORS and folder != "inspect":
                continue
            root = source if folder in FLOORS else source.parent
            if not (root / name).is_file():
                yield f"{shown}: {name} does not exist"
                continue
            code = without_comments((root / name).read_text(encoding="utf-8"))
            for function in re.findall(r"\w+", functions):
                if not defines(code, function):
                    yield f"{shown}: {name} defines no {function}"


def check_tree(source: Path) -> list[str]:
    files = sources_of(source)
    return [
        *(violation for path in files for violation in check_file(path, source)),
        *check_cycles(files, source),
    ]


def main() -> int:
    source = ROOT / "src"
    violations = [*check_tree(source), *check_map(source)]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
