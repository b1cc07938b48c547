"""What the tests of `loft record` and `loft replay` share: programs of known calls, and traces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from support import Loft

# Each call once, and how it ends: what is printed of it is EVERY_CALL.
EVERY = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
int main(void) {
  void* volatile p = malloc(10);
  void* volatile q = calloc(3, 7);
  p = realloc(p, 5000);
  free(p);
  free(NULL);
  p = realloc(NULL, 5);
  p = realloc(p, 0);
  p = malloc(0);
  free(p);
  p = reallocarray(NULL, 4, 5);
  p = reallocarray(p, 6, 5);
  void* volatile none = reallocarray(p, SIZE_MAX / 2, 3);
  none = malloc(PTRDIFF_MAX);
  none = realloc(p, PTRDIFF_MAX);
  none = calloc(SIZE_MAX / 2, 3);
  free(p);
  void* aligned = NULL;
  if (posix_memalign(&aligned, 256, 3) != 0) return 1;
  free(aligned);
  none = NULL;
  if (posix_memalign(&aligned, 3, 3) == 0) return 1;
  p = aligned_alloc(64, 128);
  free(p);
  p = memalign(32, 9);
  free(p);
  p = valloc(5);
  free(p);
  p = pvalloc(6);
  free(p);
  free(q);
  return none != NULL;
}
"""
EVERY_CALL = f"""malloc 10 -> a
calloc 3 7 -> b
realloc 5000 a -> c
free c
free null
realloc 5 -> d
realloc 0 d -> null
malloc 0 -> e
free e
reallocarray 4 5 null -> f
reallocarray 6 5 f -> g
reallocarray {(2**64 - 1) // 2} 3 g -> null
malloc {2**63 - 1} -> null
realloc {2**63 - 1} g -> null
calloc {(2**64 - 1) // 2} 3 -> null
free g
posix_memalign 256 3 -> h
free h
posix_memalign 3 3 -> null
aligned_alloc 64 128 -> i
free i
memalign 32 9 -> j
free j
valloc 5 -> k
free k
pvalloc 6 -> l
free l
free b
""".splitlines()

# Two threads that free each other's objects, and a third that is joined before.
HANDING = """
#include <pthread.h>
#include <stdlib.h>
static void* from_main;
static void* first(void* p) { free(p); return NULL; }
static void* second(void* p) { free(from_main); return realloc(p, 777); }
int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, first, malloc(111)) != 0) return 1;
  pthread_join(thread, NULL);
  void* from_thread;
  from_main = malloc(222);
  if (pthread_create(&thread, NULL, second, malloc(333)) != 0) return 1;
  pthread_join(thread, &from_thread);
  free(from_thread);
  return 0;
}
"""

# Takes and drops objects of 1 to 1000 bytes; more than one buffer holds. Then %s.
MANY = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  static void* kept[100];
  for (int i = 0; i < 20000; i++) {
    void** place = &kept[i * 7919 %% 100];
    free(*place);
    *place = malloc(i %% 1000 + 1);
  }
  %s
}
"""
MANY_CALLS = 40000


@dataclass(frozen=True)
class Call:
    thread: int
    text: str


def recorded(loft: Loft, out: Path, *command: str | Path, code: int = 0) -> Path:
    ran = loft("record", "-o", out, "--", *command)
    assert ran.returncode == code, ran.stderr
    return out


def calls(loft: Loft, trace: Path, *options: str) -> list[Call]:
    ran = loft("replay", "--calls", *options, trace)
    assert ran.returncode == 0, ran.stderr
    lines = [line.split(" ", 3) for line in ran.stdout.splitlines()]
    return [Call(int(thread), text) for _, thread, _, text in lines]


def lettered(texts: list[str]) -> list[str]:
    """With letters for the objects, in the order in which they are first named."""
    names: dict[str, str] = {}

    def letter(match: re.Match[str]) -> str:
        return names.setdefault(match[0], chr(ord("a") + len(names)))

    return [re.sub(r"#\d+", letter, text) for text in texts]
