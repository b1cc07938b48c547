#!/usr/bin/env python3
"""Checks the order of the floors in src/ and what each floor may know.

- A file includes from its own floor and those below it, never from above.
- No file includes one that includes it, by way of however many others. A header and its source
  count as one.
- From outside it includes only what needs no C++ library to link: the freestanding headers, and of
  libc what the allocation functions speak of. System headers stay in os/.
- Only os/ and base/ name a system, an architecture, an intrinsic or assembler.
- No file is longer than 400 lines, no floor than 2250, and every header has `#pragma once`.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Lowest first.
FLOORS = (
    "base",
    "os",
    "space",
    "slab",
    "large",
    "remote",
    "heap",
    "arena",
    "cache",
    "cpu",
    "room",
    "thread",
    "purge",
    "front",
    "stats",
    "api",
)
PORT_FLOORS = frozenset({"base", "os"})
# The public header declares what the upper floors fill in and hand out.
PUBLIC_HEADER = "loft/loft.h"
PUBLIC_HEADER_FLOORS = frozenset({"stats", "api"})
MAX_LINES = 400
MAX_FLOOR_LINES = 2250

# Templates, constants and compiler support: nothing in them is defined in the C++ library.
FREESTANDING = re.compile(
    r"array|atomic|bit|climits|compare|concepts|cstdarg|cstddef|cstdint|initializer_list|iterator"
    r"|limits(\.h)?|new|span|std(arg|def|int)\.h|string_view|tuple|type_traits|utility"
)
# libc functions that never allocate and mean the same on every system.
LIBC = frozenset({"cerrno", "cstring", "errno.h", "string.h"})
# The surface speaks of FILE and of struct mallinfo, and asks the loader for a C++ library that came
# with a plugin.
SURFACE = frozenset({"cstdio", "cstdlib", "dlfcn.h", "malloc.h", "stdio.h", "stdlib.h"})
SURFACE_FLOORS = frozenset({"stats", "api"})
# What the floors that know the system may use: POSIX and Linux, but nothing of the C++ library.
SYSTEM = re.compile(
    r"(sys|linux|asm|machine)/[\w/.-]+"
    r"|(dlfcn|elf|fcntl|features|inttypes|link|pthread|sched|semaphore|signal|time|ucontext|unistd)\.h"
    r"|(\w*intrin|cpuid|arm_\w+|riscv_\w+)\.h"
    r"|cstdlib|cstdio|ctime|stdlib\.h|stdio\.h"
)

# Names that tie a file to a system or an architecture.
UNPORTABLE = re.compile(
    r"""\b(
      __(x86_64|amd64|i386|aarch64|arm|riscv|powerpc64|powerpc|s390x|loongarch\w*|mips\w*)(__|\b)
    | __riscv\w* | _M_(X64|IX86|ARM64)
    | __(linux|gnu_linux|unix|APPLE|FreeBSD|NetBSD|OpenBSD|DragonFly|ANDROID|Fuchsia)__
    | _WIN(32|64) | __MINGW\w+ | __CYGWIN__ | __BIONIC__
    | __(SSE|AVX|BMI|POPCNT|LZCNT|ARM_FEATURE|ARM_NEON)\w*
    | asm | __asm | __asm__
    | _mm\d*_\w+ | __builtin_(ia32|aarch64|arm|riscv)_\w+ | __rdtscp? | SYS_\w+ | __NR_\w+
    )\b""",
    re.VERBOSE,
)
# Which functions the surface must offer is a question to the C library, and nobody else's.
LIBC_MACRO = re.compile(r"\b(__GLIBC\w*|__UCLIBC__)\b")
LIBC_MACRO_FLOORS = frozenset({"base", "os", "api"})
# A declaration's symbol name, which is the same on every architecture, and no assembler.
SYMBOL_NAME = re.compile(r'\b__asm__\(\s*"_Z\w+"\)')
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>|(.*))')


@dataclass(frozen=True)
class Violation:
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


# A comment, a string, or a character, whichever starts first.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)


def without_comments(text: str) -> str:
    """Blanks comments and what stands in quotes, and keeps every line where it was."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    # 1'000'000 is a number, not a character.
    return TOKEN.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text))


def check_include(source: Path, floor: str, line: str) -> str | None:
    """What is wrong with one #include line, or nothing."""
    match = INCLUDE.match(line)
    if match is None:
        return None
    quoted, angled, other = match.groups()
    if other is not None:
        return "the name of an included file must stand in quotes or angle brackets"
    name = quoted or angled
    if name == PUBLIC_HEADER:
        if floor not in PUBLIC_HEADER_FLOORS:
            return f"{floor}/ may not include the public header"
        return None
    if quoted is not None:
        target = quoted.split("/")[0]
        if "/" not in quoted or target not in FLOORS:
            return f'"{quoted}" must be written from src/, as "floor/file.h"'
        if FLOORS.index(target) > FLOORS.index(floor):
            return f"{floor}/ may not include from {target}/, which is above it"
        if not (source / quoted).is_file():
            return f'"{quoted}" does not exist'
        return None
    if FREESTANDING.fullmatch(name) or name in LIBC:
        return None
    if floor in SURFACE_FLOORS and name in SURFACE:
        return None
    if SYSTEM.fullmatch(name):
        return (
            None if floor in PORT_FLOORS else f"<{name}> is a system's header: only os/ may know it"
        )
    return f"<{name}> is not on the list of headers that need no C++ library"


def check_file(path: Path, source: Path) -> Iterator[Violation]:
    relative = path.relative_to(source)
    floor = relative.parts[0]
    shown = Path(source.name) / relative
    if len(relative.parts) < 2 or floor not in FLOORS:
        yield Violation(shown, 1, f"belongs to no floor; the floors are {', '.join(FLOORS)}")
        return
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield Violation(shown, len(lines), f"{len(lines)} lines; {MAX_LINES} is the limit")
    if path.suffix == ".h" and not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield Violation(shown, 1, "a header needs #pragma once")
    named = SYMBOL_NAME.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    code = without_comments(named).splitlines()
    for number, (line, bare) in enumerate(zip(lines, code, strict=True), 1):
        # The included name is blanked in `bare`, which only tells that the line is no comment.
        if bare.lstrip().startswith("#"):
            problem = check_include(source, floor, line)
            if problem is not None:
                yield Violation(shown, number, problem)
        found = UNPORTABLE.search(bare) if floor not in PORT_FLOORS else None
        if found is None and floor not in LIBC_MACRO_FLOORS:
            found = LIBC_MACRO.search(bare)
        if found is not None:
            yield Violation(shown, number, f"{found.group()} belongs in os/ or base/")


def module_of(path: Path, source: Path) -> str:
    return path.relative_to(source).with_suffix("").as_posix()


def check_cycles(files: list[Path], source: Path) -> Iterator[Violation]:
    """A cycle of modules is reported once, at one of them."""
    included: dict[str, set[str]] = {module_of(path, source): set() for path in files}
    for path in files:
        for line in path.read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            if match is None or match.group(1) is None:
                continue
            target = module_of(source / match.group(1), source)
            if target in included and target != module_of(path, source):
                included[module_of(path, source)].add(target)
    try:
        TopologicalSorter(included).prepare()
    except CycleError as error:
        cycle = error.args[1]
        shown = Path(source.name) / f"{cycle[0]}.h"
        yield Violation(shown, 1, f"an include cycle: {' includes '.join(reversed(cycle))}")


def check_floors(files: list[Path], source: Path) -> Iterator[Violation]:
    lines = Counter[str]()
    for path in files:
        lines[path.relative_to(source).parts[0]] += len(path.read_text("utf-8").splitlines())
    for floor, count in lines.items():
        if count > MAX_FLOOR_LINES:
            shown = Path(source.name) / floor
            yield Violation(shown, 1, f"{count} lines; {MAX_FLOOR_LINES} is a floor's limit")


def check_tree(source: Path) -> list[Violation]:
    files = sorted(path for path in source.rglob("*") if path.suffix in {".cc", ".h"})
    return [
        *(violation for path in files for violation in check_file(path, source)),
        *check_cycles(files, source),
        *check_floors(files, source),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=ROOT / "src")
    violations = check_tree(parser.parse_args().source)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
