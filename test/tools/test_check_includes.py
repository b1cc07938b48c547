"""Each rule of tools/check_includes.py, broken once."""

from __future__ import annotations

from pathlib import Path

import pytest
from check_includes import ROOT, check_map, check_tree
from trees import write_tree


def problems(tmp_path: Path, files: dict[str, str]) -> list[str]:
    return check_tree(write_tree(tmp_path / "src", files))


def test_downwards_and_sideways_is_allowed(tmp_path: Path) -> None:
    header = "#pragma once\n"
    files = {
        "base/bits.h": header + "#include <cstdint>\n",
        "cache/array.h": header,
        "cache/fast.cc": '#include "base/bits.h"\n#include "cache/array.h"\n',
        "api/loft.cc": '#include <loft/loft.h>\n#include <stdio.h>\n#include "cache/array.h"\n',
        "os/os.cc": "#include <sys/mman.h>\n#if defined(__x86_64__)\n#endif\n",
        "os/wait.cc": "#include <linux/futex.h>\n",
    }
    assert problems(tmp_path, files) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("heap/a.cc", '#include "cache/up.h"\n', "cache/, which is above"),
        ("slab/a.cc", '  #  include "heap/up.h"\n', "heap/, which is above"),
        ("cache/a.cc", '#include "runtime/up.h"\n', "runtime/, which is above"),
        ("malloc/a.cc", '#include "heaps/low.h"\n', "may not include from heaps/, a guest"),
        ("heap/a.cc", '#include "bits.h"\n', "must be written from src/"),
        ("heap/a.cc", '#include "../base/bits.h"\n', "must be written from src/"),
        ("heap/a.cc", '#include "base/nothing.h"\n', "does not exist"),
        ("heap/a.cc", "#include LOFT_HEADER\n", "quotes or angle brackets"),
        ("heap/a.cc", '#include "loft/loft.h"\n', "public header"),
        ("base/a.cc", "#include <string>\n", "need no C++ library"),
        ("os/a.cc", "#include <iostream>\n", "need no C++ library"),
        ("heap/a.cc", "#include <stdio.h>\n", "system's header"),
        ("heap/a.cc", "#include <sys/mman.h>\n", "system's header"),
        ("cache/a.cc", "#include <immintrin.h>\n", "system's header"),
        ("cache/a.cc", "#include <linux/futex.h>\n", "system's header"),
        ("cache/a.cc", "#ifdef __x86_64__\n#endif\n", "__x86_64__ belongs"),
        ("cache/a.cc", "#if defined(__aarch64__)\n#endif\n", "__aarch64__ belongs"),
        ("heap/a.cc", "#ifdef __linux__\n#endif\n", "__linux__ belongs"),
        ("heap/a.cc", "#ifdef __GLIBC__\n#endif\n", "__GLIBC__ belongs"),
        ("slab/a.cc", "void f() { _mm_pause(); }\n", "_mm_pause belongs"),
        ("slab/a.cc", 'void f() { asm volatile("pause"); }\n', "asm belongs"),
        ("slab/a.cc", 'void f() { __asm__ volatile("pause"); }\n', "__asm__ belongs"),
        ("slab/a.cc", "int f() { return __builtin_ia32_rdtsc(); }\n", "rdtsc belongs"),
        ("slab/a.h", "int x;\n", "#pragma once"),
        ("cellar/a.cc", "\n", "belongs to no floor"),
        ("a.cc", "\n", "belongs to no floor"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, name: str, text: str, expected: str) -> None:
    header = "#pragma once\n"
    files = {
        "base/bits.h": header,
        "heap/up.h": header,
        "cache/up.h": header,
        "runtime/up.h": header,
        "heaps/low.h": header,
        name: text,
    }
    found = problems(tmp_path, files)
    assert len(found) == 1, found
    assert expected in found[0]
    assert found[0].startswith(f"src/{name}:")


def test_a_cycle_is_found(tmp_path: Path) -> None:
    files = {
        "heap/a.h": '#pragma once\n#include "heap/b.h"\n',
        "heap/b.h": "#pragma once\n",
        "heap/b.cc": '#include "heap/b.h"\n#include "heap/c.h"\n',
        "heap/c.h": '#pragma once\n#include "heap/a.h"\n',
    }
    (found,) = problems(tmp_path, files)
    assert "an include cycle" in found
    assert all(f"heap/{name}" in found for name in "abc")
    del files["heap/b.cc"]
    assert problems(tmp_path / "without", files) == []


MAP = """\
`heap/a.h` and `docs/b.h`,
then `heap/b.cc` go, `base/`
`heap/c.cc refill, begin, Heap` and `heap/c.cc called, declared, quoted`
"""
NAMED = """\
Heap::Heap(int id) : id_(id) {}
void Heap::refill(int (*f)(int)) const noexcept {
  if (called(1)) f(this->called(2));
  say("quoted() {");  // declared() {
}
template <class T>
LOFT_ALWAYS_INLINE void begin(T t) {}
void declared();
"""


def test_the_map_names_what_is_there(tmp_path: Path) -> None:
    files = {"heap/a.h": "#pragma once\n", "heap/c.cc": NAMED, "README.md": MAP}
    assert list(check_map(write_tree(tmp_path / "src", files))) == [
        "src/README.md:2: heap/b.cc does not exist",
        "src/README.md:3: heap/c.cc defines no called",
        "src/README.md:3: heap/c.cc defines no declared",
        "src/README.md:3: heap/c.cc defines no quoted",
    ]


def test_the_map_is_true() -> None:
    assert list(check_map(ROOT / "src")) == []


def test_comments_strings_and_symbol_names_are_left_alone(tmp_path: Path) -> None:
    text = """\
// #include "api/up.h": not here; nor __x86_64__.
/* asm
   __linux__ */
const char* text = "asm __x86_64__ // no comment";
int million = 1'000'000;
void raise() __asm__(
    "_ZSt17__throw_bad_allocv");
"""
    assert problems(tmp_path, {"heap/a.cc": text}) == []


def test_the_line_is_the_one_that_is_wrong(tmp_path: Path) -> None:
    text = "/* two\n   lines */\n#ifdef __linux__\n#endif\n"
    assert problems(tmp_path, {"heap/a.cc": text})[0].startswith("src/heap/a.cc:3:")
