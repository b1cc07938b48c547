"""Code that a program loads while it runs finds loft's functions, whatever way it looks for them.

Under another preloaded malloc most of these crash: an object of the one meets the free of the
other.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from programs import PYTHON, SOURCES, Build, Execute

FLAGS = ("-O1", "-fno-builtin", "-fPIC", "-shared")


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "plugin.so"
    subprocess.run(["gcc", *FLAGS, SOURCES / "plugin.c", "-o", path], check=True)
    return path


def test_without_loft(execute: Execute, build: Build, plugin: Path) -> None:
    result = execute(build("plugins.c"), plugin, "1", "handle", preload=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "crossed\n", "")


def test_a_library_is_found_where_its_caller_says(
    execute: Execute, build: Build, tmp_path: Path
) -> None:
    """By the RUNPATH of the library that calls dlopen, which is not loft's."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner.c").write_text("int inner(void) { return 7; }\n")
    (tmp_path / "outer.c").write_text(
        '#include <dlfcn.h>\nint outer(void) { return dlopen("libinner.so", RTLD_NOW) != 0; }\n'
    )
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nint outer(void);\n"
        'int main(void) { puts(outer() ? "found" : "not found"); }\n'
    )
    inner, outer, main = (tmp_path / name for name in ("inner/libinner.so", "libouter.so", "main"))
    subprocess.run(["gcc", *FLAGS, tmp_path / "inner.c", "-o", inner], check=True)
    paths = "-Wl,--enable-new-dtags,-rpath,$ORIGIN"
    subprocess.run(["gcc", *FLAGS, tmp_path / "outer.c", f"{paths}/inner", "-o", outer], check=True)
    subprocess.run(["gcc", tmp_path / "main.c", outer, paths, "-o", main], check=True)
    for preload in (False, True):
        result = execute(main, preload=preload)
        assert (result.returncode, result.stdout, result.stderr) == (0, "found\n", ""), preload


@pytest.mark.parametrize("threads", [1, 16])
def test_a_plugin_with_a_scope_of_its_own(
    execute: Execute, build: Build, plugin: Path, threads: int
) -> None:
    result = execute(build("plugins.c"), plugin, str(threads))
    assert (result.returncode, result.stdout, result.stderr) == (0, "crossed\n", "")


def test_a_plugin_that_dlmopen_loads(execute: Execute, build: Build, plugin: Path) -> None:
    result = execute(build("plugins.c"), plugin, "4", "dlmopen")
    assert (result.returncode, result.stdout, result.stderr) == (0, "crossed\n", "")


def test_names_that_cannot_be_given_away(execute: Execute, build: Build) -> None:
    """Said once: whoever sees two mallocs in one program then knows why."""
    result = execute(build("names_refused.c"))
    assert (result.returncode, result.stdout) == (0, "loaded\n")
    assert result.stderr.count("loft: dlopen: the system does not let") == 1


def test_functions_from_handles(execute: Execute, build: Build, plugin: Path) -> None:
    result = execute(build("plugins.c"), plugin, "1", "handle")
    assert (result.returncode, result.stdout, result.stderr) == (0, "crossed\n", "")


def test_functions_that_python_takes_from_libc(execute: Execute) -> None:
    script = """
import ctypes
libc = ctypes.CDLL("libc.so.6")
libc.strdup.restype = libc.malloc.restype = ctypes.c_void_p
libc.malloc_usable_size.argtypes = libc.free.argtypes = [ctypes.c_void_p]
libc.malloc_usable_size.restype = ctypes.c_size_t
for size in range(1, 5000, 7):
    libc.free(libc.strdup(b"x" * size))
    place = libc.malloc(size)
    assert libc.malloc_usable_size(place) >= size
    ctypes.CDLL(None).free(ctypes.c_void_p(place))
print("taken")
"""
    result = execute(PYTHON, "-c", script)
    assert (result.returncode, result.stdout, result.stderr) == (0, "taken\n", "")


def test_a_child_loads_for_itself(execute: Execute, build: Build, plugin: Path) -> None:
    """Before its parent has loaded anything, and after."""
    result = execute(build("plugins.c"), plugin, "4", "fork")
    assert (result.returncode, result.stdout, result.stderr) == (0, "crossed\n", "")


def test_whose_malloc_libc_has(
    execute: Execute, build: Build, plugin: Path, lib: Path, tmp_path: Path
) -> None:
    """loft's where that is the program's, and libc's own everywhere else."""

    def whose(program: Path, plugin: Path, *, preload: bool) -> str:
        result = execute(program, plugin, "0", "whose", preload=preload)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    plain = build("plugins.c")
    assert whose(plain, plugin, preload=False) == "libc.so.6\n"
    assert whose(plain, plugin, preload=True).startswith("libloft.so")

    own = tmp_path / "own"
    sources = [SOURCES / "plugins.c", SOURCES / "own_malloc.c"]
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-rdynamic", *sources, "-o", own], check=True)
    assert whose(own, plugin, preload=True) == "libc.so.6\n"

    # Only the plugin has it.
    with_loft = tmp_path / "with_loft.so"
    path = f"-Wl,-rpath,{lib.parent}"
    subprocess.run(["gcc", *FLAGS, SOURCES / "plugin.c", lib, path, "-o", with_loft], check=True)
    assert whose(plain, with_loft, preload=False) == "libc.so.6\n"


def test_the_mappings_are_as_before(execute: Execute) -> None:
    """The names are writable only while they are written."""
    script = """
import ctypes
ctypes.CDLL("libc.so.6")
libc = [line.split() for line in open("/proc/self/maps") if line.rstrip().endswith("/libc.so.6")]
print([fields[1] for fields in libc])
"""
    before = execute(PYTHON, "-c", script, preload=False)
    under_loft = execute(PYTHON, "-c", script)
    assert (under_loft.returncode, under_loft.stderr) == (0, "")
    assert under_loft.stdout == before.stdout
