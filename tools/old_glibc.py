#!/usr/bin/env python3
"""Writes the libraries that an old glibc would have offered the linker.

What is linked against them asks for symbol versions up to that glibc's alone, from the libraries
that had them: `pthread_create` from libpthread.so.0, which later moved into libc. They hold names
and no code, and are read off the libc of the compiler in use, which still serves every version.
The objects are the same as ever, so a static library made of them is too.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

Version = tuple[int, ...]
VERSION = re.compile(r"GLIBC_([0-9.]+)")
# The libraries that were separate until 2.34, with how the names begin that moved into libc.
MOVED = {"libdl.so.2": ("dl",), "libpthread.so.0": ("pthread_", "sem_", "__pthread_", "thrd_")}
# Until 2.33 these were calls of a function that also says which struct it means.
OLD_STAT = """
struct stat;
#if defined(__x86_64__)
enum { kStat = 1 };
#else
enum { kStat = 0 };
#endif
#define HIDDEN __attribute__((visibility("hidden")))
int __fxstat(int, int, struct stat*);
int __lxstat(int, const char*, struct stat*);
int __xstat(int, const char*, struct stat*);
int __fxstatat(int, int, const char*, struct stat*, int);
HIDDEN int fstat(int file, struct stat* found) { return __fxstat(kStat, file, found); }
HIDDEN int lstat(const char* path, struct stat* found) { return __lxstat(kStat, path, found); }
HIDDEN int stat(const char* path, struct stat* found) { return __xstat(kStat, path, found); }
HIDDEN int fstatat(int folder, const char* path, struct stat* found, int flags) {
  return __fxstatat(kStat, folder, path, found, flags);
}
"""


class Symbol(NamedTuple):
    name: str
    version: str
    kind: str  # as the assembler calls it
    size: int

    @property
    def since(self) -> Version:
        return number(self.version)


def number(version: str) -> Version:
    found = VERSION.fullmatch(version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def said(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def exported(library: Path, readelf: str) -> Iterator[Symbol]:
    kinds = {"FUNC": "function", "IFUNC": "function", "OBJECT": "object", "TLS": "tls_object"}
    for line in said(readelf, "--wide", "--dyn-syms", library).splitlines():
        words = line.split()
        if len(words) < 8 or words[6] == "UND" or words[3] not in kinds or "@" not in words[7]:
            continue
        name, version = words[7].replace("@@", "@").split("@")
        if number(version):
            yield Symbol(name, version, kinds[words[3]], int(words[2], 0))


def of_old(symbols: list[Symbol], newest: Version) -> dict[str, list[Symbol]]:
    """For each library of that glibc, what it offers: of each name the newest version."""
    chosen: dict[str, Symbol] = {}
    latest: dict[str, Version] = {}
    for symbol in symbols:
        latest[symbol.name] = max(latest.get(symbol.name, ()), symbol.since)
        before = chosen.get(symbol.name)
        if symbol.since <= newest and (before is None or before.since < symbol.since):
            chosen[symbol.name] = symbol
    libraries: dict[str, list[Symbol]] = {"libc.so.6": [], **{name: [] for name in MOVED}}
    for name, symbol in sorted(chosen.items()):
        home = "libc.so.6"
        if latest[name] > newest:
            home = next((at for at, begins in MOVED.items() if name.startswith(begins)), home)
        libraries[home].append(symbol)
    return libraries


def write_library(folder: Path, soname: str, symbols: list[Symbol], compiler: str) -> None:
    lines = [".text", ".globl loft_old_glibc", "loft_old_glibc:"]
    for index, symbol in enumerate(symbols):
        local = symbol.kind == "tls_object"
        section = '.section .tbss,"awT",%nobits' if local else ".text"
        lines += [
            section,
            f".globl s{index}",
            f".type s{index}, %{symbol.kind}",
            f".size s{index}, {symbol.size}",
            f"s{index}:" + " .skip 1" * local,
            f".symver s{index}, {symbol.name}@@{symbol.version}, remove",
        ]
    versions = sorted({symbol.version for symbol in symbols}, key=number)
    nodes = [f"{version} {{ }};" for version in versions] or ["LOFT { local: *; };"]
    source, script = folder / f"{soname}.s", folder / f"{soname}.map"
    source.write_text("\n".join(lines) + "\n")
    script.write_text("\n".join(nodes) + "\n")
    said(
        *(compiler, "-shared", "-nostdlib", "-nostartfiles", f"-Wl,-soname,{soname}"),
        *(f"-Wl,--version-script={script}", "-o", folder / soname, source),
    )


def write(folder: Path, newest: Version, compiler: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    libc = Path(said(compiler, "-print-file-name=libc.so.6")).resolve()
    readelf = said(compiler, "-print-prog-name=readelf")
    libraries = of_old(list(exported(libc, readelf)), newest)
    for soname, symbols in libraries.items():
        write_library(folder, soname, symbols, compiler)
    flags = ("-xc", "-O2", "-fPIC", "-fno-builtin", "-ffunction-sections")
    (folder / "stat.c").write_text(OLD_STAT)
    said(compiler, *flags, "-c", folder / "stat.c", "-o", folder / "stat.o")
    archiver = said(compiler, "-print-prog-name=ar")
    (folder / "libstat.a").unlink(missing_ok=True)
    said(archiver, "rcD", folder / "libstat.a", folder / "stat.o")
    # The part of libc that goes into each program, and the loader, which offers a few names.
    rest = said(compiler, "-print-file-name=libc_nonshared.a")
    loader = next(libc.parent.glob("ld-linux-*.so.*"))
    quoted = f'"{folder}/{{}}"'.format  # a folder's name may have spaces
    own = f"{quoted('libc.so.6')} {quoted('libstat.a')}"
    moved = f"{quoted('libpthread.so.0')} {quoted('libdl.so.2')}"
    (folder / "libc.so").write_text(f'GROUP ( {own} "{rest}" AS_NEEDED ( "{loader}" {moved} ) )\n')
    for short in ("pthread", "dl"):
        soname = next(name for name in MOVED if name.startswith(f"lib{short}."))
        (folder / f"lib{short}.so").write_text(f"GROUP ( AS_NEEDED ( {quoted(soname)} ) )\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--glibc", default="2.28", metavar="VERSION")
    parser.add_argument("--compiler", default="cc", metavar="CC", help="gcc, or one like it")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    asked = parser.parse_args()
    newest = number(f"GLIBC_{asked.glibc}")
    if not newest:
        sys.exit(f"old_glibc: {asked.glibc} is no version of glibc; 2.28 is one")
    try:
        write(asked.output.resolve(), newest, asked.compiler)
    except subprocess.CalledProcessError as error:
        sys.exit(f"old_glibc: {error.cmd[0]} failed: {error.stderr.strip()}")
    except StopIteration:
        sys.exit("old_glibc: this compiler's libc is not glibc; leave LOFT_GLIBC empty")


if __name__ == "__main__":
    main()
