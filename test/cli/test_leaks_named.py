"""`loft profile --leaks` names a leak's function and line, in programs of C, C++, Rust and Python.

Each program loses 256 objects of 64 KiB in one line, and holds as many that another has made.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import Compile, Loft

C = """
#include <stdlib.h>
static char* volatile kept[256];
__attribute__((noinline)) void keep(void) {
  for (int i = 0; i < 256; i++) { kept[i] = malloc(65536); kept[i][0] = 1; }
}
__attribute__((noinline)) void lose(void) {
  for (int i = 0; i < 256; i++) {
    char* volatile p = malloc(65536);  // LEAK
    p[0] = 1;
    p = NULL;
  }
}
"""
C_MAIN = """
int main(void) {
  keep(); lose();
  return 0;
}
"""
CPP = """
#include <vector>
namespace shop {
struct Item { char text[65536]; };
// Never destroyed: what it holds would be lost with it.
auto& kept = *new std::vector<Item*>;
template <typename T> struct Cart {
  __attribute__((noinline)) void keep() {
    for (int i = 0; i < 256; i++) kept.push_back(new T());
  }
  __attribute__((noinline)) void lose() {
    for (int i = 0; i < 256; i++) {
      T* volatile item = new T();  // LEAK
      item->text[0] = 1;
      item = nullptr;
    }
  }
};
}  // namespace shop
int main() {
  shop::Cart<shop::Item> cart;
  cart.keep(); cart.lose();
  return 0;
}
"""
RUST = """
use std::hint::black_box;
use std::mem;
use std::sync::Mutex;

static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

#[inline(never)]
fn keep() {
    for _ in 0..256 {
        KEPT.lock().unwrap().push(vec![1u8; 65536]);
    }
}

#[inline(never)]
fn lose() {
    for _ in 0..256 {
        mem::forget(black_box(vec![1u8; 65536])); // LEAK
    }
}

fn main() {
    keep();
    lose();
}
"""
# Counted once too often, as by a module in C that forgets to give back what it was lent.
PYTHON = """
import ctypes

kept = []

def keep():
    for _ in range(256):
        kept.append(bytearray(65536))

class Basket:
    @staticmethod
    def lose():  # LEAK
        for _ in range(256):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(bytes(65536)))

keep()
Basket.lose()
"""
# Python's own code between C's functions, as -X perf makes it: sub $8, %rsp; call *%rdi;
# add $8, %rsp; ret. The words are the source and where to say which process this is.
MADE = (
    C
    + r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const char code[] = "\x48\x83\xec\x08\xff\xd7\x48\x83\xc4\x08\xc3";
int main(int count, char** words) {
  char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page + 16, code, sizeof(code));
  memcpy(page + 32, code, sizeof(code));
  mprotect(page, 4096, PROT_READ | PROT_EXEC);
  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
  FILE* map = fopen(path, "w");
  fprintf(map, "%lx b py::Basket.gone:%s\n", (unsigned long)page + 16, words[1]);
  fprintf(map, "%lx b py::keep:%s\n", (unsigned long)page + 16, words[1]);
  fprintf(map, "%lx b py::Basket.lose:%s\n", (unsigned long)page + 32, words[1]);
  fclose(map);
  FILE* told = fopen(words[2], "w");
  fputs(path, told);
  fclose(told);
  ((void (*)(void (*)(void)))(page + 16))(keep);
  ((void (*)(void (*)(void)))(page + 32))(lose);
  return 0;
}
"""
)


def line_of(source: str) -> int:
    (found,) = [at for at, line in enumerate(source.split("\n"), 1) if "LEAK" in line]
    return found


def listed(loft: Loft, folder: Path, *command: str | Path, **variables: str) -> str:
    """The list, and the stacks that follow it."""
    profiled = ["profile", "--leaks", "--bytes", "16K", "--top", "40", "-o", folder / "out.pb.gz"]
    ran = loft(*profiled, "--", *command, **variables)
    assert ran.returncode == 0, ran.stderr
    _, rows = ran.stderr.split("function", 1)
    assert not re.search(r"\bkeep\b", rows), rows
    return rows


def test_in_c(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    program = compiled("leak", C + C_MAIN, "-g", "-O1", "-fno-optimize-sibling-calls")
    rows = listed(loft, tmp_path, program)
    assert f"  lose  source.c:{line_of(C)}" in rows
    assert f" objects\n    lose  source.c:{line_of(C)}\n    main  source.c:" in rows


def test_in_cpp(loft: Loft, tmp_path: Path) -> None:
    source, program = tmp_path / "leak.cc", tmp_path / "leak"
    source.write_text(CPP)
    subprocess.run(["g++", "-g", "-O1", "-o", program, source], check=True)
    rows = listed(loft, tmp_path, program)
    assert f"  shop::Cart<shop::Item>::lose()  leak.cc:{line_of(CPP)}" in rows


def test_in_rust(loft: Loft, tmp_path: Path) -> None:
    source, program = tmp_path / "leak.rs", tmp_path / "leak"
    source.write_text(RUST)
    how = ["rustc", "-g", "-O", "--edition", "2021"]
    subprocess.run([*how, "-o", program, source], check=True)
    rows = listed(loft, tmp_path, program)
    assert f"  leak::lose  leak.rs:{line_of(RUST)}" in rows


def test_in_a_library_that_python_calls(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    library = compiled(
        "library.so", C, "-shared", "-fPIC", "-g", "-O1", "-fno-optimize-sibling-calls"
    )
    calls = f"import ctypes; c = ctypes.CDLL({str(library)!r}); c.keep(); c.lose()"
    rows = listed(loft, tmp_path, "/usr/bin/python3", "-c", calls)
    assert f"  lose  source.c:{line_of(C)}" in rows


def test_an_object_of_python(loft: Loft, tmp_path: Path) -> None:
    """Of any Python the interpreter's functions are named, as far as it has names."""
    script = tmp_path / "leak.py"
    script.write_text(PYTHON)
    rows = listed(loft, tmp_path, "/usr/bin/python3", script, PYTHONMALLOC="malloc")
    assert "  _PyEval_EvalFrameDefault" in rows
    assert "ByteArray" not in rows


def python_that_shows_its_functions() -> str:
    """3.12 is the first that can; Debian 12 has 3.11."""
    ask = "import sys; sys.activate_stack_trampoline('perf')"
    for minor in range(12, 20):
        if found := shutil.which(f"python3.{minor}"):
            ran = subprocess.run([found, "-c", ask], capture_output=True)
            if ran.returncode == 0:
                return found
    pytest.skip("no Python here has -X perf: 3.12 or later")


def test_a_function_of_python(loft: Loft, tmp_path: Path) -> None:
    script = tmp_path / "leak.py"
    script.write_text(PYTHON + "import os; print(os.getpid())")
    python = python_that_shows_its_functions()
    rows = listed(loft, tmp_path, python, "-X", "perf", script)
    assert f"  Basket.lose  leak.py:{line_of(PYTHON)}" in rows


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is that of x86-64")
def test_code_that_a_program_makes(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    script, told = tmp_path / "leak.py", tmp_path / "told"
    script.write_text(PYTHON)
    program = compiled("made", MADE, "-g", "-O1", "-fno-optimize-sibling-calls")
    rows = listed(loft, tmp_path, program, script, told)
    Path(told.read_text()).unlink()
    # Its own function in C, then that of Python, then main: in the list, and in the stack.
    named = ["lose", "Basket.lose", "main"]
    assert re.findall(r"(\S+)  (?:source.c|leak.py):", rows) == [*named, *named]
    assert rows.count(f"  Basket.lose  leak.py:{line_of(PYTHON)}") == 2
    assert f" objects\n    lose  source.c:{line_of(C)}\n    Basket.lose  leak.py:" in rows
