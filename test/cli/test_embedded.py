"""Allocators that programs contain under other names: what `loft doctor` and `compare` say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import FORWARDING_MALLOC, Compile, Loft

from loft_malloc import check_program, embedded
from loft_malloc.machine import Machine

# One function of each, as these allocators name them.
FUNCTIONS = [
    ("jemalloc", "je_malloc"),
    ("jemalloc", "_rjem_malloc"),
    ("jemalloc", "_rjem_sdallocx"),
    ("mimalloc", "mi_malloc"),
    ("mimalloc", "mi_heap_zalloc"),
    ("tcmalloc", "tc_malloc"),
    ("tcmalloc", "TCMallocInternalNew"),
    ("tcmalloc", "MallocExtension_ReleaseFreeMemory"),
    ("tcmalloc", "_ZTV22TCMallocImplementation"),
    ("tcmalloc", "_ZN15MallocExtension8instanceEv"),
    ("snmalloc", "sn_malloc"),
    ("snmalloc", "sn_rust_alloc"),
    ("snmalloc", "_ZN8snmalloc5allocEm"),
    ("rpmalloc", "rpmalloc"),
    ("rpmalloc", "rpaligned_alloc"),
    ("Hoard", "xxmalloc"),
    ("Hoard", "_ZN5Hoard9HoardHeapE"),
    ("TBB's allocator", "scalable_malloc"),
    ("Scudo", "_ZN5scudo9AllocatorE"),
    ("PartitionAlloc", "_ZN14partition_alloc13PartitionRootE"),
]
# A text of each that is found where it is stripped.
TEXTS = [
    ("jemalloc", "MALLOC_CONF"),
    ("jemalloc", "_RJEM_MALLOC_CONF"),
    ("jemalloc", "<jemalloc>: Error in munmap(): %s\\n"),
    ("mimalloc", "MIMALLOC_SHOW_STATS"),
    ("mimalloc", "mimalloc: warning: "),
    ("tcmalloc", "TCMALLOC_SAMPLE_PARAMETER"),
    ("snmalloc", "SNMALLOC_STATS"),
    ("Scudo", "SCUDO_OPTIONS"),
    ("Go's runtime", "runtime.mallocgcTiny"),
]
# Names and texts of programs that contain none of them.
OTHERS = """
#include <stdio.h>
#include <stdlib.h>
void mi_cmd_exec(void) {}
void mi_free_form(void) {}
void je_suis(void) {}
void tc_filter(void) {}
void sn_mallocate(void) {}
void* xmalloc(size_t size) { return malloc(size); }
int main(void) {
  puts("set MALLOC_CONF, MIMALLOC_SHOW_STATS or TCMALLOC_RELEASE_RATE as you like");
  return puts("jemalloc, mimalloc and tcmalloc are allocators") < 0;
}
"""
PLAIN = "int main(void) { return 0; }"


def function(name: str, kind: str = "") -> str:
    """The function calls glibc's malloc, as the allocator would call mmap."""
    malloc = "#include <stdlib.h>\n__attribute__((noinline, used)) "
    return malloc + f"{kind} void* {name}(size_t size) {{ return malloc(size); }}\n"


@pytest.mark.parametrize(("allocator", "name"), FUNCTIONS)
def test_an_allocator_is_known_by_its_functions(
    compiled: Compile, allocator: str, name: str
) -> None:
    for kind in ("", "static"):
        (found,) = embedded.allocators(compiled("program", function(name, kind) + PLAIN))
        assert (found.allocator, found.sign, found.certain) == (allocator, name, True)


@pytest.mark.parametrize(("allocator", "text"), TEXTS)
def test_a_stripped_allocator_is_known_by_its_texts(
    compiled: Compile, allocator: str, text: str
) -> None:
    source = f'#include <stdlib.h>\nint main(void) {{ return getenv("{text}") != NULL; }}'
    (found,) = embedded.allocators(compiled("program", source, "-s"))
    assert (found.allocator, found.certain) == (allocator, False)
    assert text.startswith(found.sign)


@pytest.mark.parametrize("flags", [["-O0"], ["-rdynamic"], ["-s"]])
def test_other_names_and_texts_are_no_allocator(compiled: Compile, flags: list[str]) -> None:
    assert embedded.allocators(compiled("program", OTHERS, *flags)) == ()


def test_a_name_that_is_another_names_end(compiled: Compile) -> None:
    """The linker stores such names once."""
    source = function("mi_malloc") + function("xxx_mi_malloc") + PLAIN
    (found,) = embedded.allocators(compiled("program", source))
    assert found.sign == "mi_malloc"


def test_what_the_compiler_made_of_a_function(compiled: Compile) -> None:
    source = function("mi_variant").replace("mi_variant", "variant") + PLAIN
    program = compiled("program", source, "-Wl,--defsym=mi_malloc.part.0=variant")
    (found,) = embedded.allocators(program)
    assert found.sign == "mi_malloc.part.0"


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("MALLOC_CONF")
    (tmp_path / "empty").write_text("")
    for name in ("text", "empty", "none"):
        assert embedded.allocators(tmp_path / name) == ()


def test_loft_is_none_of_them(build: Path) -> None:
    assert embedded.allocators(build / "libloft.so") == ()


def test_a_program_that_contains_one(loft: Loft, compiled: Compile) -> None:
    program = compiled("program", function("_rjem_malloc") + PLAIN)
    ran = loft("doctor", "--", program)
    assert f"warning  program: {program}\n" in ran.stdout
    assert "contains jemalloc (it defines _rjem_malloc): what it takes from" in ran.stdout
    assert f"ok       program: {program}" not in ran.stdout


def test_a_stripped_program_that_contains_one(loft: Loft, compiled: Compile) -> None:
    source = '#include <stdlib.h>\nint main(void) { return getenv("MIMALLOC_VERBOSE") != NULL; }'
    ran = loft("doctor", "--", compiled("program", source, "-s"))
    assert "contains what looks like mimalloc (the text 'MIMALLOC_VERBOSE'" in ran.stdout


def test_a_library_that_contains_one(loft: Loft, compiled: Compile) -> None:
    library = compiled("libinside.so", function("sn_malloc"), "-shared", "-fPIC")
    where = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}"]
    program = compiled("program", PLAIN, *where)
    ran = loft("doctor", "--", program)
    assert ran.returncode == 0
    assert f"ok       program: {program}\n" in ran.stdout
    assert f"note     linked library: {library}\n" in ran.stdout
    assert "contains snmalloc (it defines sn_malloc)" in ran.stdout
    ran = loft("compare", "--runs", "1", "--with", "glibc", "--", program)
    assert f"{library} contains snmalloc (it defines sn_malloc)" in ran.stdout


def test_a_malloc_of_its_own_is_named(loft: Loft, compiled: Compile) -> None:
    program = compiled("program", FORWARDING_MALLOC + function("mi_malloc") + PLAIN)
    ran = loft("doctor", "--", program)
    assert ran.returncode == 1
    assert "has a malloc of its own (mimalloc), which comes before" in ran.stdout


def test_a_linked_allocator_that_is_called_past_malloc(loft: Loft, compiled: Compile) -> None:
    both = FORWARDING_MALLOC + "void* mi_malloc(size_t size) { return malloc(size); }"
    library = compiled("libboth.so", both, "-shared", "-fPIC")
    where = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}"]
    calling = "void* mi_malloc(unsigned long);\nint main(void) { return mi_malloc(1) == 0; }"
    past, plain = compiled("past", calling, *where), compiled("plain", PLAIN, *where)
    said = "has an allocator that the program calls as mi_malloc"
    assert said in loft("doctor", "--", past).stdout
    assert said not in loft("doctor", "--", plain).stdout
    ran = loft("compare", "--runs", "1", "--with", "glibc", "--", past)
    assert f"{past} calls {library} as mi_malloc: what it takes so is the same" in ran.stdout


def test_compare_says_that_its_rows_are_alike(loft: Loft, compiled: Compile) -> None:
    program = compiled("program", function("tc_malloc") + PLAIN)
    ran = loft("compare", "--runs", "1", "--with", "glibc", "--", program)
    assert ran.returncode == 0
    assert f"{program} contains tcmalloc (it defines tc_malloc): what it takes" in ran.stdout
    assert "the same in all rows" in ran.stdout


def test_pythons_own_mimalloc_is_no_warning(compiled: Compile) -> None:
    for name in ("python3.13", "python3.13t", "libpython3.13.so.1.0"):
        program = compiled(name, function("mi_malloc") + PLAIN)
        (finding,) = check_program.contained("program", program)
        assert finding.level == "note"
        assert "PYTHONMALLOC=mimalloc" in finding.why


def test_a_process_that_contains_one(compiled: Compile, tmp_path: Path) -> None:
    library = compiled("libinside.so", function("_rjem_malloc"), "-shared", "-fPIC")
    (tmp_path / "self").mkdir()
    maps = f"00400000-00452000 r-xp 00000000 08:02 173521 {library}\n"
    (tmp_path / "self/maps").write_text(maps)
    machine = Machine(tmp_path, tmp_path, "self", {}, 4096, None)
    findings = list(check_program.check_process(machine))
    assert [finding.value for finding in findings] == ["the C library serves malloc", str(library)]
    assert "contains jemalloc" in findings[1].why


def test_a_real_allocator_is_known_by_either(tmp_path: Path) -> None:
    """The one that Debian brings with redis: with its names, and with none of them."""
    library = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    assert [found.allocator for found in embedded.allocators(library)] == ["jemalloc"]
    stripped = tmp_path / "stripped"
    # What a program that hides it leaves.
    names = ["--remove-section=.dynsym", "--remove-section=.dynstr", "--strip-all"]
    subprocess.run(["objcopy", *names, library, stripped], check=True, capture_output=True)
    (found,) = embedded.allocators(stripped)
    assert (found.allocator, found.certain) == ("jemalloc", False)
