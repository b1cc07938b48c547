#!/usr/bin/env python3
"""Writes all of src/ as one file that can be dropped into a program.

Every header appears once, where it is first needed; every source follows, lowest floor first. The
included system headers stand at the top, so that no macro of ours reaches them.

In one file the unnamed namespaces in one namespace are one, and all sources share their macros. A
name that two sources define is an error here, reported with both places, before a compiler trips
over it.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from check_includes import FLOORS, INCLUDE, PUBLIC_HEADER, without_comments

ROOT = Path(__file__).resolve().parent.parent

BANNER = """\
// loft {version}: a memory allocator, in one file. Written by tools/amalgamate.py from the sources
// in src/, which is where to read and change it.
//
// Add this file to a program and it allocates with loft:
//
//     g++ -std=c++20 -O2 -c loft.cc
//     g++ -o program program.o loft.o -lpthread
//
// It takes the place of malloc, free, operator new and all their relatives; nothing else is needed.
"""

CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|endif)\b")
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)")
UNDEF = re.compile(r"^\s*#\s*undef\s+(\w+)")
# The name that a declaration in an unnamed namespace introduces: what stands before a parameter
# list, an initialiser or the end, or follows a word for a type.
TYPE_NAME = re.compile(r"^(?:template\s*<.*>\s*)?(?:enum\s+class|enum|class|struct|union)\s+(\w+)")
ALIAS_NAME = re.compile(r"^(?:template\s*<.*>\s*)?using\s+(\w+)\s*=")
OTHER_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:\(|=|\{|;|$)")
POINTER_NAME = re.compile(r"^[\w\s:]+\(\s*\*\s*(?:const\s+)?(\w+)\s*\)")
PARAMETERS = re.compile(r"\([^()]+\)")
PARAMETER_NAME = re.compile(r"(?<=[\w>*&])\s*(?<!\w)\w+(?=\s*[,)])")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)|__attribute__\s*\(\(.*?\)\)")


UNNAMED = "(unnamed)"

# What a library has that is loaded, and a part of a program has not. CMakeLists.txt has them, too.
LOADED = ("api/dlopen.cc", "os/linux_symbols.cc", "os/linux_vfork.cc")


class AmalgamationError(Exception):
    pass


@dataclass
class Amalgamation:
    source: Path
    include: Path
    system: set[str] = field(default_factory=set)
    seen: set[Path] = field(default_factory=set)
    parts: list[str] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Appends one file, and before it whatever it includes and is not there yet."""
        if path in self.seen:
            return
        self.seen.add(path)
        text = path.read_text(encoding="utf-8")
        bare_lines = without_comments(text).splitlines()
        body: list[str] = []
        depth = 0
        for number, line in enumerate(text.splitlines(), 1):
            bare = bare_lines[number - 1]
            condition = CONDITION.match(bare)
            if condition:
                depth += -1 if condition[1] == "endif" else 1
            match = INCLUDE.match(line) if bare.lstrip().startswith("#") else None
            if match is None:
                if bare.strip() != "#pragma once":
                    body.append(line)
                continue
            name = match[1] or match[2]
            if name is None:
                raise AmalgamationError(
                    f"{shown(path)}:{number}: an include that only a compiler can read"
                )
            local = self.resolve(name, quoted=match[1] is not None)
            if local is None:
                if depth:
                    body.append(line)
                else:
                    self.system.add(name)
            elif depth and local not in self.seen:
                raise AmalgamationError(
                    f'{shown(path)}:{number}: "{name}" is included on a condition'
                )
            else:
                self.add(local)
        self.parts.append(f"// ---- {shown(path)} ----\n\n{squeeze(body)}\n")

    def resolve(self, name: str, quoted: bool) -> Path | None:
        """The file of ours that an include names, or nothing for a system's header."""
        if name == PUBLIC_HEADER:
            return self.include / name
        if not quoted:
            return None
        path = self.source / name
        if not path.is_file():
            raise AmalgamationError(f'"{name}" is included and does not exist')
        return path

    def text(self, version: str) -> str:
        system = "".join(f"#include <{name}>\n" for name in sorted(self.system))
        return "\n".join([BANNER.format(version=version), system, *self.parts])


def shown(path: Path) -> str:
    return "/".join(path.parts[-3:])


def squeeze(lines: list[str]) -> str:
    """The lines without those left empty where an include stood."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def local_names(text: str) -> dict[str, int]:
    """What a source keeps to itself: unnamed namespaces, statics, and macros left behind.

    Each with the namespaces around it, as `loft::span::lock`, and the line it stands on. Reads
    declarations by their shape, which is enough for code in one style: a statement is what stands
    between two of `;`, `{` and `}` at the level of the namespace.
    """
    code = ATTRIBUTE.sub(lambda match: " " * len(match.group()), without_comments(text))
    names: dict[str, int] = {}
    for number, line in enumerate(code.splitlines(), 1):
        if defined := DEFINE.match(line):
            names[defined[1]] = number
        elif undefined := UNDEF.match(line):
            names.pop(undefined[1], None)
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", blank_lines, code, flags=re.MULTILINE)

    scopes: list[str | None] = []  # of each open brace
    statement = ""
    started = 1
    number = 1
    for character in code:
        declared = statement.strip()
        local = UNNAMED in scopes or declared.startswith("static ")
        if character in ";{}" and local and None not in scopes:
            name = declared_name(declared, character)
            if name is not None:
                path = [scope for scope in scopes if scope and scope != UNNAMED]
                names.setdefault("::".join([*path, name]), started)
        if character == "{":
            scopes.append(opened_scope(statement.strip()))
        elif character == "}" and scopes:
            scopes.pop()
        if character in ";{}":
            statement = ""
        else:
            if not statement.strip() and not character.isspace():
                started = number
            statement += character
        if character == "\n":
            number += 1
    return names


def opened_scope(statement: str) -> str | None:
    """What a brace after `statement` opens: a namespace, by its name, or nothing of interest."""
    if found := re.fullmatch(r"(?:inline\s+)?namespace\s*([\w:]*)", statement):
        return found[1] or UNNAMED
    # extern "C", whose string is blanked here.
    return "" if statement == "extern" else None


def blank_lines(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def declared_name(statement: str, end: str) -> str | None:
    # What starts with no word goes on from a braced initialiser, whose name was seen before it.
    if not re.match(r"\w", statement):
        return None
    if statement.startswith(("namespace", "static_assert", "friend", "extern")):
        return None
    for pattern in (ALIAS_NAME, TYPE_NAME):
        if found := pattern.match(statement):
            # A forward declaration may stand in many files.
            return None if pattern is TYPE_NAME and end == ";" else found[1]
    if statement.startswith("using"):
        return None
    if found := POINTER_NAME.search(statement):
        return found[1]
    declaration = strip_template(statement)
    found = OTHER_NAME.search(declaration)
    if found is None or " " not in statement:
        return None
    parameters = PARAMETERS.match(declaration, found.end(1)) if end == "{" else None
    # Functions of one name and other parameters may share a namespace, in one file as in many.
    return found[1] + (PARAMETER_NAME.sub("", parameters[0]) if parameters else "")


def strip_template(statement: str) -> str:
    """The statement without `template <...>`, whose defaults look like initialisers."""
    if not statement.startswith("template"):
        return statement
    depth = 0
    for position, character in enumerate(statement):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == ">" and depth == 0:
            return statement[position + 1 :].strip()
    return statement


def clashes(sources: list[Path]) -> list[str]:
    first: dict[str, str] = {}
    problems: list[str] = []
    for path in sources:
        for name, line in local_names(path.read_text(encoding="utf-8")).items():
            place = f"{shown(path)}:{line}"
            if name in first:
                problems.append(
                    f"{place}: `{name}` is also local to {first[name]}; "
                    "in one file they are the same: rename one or move it to a header"
                )
            else:
                first[name] = place
    return problems


def version_of(header: Path) -> str:
    found = dict(re.findall(r"#define LOFT_VERSION_(MAJOR|MINOR|PATCH) (\d+)", header.read_text()))
    return ".".join(found.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH"))


def amalgamate(source: Path, include: Path) -> str:
    files = sorted(
        (path for path in source.rglob("*.cc") if f"{path.parent.name}/{path.name}" not in LOADED),
        key=lambda path: (FLOORS.index(path.parent.name), path.name),
    )
    if problems := clashes(files):
        raise AmalgamationError("\n".join(problems))
    result = Amalgamation(source, include)
    for path in files:
        result.add(path)
    return result.text(version_of(include / PUBLIC_HEADER))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "loft.cc")
    arguments = parser.parse_args()
    try:
        text = amalgamate(ROOT / "src", ROOT / "include")
    except AmalgamationError as error:
        print(error, file=sys.stderr)
        return 1
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
