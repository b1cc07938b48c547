"""Programs without a mistake, which hardened=full lets go on."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from compilers import link
from programs import SOURCES, Build, Execute

OWNERS = ("thread", "cpu", "shared")


@pytest.mark.parametrize("owner", OWNERS)
def test_objects_of_another_thread(execute: Execute, build: Build, owner: str) -> None:
    result = execute(build("hardened.c"), "remote", LOFT_HARDENED="full", LOFT_OWNER=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_sizes_of_what_has_no_tag(execute: Execute, build: Build) -> None:
    result = execute(build("hardened.c"), "sizes", LOFT_HARDENED="full")
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("owner", OWNERS)
def test_what_cpp_makes(execute: Execute, build: Build, owner: str) -> None:
    result = execute(build("hardened_new.cc"), LOFT_HARDENED="full", LOFT_OWNER=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_a_program_with_some_operators_of_its_own(execute: Execute, tmp_path: Path) -> None:
    program = tmp_path / "program"
    source = SOURCES / "hardened_new.cc"
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-DOWN_OPERATORS", str(source), "-o", str(program)], check=True
    )
    result = execute(program, LOFT_HARDENED="full")
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_foreign_addresses_are_told_once(execute: Execute, build: Build) -> None:
    result = execute(build("hardened.c"), "foreign", LOFT_HARDENED="full", LOFT_MISUSE="continue")
    assert (result.returncode, result.stdout) == (0, "done\n")
    calls = [line.split()[1] for line in result.stderr.splitlines()]
    assert calls == ["free", "malloc_usable_size", "realloc"]


@pytest.mark.parametrize("owner", OWNERS)
def test_objects_without_a_class_are_refused(execute: Execute, build: Build, owner: str) -> None:
    result = execute(
        build("hardened.c"),
        "refused",
        LOFT_HARDENED="full",
        LOFT_OWNER=owner,
        LOFT_HARD_LIMIT="40M",
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_more_long_objects_than_there_are_mappings(execute: Execute, build: Build) -> None:
    result = execute(build("hardened.c"), "mappings", LOFT_HARDENED="full")
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert result.stderr.startswith("loft: hardened: there are too many mappings")
    assert result.stderr.count("\n") == 1


def test_a_resize_in_cell_looks_at_what_lies_behind(execute: Execute, build: Build) -> None:
    result = execute(build("hardened.c"), "resize", LOFT_HARDENED="full")
    assert (result.returncode, result.stdout) == (-signal.SIGABRT, "")
    assert result.stderr.startswith("loft: realloc: a write beyond the object has damaged what ")


def test_fortified_calls_end_as_those_of_libc(execute: Execute, build: Build, lib: Path) -> None:
    both = f"{lib.parent / 'libloft-bounds.so'} {lib}"
    for preloaded in (str(lib), both):
        result = execute("env", f"LD_PRELOAD={preloaded}", build("hardened.c"), "fortified")
        assert (result.returncode, result.stdout) == (-signal.SIGABRT, "")
        assert "buffer overflow detected" in result.stderr


@pytest.mark.parametrize("mode", ["guard", "full"])
@pytest.mark.parametrize("required", ["off", "on", "", "yes"])
def test_a_mode_that_cannot_be_kept(
    execute: Execute, lib: Path, tmp_path: Path, mode: str, required: str
) -> None:
    """A library begins a thread before loft, which is a part of the program, is ready."""
    (tmp_path / "first.c").write_text(
        "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "static void* wait_long(void* p) { free(malloc(10)); pause(); return p; }\n"
        "__attribute__((constructor)) static void begin(void) {\n"
        "  pthread_t thread;\n  pthread_create(&thread, NULL, wait_long, NULL);\n}\n"
    )
    first, program = tmp_path / "libfirst.so", tmp_path / "program"
    flags = ["-O1", "-fno-builtin", "-pthread"]
    link("gcc", [tmp_path / "first.c"], first, [*flags, "-fPIC", "-shared"])
    parts: list[str | Path] = ["-Wl,-u,malloc", lib.parent / "libloft.a", "-Wl,--no-as-needed"]
    link("gcc", [SOURCES / "hello.c"], program, flags, [*parts, first, f"-Wl,-rpath,{tmp_path}"])
    settings = {"LOFT_HARDENED": mode} | ({"LOFT_HARDENED_REQUIRED": required} if required else {})
    result = execute(program, preload=False, **settings)
    assert f"loft: hardened={mode}: the program has other threads already" in result.stderr
    if required in ("on", "yes"):  # what is not understood is taken as the stricter one
        assert (result.returncode, result.stdout) == (-signal.SIGABRT, "")
        assert result.stderr.endswith("; hardened_required=on, so the program stops\n")
    else:
        assert (result.returncode, result.stdout) == (0, "hello\n")
        assert result.stderr.endswith("; hardened=off instead\n")


@pytest.mark.parametrize("mode", ["off", "guard", "full"])
def test_a_mode_that_can_be_kept(execute: Execute, build: Build, mode: str) -> None:
    result = execute(build("hello.c"), LOFT_HARDENED=mode, LOFT_HARDENED_REQUIRED="on")
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello\n", "")


@pytest.mark.parametrize("mode", ["off", "guard", "full"])
@pytest.mark.parametrize("resized", [False, True])
def test_samples_from_before(
    execute: Execute, lib: Path, tmp_path: Path, mode: str, resized: bool
) -> None:
    """A profile begins before loft, which is a part of the program, knows its options."""
    source = tmp_path / "main.c"
    source.write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        "int loft_option_set(const char* name, const char* value);\n"
        "static const size_t kSizes[] = {1, 100, 50000, 6 << 20};\n"
        "static char* objects[4];\n"
        "__attribute__((constructor(101))) static void begin(void) {\n"
        '  loft_option_set("sample_bytes", "1");\n  loft_option_set("profile", "on");\n'
        "  for (int i = 0; i < 4; ++i) memset(objects[i] = malloc(kSizes[i]), 1, kSizes[i]);\n}\n"
        "int main(int count, char** words) {\n"
        "  for (int i = 0; i < 4; ++i) {\n"
        "    if (count > 1) objects[i] = realloc(objects[i], 2 * kSizes[i]);\n"
        "    if (objects[i][kSizes[i] - 1] != 1) return 1;\n"
        "    free(objects[i]);\n  }\n  return words[0] == NULL;\n}\n"
    )
    program = tmp_path / "main"
    parts: list[str | Path] = ["-Wl,-u,malloc", lib.parent / "libloft.a", "-Wl,--no-as-needed"]
    link("gcc", [source], program, ["-O1", "-fno-builtin", "-pthread"], parts)
    words = ["resized"] if resized else []
    result = execute(program, *words, preload=False, LOFT_HARDENED=mode, LOFT_PROFILE="on")
    assert result.returncode == 0, result.stderr
