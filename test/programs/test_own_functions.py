"""A program's own malloc and its own forms of operator new and delete are used by all that derives
from them, whichever way loft is there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from compilers import link
from programs import OWNERS, SOURCES, Execute

FLAGS = ("-std=c++20", "-O1", "-fno-builtin", "-pthread")
# What a program says that has been linked without loft.
RIGHT = (0, "right\n", "")
# Sets of the pairs that it has itself.
PAIRS = (
    (),
    ("PLAIN",),
    ("ALIGNED",),
    ("ARRAY", "ARRAY_ALIGNED"),
    ("PLAIN", "ARRAY", "ALIGNED", "ARRAY_ALIGNED"),
)
NAMES = ["+".join(pairs) or "none" for pairs in PAIRS]
# Without PIE, a function whose address the program takes has it in the program.
KINDS = {"pie": (), "no-pie": ("-fno-pie", "-no-pie")}

Made = Callable[[str, Sequence[str], Sequence[str | Path]], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A program of own_operators.cc, once for each set of flags and libraries."""
    folder = tmp_path_factory.mktemp("own")

    def of(name: str, flags: Sequence[str], libraries: Sequence[str | Path]) -> Path:
        program = folder / name
        if not program.exists():
            link("g++", [SOURCES / "own_operators.cc"], program, (*FLAGS, *flags), libraries)
        return program

    return of


def operators(made: Made, pairs: Sequence[str], kind: str, *libraries: str | Path) -> Path:
    flags = [*KINDS[kind], *(f"-DOWN_{pair}" for pair in pairs)]
    linked = "-".join(Path(word).suffix for word in libraries)
    return made("-".join([kind, *pairs, linked]), flags, libraries)


def archive(lib: Path) -> Path:
    return lib.parent / "libloft.a"


def ends(result: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pairs", PAIRS, ids=NAMES)
def test_operators_under_a_preloaded_library(
    execute: Execute, made: Made, pairs: Sequence[str], kind: str
) -> None:
    program = operators(made, pairs, kind)
    assert ends(execute(program, preload=False)) == RIGHT
    assert ends(execute(program)) == RIGHT


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("hardened", ["off", "guard", "full"])
def test_operators_in_each_mode(execute: Execute, made: Made, owner: str, hardened: str) -> None:
    for pairs in (("PLAIN",), ("ARRAY", "ARRAY_ALIGNED")):
        program = operators(made, pairs, "pie")
        result = execute(program, LOFT_OWNER=owner, LOFT_HARDENED=hardened, LOFT_SAMPLE_BYTES="1")
        assert ends(result) == RIGHT


@pytest.mark.parametrize("pairs", PAIRS, ids=NAMES)
def test_operators_of_a_program_that_is_linked_with_loft(
    execute: Execute, made: Made, lib: Path, pairs: Sequence[str]
) -> None:
    """Of libloft.a, a member with a form that the program has is no second definition."""
    for library in (archive(lib), lib):
        program = operators(made, pairs, "pie", library, f"-Wl,-rpath,{lib.parent}")
        assert ends(execute(program, preload=False)) == RIGHT
    flags = ["-static", *(f"-DOWN_{pair}" for pair in pairs)]
    static = made("-".join(["static", *pairs]), flags, [archive(lib)])
    assert ends(execute(static, "nobody catches", preload=False)) == RIGHT


def test_a_library_that_begins_before_the_program(
    execute: Execute, lib: Path, tmp_path: Path
) -> None:
    """Its constructor runs before loft's, which is in the program, and calls a derived form."""
    (tmp_path / "first.cc").write_text(
        "int* made;\n"
        "[[gnu::constructor]] void begin() { made = new int[3]; }\n"
        "void end() { delete[] made; }\n"
    )
    (tmp_path / "main.cc").write_text(
        "#include <cstdio>\n#include <cstdlib>\n#include <new>\nvoid end();\nstatic int calls;\n"
        "void* operator new(size_t n) { ++calls; return std::malloc(n); }\n"
        "void operator delete(void* p) noexcept { ++calls; std::free(p); }\n"
        'int main() { end(); std::printf("%d\\n", calls); }\n'
    )
    first, program = tmp_path / "libfirst.so", tmp_path / "program"
    shared: list[str | Path] = ["g++", *FLAGS, "-fPIC", "-shared", tmp_path / "first.cc"]
    subprocess.run([*shared, "-o", first], check=True)
    here = f"-Wl,-rpath,{tmp_path}"
    link("g++", [tmp_path / "main.cc"], program, FLAGS, [archive(lib), first, here])
    assert ends(execute(program, preload=False)) == (0, "2\n", "")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("family")
    own = folder / "own_malloc.o"
    subprocess.run(
        ["gcc", "-O1", "-fno-builtin", "-c", SOURCES / "own_malloc.c", "-o", own], check=True
    )

    def of(name: str, flags: Sequence[str], libraries: Sequence[str | Path]) -> Path:
        program = folder / name
        link("g++", [SOURCES / "own_family.cc"], program, (*FLAGS, *flags), [own, *libraries])
        return program

    return of


def test_a_malloc_of_the_programs_own(execute: Execute, family: Made, lib: Path) -> None:
    program = family("plain", ["-rdynamic"], [])
    for hardened in ("off", "guard", "full"):
        for owner in OWNERS:
            result = execute(program, LOFT_HARDENED=hardened, LOFT_OWNER=owner)
            assert ends(result) == RIGHT, (hardened, owner)
    shared: tuple[str | Path, ...] = (lib, f"-Wl,-rpath,{lib.parent}")
    for name, flags, libraries in (
        ("shared", ["-rdynamic"], shared),
        ("archive", [], (archive(lib),)),
        ("static", ["-static"], (archive(lib),)),
    ):
        linked = family(name, flags, libraries)
        assert ends(execute(linked, preload=False)) == RIGHT, name


def test_a_tracer_of_malloc_sees_what_cpp_makes(
    execute: Execute, lib: Path, tmp_path: Path
) -> None:
    tracer, program = tmp_path / "counting.so", tmp_path / "counted"
    source = SOURCES / "counting_malloc.c"
    flags = ["-O1", "-fno-builtin", "-fPIC", "-shared"]
    subprocess.run(["gcc", *flags, source, "-o", tracer], check=True)
    link("g++", [SOURCES / "counted.cc"], program, FLAGS)
    for preloaded in (str(tracer), f"{tracer}:{lib}"):
        result = execute("env", f"LD_PRELOAD={preloaded}", program, preload=False)
        assert ends(result) == (0, "done\n", "counted\n")
