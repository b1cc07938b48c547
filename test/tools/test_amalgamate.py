"""The single file: how it is put together, and that a program that contains it runs on loft."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from amalgamate import REFUSAL, ROOT, AmalgamationError, amalgamate
from compilers import cached
from trees import write_tree


def tree(tmp_path: Path, files: dict[str, str]) -> tuple[Path, Path]:
    write_tree(tmp_path, {"include/loft/loft.h": "int version();\n", **files})
    return tmp_path / "src", tmp_path / "include"


def test_each_header_once_and_floors_from_below(tmp_path: Path) -> None:
    files = {
        "src/base/bits.h": "#pragma once\n#include <cstdint>\nint bits;\n",
        "src/heap/heap.h": '#pragma once\n#include "base/bits.h"\nint heap;\n',
        "src/heap/heap.cc": '#include "heap/heap.h"\n#include <cstdint>\nint heap_code;\n',
        "src/api/loft.cc": '#include <loft/loft.h>\n#include "heap/heap.h"\nint api_code;\n',
    }
    text = amalgamate(*tree(tmp_path, files))
    lines = [line for line in text.splitlines() if line and not line.startswith("//")]
    assert lines[:3] == REFUSAL.splitlines()
    assert lines[3:] == [
        "#include <cstdint>",
        "int bits;",
        "int heap;",
        "int heap_code;",
        "int version();",
        "int api_code;",
    ]


def test_a_system_header_on_a_condition_stays_there(tmp_path: Path) -> None:
    code = "#if defined(__linux__)\n#include <sys/mman.h>\n#endif\n"
    assert code in amalgamate(*tree(tmp_path, {"src/os/os.cc": code}))


def test_a_header_of_ours_on_a_condition_is_refused(tmp_path: Path) -> None:
    files = {
        "src/os/os.cc": '#if 1\n#include "os/pages.h"\n#endif\n',
        "src/os/pages.h": "#pragma once\n",
    }
    with pytest.raises(AmalgamationError, match=r"os/os\.cc:2: .*on a condition"):
        amalgamate(*tree(tmp_path, files))


def test_a_name_local_to_two_sources_does_not_compile(tmp_path: Path) -> None:
    code = "namespace loft {\n\nnamespace {\n\nint twice = 1;\n\n}  // namespace\n\n}\n"
    single = tmp_path / "loft.cc"
    single.write_text(amalgamate(*tree(tmp_path, {"src/slab/a.cc": code, "src/heap/b.cc": code})))
    done = subprocess.run(["g++", "-fsyntax-only", single], capture_output=True, text=True)
    assert done.returncode != 0
    assert "redefinition of" in done.stderr
    assert "loft::{anonymous}::twice" in done.stderr


PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

extern "C" void* loft_malloc(size_t);
extern "C" void loft_free(void*);

int main() {
  std::vector<std::string> parts;
  std::thread([&] {
    for (int i = 0; i < 10000; ++i)
      parts.push_back("a string too long for its own buffer " + std::to_string(i));
  }).join();
  size_t length = 0;
  for (const std::string& part : parts) length += part.size();
  // Free of an object of the other name: only one allocator is here.
  free(loft_malloc(100));
  loft_free(calloc(10, 10));
  std::printf("%zu\n", length);
}
"""


CORE_PROGRAM = """\
#include <loft/loft.h>
#include <stdlib.h>
int main(void) {
  char* ours = loft_malloc(100);
  char* libcs = malloc(100);
  if (loft_object_start(ours + 50) != ours || loft_object_start(libcs) != NULL) return 1;
  loft_free(ours);
  free(libcs);
  return 0;
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_a_program_runs_with_the_single_file(single: Path, tmp_path: Path, compiler: str) -> None:
    main = tmp_path / "main.cc"
    main.write_text(PROGRAM)
    program = tmp_path / "program"
    loft = tmp_path / "loft.o"
    # Not optimized, which takes a quarter of the time; the build compiles it as it is shipped.
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*cached(compiler), *flags, "-c", single, "-o", loft], check=True)
    subprocess.run([compiler, *flags, main, loft, "-o", program, "-lpthread"], check=True)
    result = subprocess.run([program], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "408890\n", "")


def test_the_core_leaves_libcs_names_alone(tmp_path: Path) -> None:
    """Compiled as its first lines say, it needs nothing of the C++ library."""
    single = tmp_path / "loft_core.cc"
    single.write_text(amalgamate(ROOT / "src", ROOT / "include", core=True))
    (tmp_path / "main.c").write_text(CORE_PROGRAM)
    f = "-fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics"
    strict = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    for command in (
        [*cached("g++"), "-std=c++20", "-fPIC", *f.split(), *strict, "-c", "loft_core.cc"],
        ["gcc", "-O2", *strict, "main.c", "loft_core.o", "-o", "program", "-pthread"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    defined = subprocess.run(
        ["nm", "--defined-only", "-g", "loft_core.o"], cwd=tmp_path, capture_output=True, text=True
    )
    names = {line.split()[-1] for line in defined.stdout.splitlines()}
    assert not names & {"malloc", "free", "calloc", "realloc", "memalign", "_Znwm", "dlopen"}
    assert {"loft_malloc", "loft_free"} <= names
    subprocess.run([tmp_path / "program"], check=True)


def test_the_single_file_names_no_path_of_this_machine(single: Path, root: Path) -> None:
    assert str(root) not in single.read_text()
