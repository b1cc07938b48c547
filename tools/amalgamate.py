#!/usr/bin/env python3
"""Writes all of src/ as one file that can be dropped into a program.

Every header appears once, where it is first needed; every source follows, lowest floor first. The
included system headers stand at the top, so that no macro of ours reaches them.

In one file the unnamed namespaces in one namespace are one, and all sources share their macros. A
name that two sources define is for the compiler to find: test/tools compiles the file.
"""

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


def version_of(header: Path) -> str:
    found = dict(re.findall(r"#define LOFT_VERSION_(MAJOR|MINOR|PATCH) (\d+)", header.read_text()))
    return ".".join(found.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH"))


def amalgamate(source: Path, include: Path) -> str:
    files = sorted(
        (path for path in source.rglob("*.cc") if f"{path.parent.name}/{path.name}" not in LOADED),
        key=lambda path: (FLOORS.index(path.parent.name), path.name),
    )
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
