"""What a compiler of Debian needs to make programs and libraries for musl, on either machine.

The headers and the names that musl exports are those of zig's package, which has no compiled file
of them: the library that is linked with is made here, and holds names and no code. The headers of
C++ are the compiler's own; of those that differ by system, test/elsewhere/musl has musl's.
"""

import shlex
from importlib.util import find_spec
from pathlib import Path

from package_base import ROOT, PackageError, run

# The machines as some of zig's files call them.
FAMILIES = {"x86_64": "x86", "aarch64": "aarch64"}
# The compiler's library asks glibc so which instructions there are. musl keeps this name to itself.
ASKED = """
unsigned long getauxval(unsigned long kind);
__attribute__((visibility("hidden"))) unsigned long __getauxval(unsigned long kind) {
  return getauxval(kind);
}
"""


def zig_libc() -> Path:
    found = find_spec("ziglang")
    if found is None or found.origin is None:
        raise PackageError("ziglang is missing, which has musl's headers: tools/requirements.txt")
    return Path(found.origin).parent / "lib" / "libc"


def compiler_headers(compiler: str) -> list[str]:
    """Where the compiler looks for C++'s headers and its own, of all places."""
    told = run(compiler, "-E", "-v", "-xc++", "/dev/null").stderr
    listed = told.partition("search starts here:\n#include <...>")[2].partition("End of")[0]
    places = [str(Path(line.strip()).resolve()) for line in listed.splitlines()[1:]]
    return [place for place in places if "/c++/" in place or "/gcc" in place]


def headers(machine: str, compiler: str) -> list[str]:
    """Of C."""
    libc = zig_libc() / "include"
    names = (f"{machine}-linux-musl", "generic-musl")
    kernel = (f"{FAMILIES[machine]}-linux-any", "any-linux-any")
    own = [place for place in compiler_headers(compiler) if "/c++/" not in place]
    return [*(str(libc / name) for name in (*names, *kernel)), *own]


def cxx_headers(machine: str, compiler: str) -> list[str]:
    own = [place for place in compiler_headers(compiler) if "/c++/" in place]
    return [str(ROOT / "test" / "elsewhere" / "musl"), *own, *headers(machine, compiler)]


def write(folder: Path, machine: str, compiler: str) -> None:
    """The libraries and what a program begins with, in a folder for the linker to look into."""
    musl = zig_libc() / "musl"
    names = folder / "names"
    names.mkdir(parents=True, exist_ok=True)
    # clang's assembler knows a section by its name alone.
    text = (musl / "libc.S").read_text().replace("\n.rodata\n", "\n.section .rodata\n")
    (names / "libc.S").write_text(text)
    kind = (f"-DARCH_{machine}", f"-DFAMILY_{FAMILIES[machine]}", "-DPTR64")
    # Alpine's name, by which wheels ask for it. Every musl takes what begins with libc. for itself.
    shared = ("-shared", "-nostdlib", f"-Wl,-soname,libc.musl-{machine}.so.1")
    run(compiler, *kind, *shared, "-o", names / "libc.so", names / "libc.S")
    (folder / "asked.c").write_text(ASKED)
    flags: tuple[str, ...] = ("-O2", "-fPIC", "-fno-builtin", "-ffunction-sections", "-nostdinc")
    run(compiler, "-xc", *flags, "-c", folder / "asked.c", "-o", folder / "asked.o")
    run("ar", "rcD", folder / "libasked.a", folder / "asked.o")
    (folder / "libc.so").write_text(f"GROUP ( {names}/libc.so {folder}/libasked.a )\n")
    for name in ("pthread", "dl"):
        (folder / f"lib{name}.so").write_text("GROUP ( -lc )\n")
    # A program begins there. Of what the file includes, this is all that it uses.
    (folder / "libc.h").write_text("#define weak __attribute__((weak))\n#define hidden\n")
    begin, arch = musl / "crt" / "Scrt1.c", musl / "arch" / machine
    flags += ("-I", str(folder), "-I", str(arch), *system(headers(machine, compiler)))
    run(compiler, "-xc", *flags, "-c", begin, "-o", folder / "Scrt1.o")


def system(places: list[str]) -> tuple[str, ...]:
    return tuple(word for place in places for word in ("-isystem", place))


def defines(folder: Path, machine: str, compiler: str) -> dict[str, str]:
    """What makes CMake's compiler one for musl, with what write() has left in the folder."""
    linked = f"-nostartfiles -L{folder}"
    # Line tables name the headers, and the library's id follows from them.
    maps = (f"-ffile-prefix-map={zig_libc()}=zig", f"-ffile-prefix-map={ROOT}=.")
    compiled = ("-nostdinc", *maps, *system(cxx_headers(machine, compiler)))
    loader = f"-Wl,-dynamic-linker,/lib/ld-musl-{machine}.so.1"
    return {
        "CMAKE_CXX_FLAGS": shlex.join(compiled),
        "CMAKE_SHARED_LINKER_FLAGS": linked,
        "CMAKE_MODULE_LINKER_FLAGS": linked,
        "CMAKE_EXE_LINKER_FLAGS": f"{linked} -pie {folder}/Scrt1.o {loader}",
        # CMake would try the compiler with a program of C++, and no library of it is there.
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
    }
