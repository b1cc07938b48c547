"""loft for FreeBSD and macOS, as far as a Linux machine can tell: it compiles there, it links, and
the library is made as its system wants it.

Nothing is run: docs/porting.md says what to try first on a real machine. The compiler is zig's,
which brings the headers of both systems and the names that their C libraries export.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lief
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ZIG = [sys.executable, "-m", "ziglang"]
FLAGS = [
    "-std=c++20",
    "-O2",
    "-DNDEBUG",
    "-fPIC",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-sanitize=all",
    "-fvisibility=hidden",
]
C_NAMES = {
    "aligned_alloc",
    "calloc",
    "free",
    "malloc",
    "posix_memalign",
    "realloc",
    "reallocf",
    "valloc",
}
FREEBSD_NAMES = C_NAMES | {
    "dallocx",
    "free_aligned_sized",
    "free_sized",
    "malloc_usable_size",
    "mallocx",
    "memalign",
    "rallocx",
    "reallocarray",
    "sallocx",
    "sdallocx",
    "xallocx",
}


@dataclass(frozen=True)
class Built:
    library: Path
    program: Path


def zig(*arguments: object, folder: Path) -> None:
    """Runs the compiler. What it makes of the system's libraries stays beside the build."""
    environment = {
        **os.environ,
        "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build" / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(folder / "zig"),
    }
    done = subprocess.run(
        [*ZIG, *map(str, arguments)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def build(folder: Path, target: str, system: str) -> Built:
    single, loft = folder / "loft.cc", folder / "loft.o"
    amalgamate = ROOT / "tools" / "amalgamate.py"
    subprocess.run([sys.executable, amalgamate, "--system", system, "--output", single], check=True)
    is_elf = system == "freebsd"
    own = ["-ftls-model=initial-exec"] if is_elf else []
    include = f"-I{ROOT / 'include'}"
    zig("c++", "-target", target, *FLAGS, *own, include, "-c", single, "-o", loft, folder=folder)
    library = folder / ("libloft.so" if is_elf else "libloft.dylib")
    shared = ["-shared", "-Wl,-z,now", "-lpthread"] if is_elf else ["-dynamiclib"]
    # Without the compiler's own library, which zig would build first.
    link = ["cc", "-target", target, "-nostdlib"]
    zig(*link, *shared, loft, "-lc", "-o", library, folder=folder)
    program = folder / "everyday"
    begin = ["-Wl,-e,main", "-Wl,--allow-shlib-undefined"] if is_elf else []
    zig(*link, *begin, HERE / "linked.c", include, library, "-lc", "-o", program, folder=folder)
    return Built(library, program)


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def freebsd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("freebsd"), f"{request.param}-freebsd", "freebsd")


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def macos(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("macos"), f"{request.param}-macos", "darwin")


def test_a_library_for_freebsd_takes_the_place_of_malloc(freebsd: Built) -> None:
    library = lief.ELF.parse(str(freebsd.library))
    assert library is not None
    exported = {str(symbol.name) for symbol in library.exported_symbols}
    plain = {name for name in exported if not name.startswith(("loft_", "_Zn", "_Zd"))}
    assert plain == FREEBSD_NAMES
    assert {"loft_malloc", "_Znwm", "_ZdlPv"} <= exported


def test_a_library_for_freebsd_asks_for_libc_alone(freebsd: Built) -> None:
    library = lief.ELF.parse(str(freebsd.library))
    assert library is not None
    assert set(library.libraries) <= {"libc.so.7", "libthr.so.3"}
    missing = set()
    for symbol in library.dynamic_symbols:
        if not symbol.imported:
            continue
        version = symbol.symbol_version
        # 0 and 1 say that no library was found to have it.
        of_libc = version is not None and version.value > 1
        if symbol.name and not of_libc and symbol.binding != lief.ELF.Symbol.BINDING.WEAK:
            missing.add(str(symbol.name))
    # The compiler's library has it, which every program links.
    assert missing <= {"__udivti3"}
    assert not {name for name in C_NAMES if library.get_dynamic_symbol(name) is None}


def test_a_library_for_freebsd_is_bound_at_once_and_sealed(freebsd: Built) -> None:
    library = lief.ELF.parse(str(freebsd.library))
    assert library is not None
    assert library.get(lief.ELF.Segment.TYPE.GNU_RELRO) is not None
    flags = library.get(lief.ELF.DynamicEntry.TAG.FLAGS_1)
    assert flags is not None
    assert isinstance(flags, lief.ELF.DynamicEntryFlags)
    assert lief.ELF.DynamicEntryFlags.FLAG.NOW in flags.flags
    # Threads' variables: 40 bytes that the loader sets up with the thread.
    tls = library.get(lief.ELF.Segment.TYPE.TLS)
    assert tls is not None
    assert tls.virtual_size <= 64
    names = {str(symbol.name) for symbol in library.dynamic_symbols}
    assert not {name for name in names if "emutls" in name or name == "__tls_get_addr"}


def macho(path: Path) -> Any:
    fat = lief.MachO.parse(str(path))
    assert fat is not None
    binary = fat.at(0)
    assert binary is not None
    return binary


def test_a_library_for_macos_has_no_storage_of_threads(macos: Built) -> None:
    library = macho(macos.library)
    sections = {str(section.name) for section in library.sections}
    assert not {name for name in sections if name.startswith("__thread")}
    asked = {str(symbol.name) for symbol in library.imported_symbols}
    assert not {name for name in asked if "tlv" in name or "emutls" in name}


def test_a_library_for_macos_inserts_its_functions(macos: Built) -> None:
    library = macho(macos.library)
    section = library.get_section("__interpose")
    assert section is not None
    begin, end = section.virtual_address, section.virtual_address + section.size
    pairs = 9
    assert section.size == pairs * 16
    bound: dict[str, set[bool]] = {}
    for binding in library.bindings:
        if binding.has_symbol:
            inside = begin <= binding.address < end
            bound.setdefault(str(binding.symbol.name), set()).add(inside)
    names = {f"_{name}" for name in C_NAMES} | {"_malloc_size"}
    assert {name for name, places in bound.items() if True in places} == names
    # What allocates is named there, and is called from nowhere else.
    assert all(bound[f"_{name}"] == {True} for name in ("malloc", "calloc", "valloc"))


def test_a_library_for_macos_becomes_a_zone_when_it_is_loaded(macos: Built) -> None:
    library = macho(macos.library)
    asked = {str(symbol.name) for symbol in library.imported_symbols}
    assert {"_malloc_zone_register", "_malloc_zone_unregister"} <= asked
    assert library.get_section("__mod_init_func") is not None
    others = {str(other.name) for other in library.libraries}
    assert {name for name in others if "libloft" not in name} == {"/usr/lib/libSystem.B.dylib"}


def test_a_program_for_macos_is_linked_with_it(macos: Built) -> None:
    program = macho(macos.program)
    assert "_loft_malloc" in {str(symbol.name) for symbol in program.imported_symbols}
    assert any("libloft.dylib" in str(other.name) for other in program.libraries)


def test_a_program_for_freebsd_is_linked_with_it(freebsd: Built) -> None:
    program = lief.ELF.parse(str(freebsd.program))
    assert program is not None
    assert "loft_malloc" in {str(symbol.name) for symbol in program.imported_symbols}
    assert any("libloft.so" in name for name in program.libraries)
