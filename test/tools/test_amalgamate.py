"""The single file: how it is put together, and that a program that contains it runs on loft."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from amalgamate import AmalgamationError, amalgamate, local_names
from limits import HANGS_S


def tree(tmp_path: Path, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in {"include/loft/loft.h": "int version();\n", **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
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
    assert lines == [
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
        "src/os/os.cc": '#if 1\n#include "os/linux.h"\n#endif\n',
        "src/os/linux.h": "#pragma once\n",
    }
    with pytest.raises(AmalgamationError, match=r"os/os\.cc:2: .*on a condition"):
        amalgamate(*tree(tmp_path, files))


@pytest.mark.parametrize(
    "declaration",
    [
        "Lock twice;",
        "int twice = 1;",
        "constexpr size_t twice{4};",
        "alignas(64) Atomic<int> twice[8];",
        "void twice(int x) { use(x); }",
        "template <class T = int>\nT twice(T x) {\n  return x;\n}",
        "static int twice = 1;",
        "static void (*const twice)() = nullptr;",
        "struct twice {\n  int x;\n};",
        "enum class twice { kOne };",
        "using twice = int;",
    ],
)
def test_a_name_local_to_two_sources_is_reported(tmp_path: Path, declaration: str) -> None:
    code = f"namespace loft {{\n\nnamespace {{\n\n{declaration}\n\n}}  // namespace\n\n}}\n"
    files = {"src/slab/a.cc": code, "src/heap/b.cc": code}
    with pytest.raises(AmalgamationError, match=r"heap/b\.cc:5: `loft::twice.*`.*slab/a\.cc:5"):
        amalgamate(*tree(tmp_path, files))


def test_a_static_is_local_without_an_unnamed_namespace() -> None:
    code = "[[gnu::used]] static void (*const hook)() = start;\nvoid f() { static int inside; }\n"
    assert local_names(code) == {"hook": 1}


def test_the_namespace_around_tells_two_names_apart(tmp_path: Path) -> None:
    files = {
        f"src/heap/{name}.cc": f"namespace loft::{name} {{\nnamespace {{\nint once = 1;\n}}\n}}\n"
        for name in ("a", "b")
    }
    assert "once" in amalgamate(*tree(tmp_path, files))


def test_overloads_in_two_sources_are_no_clash(tmp_path: Path) -> None:
    files = {
        f"src/heap/{kind}.cc": f"namespace {{\nint bytes(const {kind}& x) {{ return 1; }}\n}}\n"
        for kind in ("Slab", "Span")
    }
    assert "bytes(const Span& x)" in amalgamate(*tree(tmp_path, files))


def test_a_macro_left_defined_is_local_too() -> None:
    assert local_names("#define KEPT 1\n#define GONE 2\n#undef GONE\n") == {"KEPT": 1}


def test_what_functions_and_types_hold_is_not_a_name_of_the_file() -> None:
    code = """
namespace loft {
namespace {
struct Node {
  Node* next = nullptr;
  int inside() { int deeper = 1; return deeper; }
};
constexpr unsigned long kSize = 1ul << (4 + 3);
}  // namespace
int outside = 1;
namespace inner { int also_outside; }
}  // namespace loft
"""
    assert set(local_names(code)) == {"loft::Node", "loft::kSize"}


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


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_a_program_runs_with_the_single_file(single: Path, tmp_path: Path, compiler: str) -> None:
    main = tmp_path / "main.cc"
    main.write_text(PROGRAM)
    program = tmp_path / "program"
    loft = tmp_path / "loft.o"
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-c", single, "-o", loft], check=True, timeout=HANGS_S)
    subprocess.run(
        [compiler, *flags, main, loft, "-o", program, "-lpthread"], check=True, timeout=HANGS_S
    )
    result = subprocess.run([program], capture_output=True, text=True, timeout=HANGS_S)
    assert (result.returncode, result.stdout, result.stderr) == (0, "408890\n", "")


def test_the_single_file_names_no_path_of_this_machine(single: Path, root: Path) -> None:
    assert str(root) not in single.read_text()
