"""What the built libraries look like from outside, and that each way of using them works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ALLOCATION_SYMBOLS = {
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "malloc_usable_size",
    "malloc_trim",
    "mallopt",
    "mallinfo",
    "mallinfo2",
    "malloc_info",
    "malloc_stats",
}
# C++20's: 4 of new and 6 of delete (plain, nothrow, sized, aligned, as they combine), and as many
# for arrays.
OPERATOR = re.compile(r"_Z(nw|na|dl|da)")
OPERATORS = 20
PRIVATE_LIBC_NAME = re.compile(r"__libc_(malloc|free|calloc|realloc|memalign|valloc|pvalloc)")


def output_of(*command: str | Path, **environment: str) -> str:
    result = subprocess.run(
        list(command),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def library(build: Path) -> Path:
    return build / "libloft.so"


@pytest.fixture(scope="module")
def symbols(library: Path) -> set[str]:
    lines = output_of("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1] for line in lines}


def test_every_allocation_function_is_there(symbols: set[str]) -> None:
    assert symbols >= ALLOCATION_SYMBOLS
    assert len([name for name in symbols if OPERATOR.match(name)]) == OPERATORS


def test_nothing_else_is_exported(symbols: set[str]) -> None:
    others = {
        name
        for name in symbols - ALLOCATION_SYMBOLS
        if not (
            OPERATOR.match(name) or PRIVATE_LIBC_NAME.fullmatch(name) or name.startswith("loft_")
        )
    }
    # With which code that is loaded later is bound to loft, too (src/api/dlopen.cc); and with
    # which a child may allocate (src/os/vfork.cc).
    assert others == {"dlmopen", "dlopen", "vfork"}


def test_it_needs_libc_alone(library: Path) -> None:
    needed = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", library))
    assert needed == ["libc.so.6"]


def test_it_loads_cheaply(library: Path) -> None:
    headers = output_of("readelf", "-lW", library)
    assert len(re.findall(r"^\s+LOAD ", headers, re.MULTILINE)) == 2
    flags = output_of("readelf", "-d", library)
    assert "BIND_NOW" in flags
    assert "TEXTREL" not in flags


def test_it_takes_little_of_each_threads_storage(library: Path) -> None:
    """A library that is loaded late shares 512 bytes with all others."""
    sizes = re.findall(
        r"^\s+TLS\s+\S+ \S+ \S+ \S+ (\S+)", output_of("readelf", "-lW", library), re.MULTILINE
    )
    assert [int(size, 16) <= 64 for size in sizes] == [True]
    assert "STATIC_TLS" in output_of("readelf", "-d", library)


def test_it_runs_on_any_x86_64(library: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("about x86-64")
    code = output_of("objdump", "-d", "--no-show-raw-insn", library)
    # Not tzcnt: older processors read it as bsf, which is the same for all but zero.
    newer = re.findall(r"\t(v\w+|lzcnt|popcnt|pext|pdep|shlx|shrx|sarx|mulx|andn)\s", code)
    assert set(newer) == set()


# The probes, by provider and name, and how many arguments each has.
PROBES = {
    ("otel_memory", "alloc"): 3,
    ("otel_memory", "free"): 1,
    ("loft", "refill"): 2,
    ("loft", "flush"): 2,
    ("loft", "post"): 1,
    ("loft", "purge"): 1,
    ("loft", "limit"): 2,
}
PROBE = re.compile(
    r"^\s+Provider: (\S+)\n\s+Name: (\S+)\n"
    r"\s+Location: 0x0*([0-9a-f]+), Base: 0x0*[1-9a-f].*\n\s+Arguments: (.*)$",
    re.MULTILINE,
)
REGISTERS = {"x86_64": r"%r\w+", "aarch64": r"x\d+"}
probed = pytest.mark.skipif(
    os.uname().machine not in REGISTERS, reason="no probes for this architecture"
)


@probed
def test_probes_are_nops_with_words_in_registers(library: Path) -> None:
    notes = PROBE.findall(output_of("readelf", "-n", library))
    assert {(provider, name) for provider, name, _, _ in notes} == set(PROBES)
    code = output_of("objdump", "-d", "--no-show-raw-insn", library)
    nops = set(re.findall(r"^ +([0-9a-f]+):\tnop$", code, re.MULTILINE))
    for provider, name, location, places in notes:
        words = places.split()
        assert len(words) == PROBES[provider, name]
        assert all(re.fullmatch(f"8@{REGISTERS[os.uname().machine]}", word) for word in words)
        assert location in nops


@probed
def test_probes_are_in_the_static_library(build: Path) -> None:
    notes = output_of("readelf", "-n", build / "libloft.a")
    found = re.findall(r"Provider: (\S+)\n\s+Name: (\S+)", notes)
    assert set(found) == set(PROBES)


@pytest.fixture(scope="module")
def installed(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("prefix")
    output_of("cmake", "--install", build, "--prefix", prefix)
    return prefix


def library_folder(prefix: Path) -> Path:
    return next(prefix.rglob("libloft.so")).parent


@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "c++11", "c++20"])
def test_the_header_is_plain_c_and_cxx(root: Path, tmp_path: Path, standard: str) -> None:
    language = "c++" if "++" in standard else "c"
    source = tmp_path / "use.c"
    source.write_text("#include <loft/loft.h>\nint use(void) { return LOFT_VERSION_MAJOR; }\n")
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    compiler = "g++" if language == "c++" else "gcc"
    headers = f"-I{root / 'include'}"
    output_of(compiler, "-x", language, f"-std={standard}", *flags, headers, source)


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_the_header_for_cxx_alone(root: Path, tmp_path: Path, standard: str) -> None:
    source = tmp_path / "use.cc"
    source.write_text("#include <loft/heap.hpp>\nloft::heap_resource heap;\n")
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    output_of("g++", f"-std={standard}", *flags, f"-I{root / 'include'}", source)


EARLY_LIBRARY = """\
#include <pthread.h>
#include <stdlib.h>
static int ends;
static pthread_t thread;
static void* work(void* p) {
  while (__atomic_load_n(&ends, __ATOMIC_ACQUIRE) == 0) {
    free(p);
    p = malloc(100);
  }
  free(p);
  return NULL;
}
void finish(void) {
  __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
}
__attribute__((constructor)) static void begin(void) { pthread_create(&thread, NULL, work, NULL); }
"""
EARLY_PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
void finish(void);
int main(void) {
  for (int i = 0; i < 100000; ++i) free(malloc(i));
  finish();
  return puts("ran") < 0;
}
"""


@pytest.mark.parametrize(("name", "value"), [("HARDENED", "full"), ("OWNER", "cpu")])
def test_what_is_chosen_at_the_start_is_not_where_threads_run(
    build: Path, tmp_path: Path, name: str, value: str
) -> None:
    """A library's thread allocates before the program, which has loft in itself, is initialised."""
    library, program = tmp_path / "libearly.so", tmp_path / "program"
    (tmp_path / "library.c").write_text(EARLY_LIBRARY)
    (tmp_path / "program.c").write_text(EARLY_PROGRAM)
    output_of("gcc", "-shared", "-fPIC", "-pthread", "-o", library, tmp_path / "library.c")
    loft: list[str | Path] = [
        "-Wl,--whole-archive",
        build / "libloft.a",
        "-Wl,--no-whole-archive",
        "-rdynamic",
    ]
    rest: list[str | Path] = [library, f"-Wl,-rpath,{tmp_path}", "-pthread"]
    output_of("gcc", "-fno-builtin", "-o", program, tmp_path / "program.c", *loft, *rest)
    ran = subprocess.run(
        [program],
        env={f"LOFT_{name}": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "ran\n"
    assert "other threads already" in ran.stderr


PMR_PROGRAM = """\
#include <loft/heap.hpp>
#include <cstdio>
#include <string>
#include <vector>
int main() {
  loft::heap_resource heap;
  std::pmr::vector<std::pmr::string> texts(&heap);
  for (int i = 0; i < 100; ++i) texts.emplace_back(50, 'x');
  if (loft_heap_contains(heap.get(), texts[99].data()) != 1) return 1;
  std::puts("ran in a heap");
}
"""


def test_a_cxx_program_uses_the_installed_heap_header(installed: Path, tmp_path: Path) -> None:
    source = tmp_path / "program.cc"
    source.write_text(PMR_PROGRAM)
    program = tmp_path / "program"
    folder = library_folder(installed)
    include = installed / "include"
    output_of("g++", "-o", program, source, "-std=c++17", "-I", include, f"-L{folder}", "-lloft")
    assert output_of(program, LD_LIBRARY_PATH=str(folder)) == "ran in a heap\n"


def test_a_program_runs_with_loft_preloaded(library: Path) -> None:
    assert output_of("echo", "fine", LD_PRELOAD=str(library)) == "fine\n"


@pytest.mark.parametrize("tunables", ["", "glibc.pthread.rseq=0"])
def test_processors_own_from_the_start_on(library: Path, tunables: str) -> None:
    program = """if True:
        import threading
        threads = [threading.Thread(target=lambda: [[] for _ in range(9999)]) for _ in range(50)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "LOFT_OWNER": "cpu",
            "LOFT_STATS": "json",
            "GLIBC_TUNABLES": tunables,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(ran.stderr)
    assert said["threads_attached"] == 0
    # What the loader allocates comes before any choice; its thread's cache was given up.
    assert said["threads_started"] == said["threads_exited"] <= 1
    assert 1 <= said["cores"] <= (os.cpu_count() or 1)
    assert said["heaps"] == said["cores"]
