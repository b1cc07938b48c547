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

REFUSAL = """\
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
#error "loft needs 64-bit pointers: compile it for a 64-bit machine (without -m32), or leave it out"
#endif
"""

BANNER = """\
// loft {version}: a memory allocator, in one file, for Linux. Written by tools/amalgamate.py
// from the sources in src/, which is where to read and change it.
//
// Add this file to a program and it allocates with loft:
//
//     g++ -std=c++20 -O2 -c loft.cc
//     g++ -o program program.o loft.o -lpthread
//
// It takes the place of malloc, free, operator new and all their relatives; nothing else is needed.
"""

CORE_BANNER = """\
// loft {version}: a memory allocator, in one file, beside the malloc that a program has. Written by
// tools/amalgamate.py from the sources in src/, which is where to read and change it.
//
// Add this file to a library, and it has loft_malloc, loft_free and all else of loft/loft.h for
// itself:
//
//     f="-fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics"
//     g++ -std=c++20 -O2 -fPIC $f -c loft_core.cc
//
// It replaces none of libc's and C++'s functions, and needs libc alone. The library that has it
// shows none of loft's names, and may be opened with dlopen.

#define LOFT_CORE 1
#if !defined(LOFT_API)
#define LOFT_API __attribute__((visibility("hidden")))
#endif
#if !defined(LOFT_TLS_INITIAL_EXEC)
#define LOFT_TLS_LOCAL_DYNAMIC 1
#endif
"""

INSPECT_BANNER = """\
// libloft-inspect {version} in one file, but for libgcc's unwinder, which the linker adds and hides
// (docs/install.md). Written by tools/amalgamate.py from the sources in inspect/.
"""

CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|endif)\b")

# What a library has that is loaded, and a part of a program has not. CMakeLists.txt has them, too.
LOADED = (
    "api/dlopen.cc",
    "os/loaded_symbols.cc",
    "os/vfork.cc",
)
# What defines libc's and C++'s own names. CMakeLists.txt has them, too.
OVERRIDES = re.compile(r"api/(malloc|libc|new|c23)\.cc")


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
        for number, (line, bare) in enumerate(zip(text.splitlines(), bare_lines, strict=True), 1):
            if condition := CONDITION.match(bare):
                depth += -1 if condition[1] == "endif" else 1
            include = INCLUDE.match(line) if bare.lstrip().startswith("#") else None
            ours = include and self.ours(include)
            if ours and depth and ours not in self.seen:
                raise AmalgamationError(
                    f"{shown(path)}:{number}: {ours} is included on a condition"
                )
            if ours:
                self.add(ours)
            elif include and include[2] and not depth:
                self.system.add(include[2])
            elif bare.strip() != "#pragma once":
                body.append(line)
        self.parts.append(f"// ---- {shown(path)} ----\n\n{squeeze(body)}\n")

    def ours(self, include: re.Match[str]) -> Path | None:
        """The file of ours that an include names, or nothing for a system's header."""
        if PUBLIC_HEADER in (include[1], include[2]):
            return self.include / PUBLIC_HEADER
        if not include[1]:
            return None
        own = self.source / include[1]
        return own if own.exists() else self.source.parent / include[1]

    def text(self, banner: str) -> str:
        system = "".join(f"#include <{header}>\n" for header in sorted(self.system))
        return "\n".join([banner, REFUSAL, system, *self.parts])


def shown(path: Path) -> str:
    return "/".join(path.parts[-3:])


def squeeze(lines: list[str]) -> str:
    """The lines without those left empty where an include stood."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def version_of(header: Path) -> str:
    found = re.search(r'#define LOFT_VERSION_STRING "(.*)"', header.read_text(encoding="utf-8"))
    return found[1] if found else "of no version"


def amalgamate(source: Path, include: Path, *, core: bool = False) -> str:
    """The text of the single file. Core: beside the malloc that a program has."""

    def is_left_out(path: Path) -> bool:
        name = f"{path.parent.name}/{path.name}"
        return name in LOADED or (core and OVERRIDES.fullmatch(name) is not None)

    files = sorted(
        (path for path in source.rglob("*.cc") if not is_left_out(path)),
        key=lambda path: (FLOORS.index(path.parent.name), path.name),
    )
    result = Amalgamation(source, include)
    for path in files:
        result.add(path)
    banner = CORE_BANNER if core else BANNER
    return result.text(banner.format(version=version_of(include / PUBLIC_HEADER)))


def amalgamate_inspect(source: Path, include: Path) -> str:
    """The text of the single file of libloft-inspect."""
    result = Amalgamation(source, include)
    for path in sorted((source.parent / "inspect").glob("*.cc")):
        result.add(path)
    return result.text(INSPECT_BANNER.format(version=version_of(include / PUBLIC_HEADER)))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="build/loft.cc, or build/loft_core.cc")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--core", action="store_true", help="leave libc's malloc in its place")
    which.add_argument("--inspect", action="store_true", help="what watches: libloft-inspect")
    arguments = parser.parse_args()
    core: bool = arguments.core
    inspect: bool = arguments.inspect
    name = "loft_inspect.cc" if inspect else "loft_core.cc" if core else "loft.cc"
    output: Path = arguments.output or ROOT / "build" / name
    try:
        sources = ROOT / "src", ROOT / "include"
        write(output, amalgamate_inspect(*sources) if inspect else amalgamate(*sources, core=core))
    except AmalgamationError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
