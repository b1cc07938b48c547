#!/usr/bin/env python3
"""Writes what the crate loft-malloc-sys takes from the rest of the house.

tools/rust_bindings.py             bindings.rs: every function, struct and constant of loft.h
tools/rust_bindings.py --check     exit 1 if that file is not what would be written
tools/rust_bindings.py --sources   src-c: the library as single files, for `cargo package`
tools/rust_bindings.py --asserts   prints C++ that holds the header to the sizes in bindings.rs

The header is regular, so what reads it is short; what it does not know stops it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "loft" / "loft.h"
CRATE = ROOT / "bindings" / "rust" / "loft-malloc-sys"
BINDINGS = CRATE / "src" / "bindings.rs"
SOURCES = CRATE / "src-c"
MUSL = ROOT / "test" / "elsewhere" / "musl"

INTRODUCTION = """\
// Written by tools/rust_bindings.py from include/loft/loft.h, which is where to read and change it.

use core::ffi::{c_char, c_int, c_void};
"""

TYPES = {
    "void": "c_void",
    "char": "c_char",
    "int": "c_int",
    "size_t": "usize",
    "unsigned": "c_uint",
}
TYPES |= {f"uint{bits}_t": f"u{bits}" for bits in (8, 16, 32, 64)} | {"int64_t": "i64"}
WORD = 8  # every field of every struct has so many bytes

# The numbers of a version are constants; the other macros say what only a C compiler is to know.
CONSTANT = re.compile(r"#define (LOFT_VERSION\w*) (.*)")
FUNCTION = re.compile(
    r"LOFT_(?:API|OBJECT|FRESH)\b(?:\([^()]*(?:\([^()]*\))?[^()]*\))?\s+"
    r"(?P<result>[\w ]+?\**)\s*\b(?P<name>loft_\w+)\((?P<takes>[^()]*)\)\s*LOFT_NOEXCEPT;"
)
CALLBACK = re.compile(r"typedef (?P<result>\w+) \(\*(?P<name>loft_\w+)\)\((?P<takes>[^()]*)\);")
STRUCT = re.compile(r"typedef struct (?P<name>loft_\w+) \{(?P<body>.*?)\n\} (?P=name);", re.DOTALL)
OPAQUE = re.compile(r"typedef struct (?P<name>loft_\w+) (?P=name);")
ENUM = re.compile(r"typedef enum (?P<name>loft_\w+) \{(?P<body>.*?)\n\} (?P=name);", re.DOTALL)
VARIABLE = re.compile(r"extern LOFT_API (?P<type>[\w ]+\*) (?P<name>loft_\w+);")
FIELD = re.compile(r"^\s*(?P<type>u?int64_t|size_t|[\w ]+\*)\s*(?P<name>\w+);")
MEMBER = re.compile(r"^\s*(?P<name>LOFT_\w+),")


class UnknownToUs(Exception):
    pass


@dataclass(frozen=True)
class Struct:
    name: str
    fields: list[tuple[str, str, str]]  # what is said of it, name, type


def rust_type(text: str, callbacks: set[str], place: str) -> str:
    """Rust's type for one of C's, of which the header has few."""
    text = text.strip()
    if text.endswith("*"):
        inside = text[:-1].strip()
        constant = inside.startswith("const ")
        pointed = rust_type(inside.removeprefix("const "), callbacks, place)
        return f"*{'const' if constant else 'mut'} {pointed}"
    if text in callbacks:
        return f"Option<{text}>"
    if text in TYPES:
        return TYPES[text]
    if re.fullmatch(r"loft_\w+_t", text):
        return text
    raise UnknownToUs(f"{HEADER.name}: {place}: no type of Rust's is known for {text!r}")


def parameters(takes: str, callbacks: set[str], place: str) -> str:
    takes = " ".join(takes.split())
    if takes == "void":
        return ""
    found = []
    for one in takes.split(","):
        match = re.fullmatch(r"\s*(.*?[\s*])(\w+)\s*", one)
        if match is None:
            raise UnknownToUs(f"{HEADER.name}: {place}: a parameter without a name: {one!r}")
        found.append(f"{match[2]}: {rust_type(match[1], callbacks, place)}")
    return ", ".join(found)


def result_of(text: str, callbacks: set[str], place: str) -> str:
    return "" if text == "void" else f" -> {rust_type(text, callbacks, place)}"


def documented(text: list[str], indent: str = "") -> str:
    """The lines as rustdoc's. Indented ones would be taken for Rust's own code, and run."""
    lines: list[str] = []
    inside = False
    for line in text:
        formula = line.startswith("     ")
        if formula != inside and (formula or line):
            lines.append("```text" if formula else "```")
            inside = formula
        lines.append(line.strip() if formula else line.removeprefix(" ").rstrip())
    if inside:
        lines.append("```")
    # What looks like a link to rustdoc, and is a range.
    lines = [line.replace("[", r"\[").replace("]", r"\]") for line in lines]
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in lines)


def comments_of(lines: list[str], end: int) -> list[str]:
    """The lines of comment directly above a line."""
    begin = end
    while begin > 0 and lines[begin - 1].lstrip().startswith("///"):
        begin -= 1
    return [line.lstrip()[3:] for line in lines[begin:end]]


def fields_of(name: str, body: str, callbacks: set[str]) -> Iterator[tuple[str, str, str]]:
    """Each has its comment above, or begun beside it."""
    above: list[str] = []
    found: list[tuple[list[str], str, str]] = []
    for line in body.splitlines():
        beside = re.search(r"///<(.*)", line)
        if match := FIELD.match(line):
            said = [beside[1]] if beside else above
            found.append((said, match["name"], rust_type(match["type"], callbacks, name)))
            above = []
        elif line.lstrip().startswith("///<") and found:
            found[-1][0].append(line.lstrip()[4:])
        elif line.lstrip().startswith("///"):
            above.append(line.lstrip()[3:])
        elif line.strip() and not line.lstrip().startswith("//"):
            raise UnknownToUs(f"{HEADER.name}: {name}: not a field: {line.strip()!r}")
        else:
            above = []
    for said, field, kind in found:
        yield documented(said, "    "), field, kind


def written_struct(struct: Struct, said: str) -> str:
    """Its sizes are those that the header is held to, too."""
    fields = "".join(f"{about}    pub {name}: {kind},\n" for about, name, kind in struct.fields)
    checks = f"    assert!(core::mem::size_of::<{struct.name}>() == {len(struct.fields) * WORD});\n"
    for place, (_, name, _) in enumerate(struct.fields):
        checks += f"    assert!(core::mem::offset_of!({struct.name}, {name}) == {place * WORD});\n"
    return (
        f"{said}#[repr(C)]\n#[non_exhaustive]\n"
        "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n"
        f"pub struct {struct.name} {{\n{fields}}}\n\nconst _: () = {{\n{checks}}};\n"
    )


def constants(text: str) -> Iterator[str]:
    for match in CONSTANT.finditer(text):
        value, _, said = match[2].partition("///<")
        value = value.strip()
        comment = said.strip() or "A number that grows with every release."
        kind, value = ("&str", value) if value.startswith('"') else ("c_int", value.strip("()"))
        yield f"/// {comment}\npub const {match[1]}: {kind} = {value};\n"


def structs(text: str) -> list[Struct]:
    return [
        Struct(match["name"], list(fields_of(match["name"], match["body"], set())))
        for match in STRUCT.finditer(text)
    ]


def bindings(text: str) -> str:
    lines = text.splitlines()

    def said(at: int, indent: str = "") -> str:
        return documented(comments_of(lines, text.count("\n", 0, at)), indent)

    callbacks = {match["name"] for match in CALLBACK.finditer(text)}
    parts = list(constants(text))
    for match in CALLBACK.finditer(text):
        takes = parameters(match["takes"], callbacks, match["name"])
        result = result_of(match["result"], callbacks, match["name"])
        parts.append(
            f"{said(match.start())}pub type {match['name']} = "
            f'unsafe extern "C" fn({takes}){result};\n'
        )
    for match in OPAQUE.finditer(text):
        parts.append(
            f"{said(match.start())}#[repr(C)]\npub struct {match['name']} {{\n"
            f"    inside: [u8; 0],\n"
            f"    pinned: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,\n}}\n"
        )
    for match, struct in zip(STRUCT.finditer(text), structs(text), strict=True):
        parts.append(written_struct(struct, said(match.start())))
    for match in ENUM.finditer(text):
        parts.append(f"{said(match.start())}pub type {match['name']} = core::ffi::c_uint;\n")
        for number, line in enumerate(match["body"].strip("\n").splitlines()):
            if (member := MEMBER.match(line)) is None or "///<" not in line:
                raise UnknownToUs(f"{HEADER.name}: {match['name']}: no member: {line.strip()!r}")
            comment = line.partition("///<")[2].strip()
            parts.append(
                f"/// {comment}\npub const {member['name']}: {match['name']} = {number};\n"
            )
    inside = []
    for match in VARIABLE.finditer(text):
        kind = rust_type(match["type"], callbacks, match["name"])
        inside.append(f"{said(match.start(), '    ')}    pub static {match['name']}: {kind};\n")
    functions = list(FUNCTION.finditer(text))
    for match in functions:
        name = match["name"]
        takes = parameters(match["takes"], callbacks, name)
        result = result_of(match["result"], callbacks, name)
        inside.append(f"{said(match.start(), '    ')}    pub fn {name}({takes}){result};\n")
    if len(functions) != text.count("LOFT_NOEXCEPT;"):
        known = {match["name"] for match in functions}
        left = set(re.findall(r"\b(loft_\w+)\(", text)) - known - callbacks
        raise UnknownToUs(f"{HEADER.name}: a function is not understood: {', '.join(sorted(left))}")
    parts.append('unsafe extern "C" {\n' + "\n".join(inside) + "}\n")
    return INTRODUCTION + "\n" + "\n".join(parts)


def asserts(text: str) -> str:
    lines = ["#include <loft/loft.h>"]
    for struct in structs(text):
        size = len(struct.fields) * WORD
        lines.append(f"static_assert(sizeof({struct.name}) == {size});")
        for place, (_, name, _) in enumerate(struct.fields):
            lines.append(f"static_assert(offsetof({struct.name}, {name}) == {place * WORD});")
    return "\n".join(lines) + "\n"


def write_sources(folder: Path) -> None:
    """Everything that build.rs compiles where there is no checkout."""
    amalgamate = [sys.executable, str(ROOT / "tools" / "amalgamate.py")]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([*amalgamate, "--core", "--output", str(folder / "loft_core.cc")], check=True)
    subprocess.run([*amalgamate, "--output", str(folder / "loft.cc")], check=True)
    subprocess.run(
        [*amalgamate, "--inspect", "--output", str(folder / "loft_inspect.cc")], check=True
    )
    (folder / "loft").mkdir(exist_ok=True)
    shutil.copyfile(HEADER, folder / "loft" / "loft.h")
    shutil.copytree(MUSL, folder / "musl", dirs_exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sources", type=Path, nargs="?", const=SOURCES)
    parser.add_argument("--asserts", action="store_true")
    arguments = parser.parse_args()
    if arguments.sources:
        write_sources(arguments.sources)
        return
    text = HEADER.read_text(encoding="utf-8")
    try:
        if arguments.asserts:
            print(asserts(text), end="")
            return
        wanted = bindings(text)
    except UnknownToUs as error:
        sys.exit(str(error))
    if not arguments.check:
        BINDINGS.write_text(wanted, encoding="utf-8")
    elif BINDINGS.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{BINDINGS.relative_to(ROOT)} is not the header's: run tools/rust_bindings.py")


if __name__ == "__main__":
    main()
