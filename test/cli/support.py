"""What the tests of the `loft` command name: the command as installed, and what fixtures return."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LOFT = Path(sys.executable).parent / "loft"

Loft = Callable[..., subprocess.CompletedProcess[str]]
Compile = Callable[..., Path]

# A malloc of its own that is glibc's, so that a library with it counts as an allocator.
FORWARDING_MALLOC = """
#include <stdlib.h>
extern void* __libc_malloc(size_t);
void* malloc(size_t size) { return __libc_malloc(size); }
"""

# A program that takes no allocator from outside.
OWN_MALLOC = """
#include <stddef.h>
#include <stdlib.h>
static char space[1000000];
static size_t used;
void* malloc(size_t n) { void* p = space + used; used += (n + 15) / 16 * 16; return p; }
void free(void* p) {}
int main(void) { free(malloc(1)); return 0; }
"""


def one_line(text: str) -> str:
    """An error message, which is to be one line that begins with the command's name."""
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith("loft: ")
    return lines[0]
