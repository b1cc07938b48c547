"""`loft profile` with the library's own profiles, of programs whose heaps are known."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from support import LOFT, Compile, Loft

from loft_malloc.profile import files, stacks

MIB = 1 << 20
# What it keeps, what it frees, and what it loses. The last call of each function is not its end,
# so that it has a frame.
SOURCE = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// So that none of it is left out by the compiler.
static char* volatile kept[1024];
__attribute__((noinline)) void keep(void) {
  for (int i = 0; i < 1024; i++) { kept[i] = malloc(65536); kept[i][0] = 1; }
}
__attribute__((noinline)) void pass(void) {
  static char* volatile passing[512];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 512; i++) { passing[i] = malloc(32768); passing[i][0] = 1; }
    for (int i = 0; i < 512; i++) { free(passing[i]); passing[i] = NULL; }
  }
}
__attribute__((noinline)) void lose(void) {
  for (int i = 0; i < 256; i++) { char* volatile p = malloc(65536); p[0] = 1; p = NULL; }
}
int main(int count, char** words) {
  keep(); pass(); lose();
  asm volatile("" ::: "memory");
  if (count > 1 && strcmp(words[1], "fork") == 0) {
    if (fork() == 0) return 0;
    wait(NULL);
  }
  if (count > 1 && strcmp(words[1], "wait") == 0) {
    puts("ready"); fflush(stdout);
    for (;;) pause();
  }
  return 5;
}
"""


@pytest.fixture(scope="module")
def program(compiled: Compile) -> Path:
    return compiled("program", SOURCE, "-g", "-O1", "-fno-optimize-sibling-calls")


def held(path: Path, function: str, kind: str) -> int:
    """What the profile says of a function with all that it calls."""
    profile = files.read(path)
    column = profile.index(kind)
    assert column is not None
    return sum(
        sample.values[column]
        for sample in profile.samples
        if any(frame.name == function for frame in stacks.shown_frames(sample))
    )


def near(value: int, expected: int) -> bool:
    """Some hundred samples are never as far from what they stand for as a third."""
    return expected * 2 / 3 < value < expected * 4 / 3


def test_what_functions_hold_and_held(loft: Loft, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pb.gz"
    ran = loft("profile", "--exit", "--bytes", "16K", "-o", out, "--", program)
    assert ran.returncode == 5, ran.stderr
    assert near(held(out, "keep", "inuse_space"), 64 * MIB)
    # Whose profile it is: the command, as the kernel has it.
    assert files.read(out).comments == [str(program)]
    assert near(held(out, "keep", "inuse_objects"), 1024)
    assert near(held(out, "pass", "alloc_space"), 32 * MIB)
    assert near(held(out, "lose", "inuse_space"), 16 * MIB)
    assert held(out, "pass", "inuse_space") == 0
    assert "keep  source.c:" in ran.stderr


def test_the_peak_is_shown_unless_something_else_is_asked_for(
    loft: Loft, compiled: Compile
) -> None:
    source = """
#include <stdlib.h>
static char* volatile passing[1024];
__attribute__((noinline)) void pass(void) {
  for (int i = 0; i < 1024; i++) { passing[i] = malloc(65536); passing[i][0] = 1; }
  for (int i = 0; i < 1024; i++) free(passing[i]);
}
int main(void) { pass(); asm volatile("" ::: "memory"); return 0; }
"""
    program = compiled("passing", source, "-g", "-O1", "-fno-optimize-sibling-calls")
    said = loft("profile", "--", program).stderr.splitlines()
    assert said[0] == f"{program}, at its peak"
    in_use = re.fullmatch(r"in use: ([0-9.]+) MiB, in [0-9,]+ objects", said[1])
    assert in_use is not None and 40 < float(in_use[1]) < 90
    said = loft("profile", "--exit", "--", program).stderr.splitlines()
    assert said[1].startswith("allocated: ")
    assert "nothing is in use, so the list shows what was allocated" in said


def test_lifetimes_of_what_was_freed(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    source = """
#include <stdlib.h>
#include <unistd.h>
static char* volatile kept[1024];
__attribute__((noinline)) void keep(void) {
  for (int i = 0; i < 1024; i++) { kept[i] = malloc(4096); kept[i][0] = 1; }
}
__attribute__((noinline)) void wait(void) {
  static char* volatile waiting[1024];
  for (int i = 0; i < 1024; i++) { waiting[i] = malloc(4096); waiting[i][0] = 1; }
  usleep(30000);  // time: no less than that is asserted
  for (int i = 0; i < 1024; i++) free(waiting[i]);
}
int main(void) { keep(); wait(); asm volatile("" ::: "memory"); return 0; }
"""
    program = compiled("lifetimes", source, "-g", "-O1", "-fno-optimize-sibling-calls")
    out = tmp_path / "out.pb.gz"
    ran = loft("profile", "--bytes", "4K", "-o", out, "--", program)
    assert ran.returncode == 0, ran.stderr
    lifetimes: dict[str, int] = {}
    for sample in files.read(out).samples:
        for frame in stacks.shown_frames(sample):
            lifetimes[frame.name] = max(lifetimes.get(frame.name, 0), sample.lifetime_us)
    # No shorter than it slept.
    assert lifetimes["wait"] >= 30_000
    assert lifetimes["keep"] == 0
    assert "lives" in ran.stderr


def test_leaks_are_what_nothing_points_to(loft: Loft, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pb.gz"
    ran = loft("profile", "--bytes", "16K", "--leaks", "-o", out, "--", program)
    assert ran.returncode == 5, ran.stderr
    assert held(out, "lose", "inuse_space") > 10 * MIB
    assert held(out, "keep", "inuse_space") == 0


def test_waste_is_that_of_survivors(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    source = """
#include <stdlib.h>
static char* volatile kept[1 << 10];
static char* volatile passing[1 << 17];
__attribute__((noinline)) void survive(int i) { kept[i] = malloc(100); kept[i][0] = 1; }
__attribute__((noinline)) void pass(int i) { passing[i] = malloc(100); passing[i][0] = 1; }
int main(void) {
  for (int i = 0; i < 1 << 17; i++) {
    pass(i);
    if (i % 128 == 0) survive(i / 128);
  }
  for (int i = 0; i < 1 << 17; i++) free(passing[i]);
  return 0;
}
"""
    program = compiled("survivors", source, "-g", "-O1", "-fno-optimize-sibling-calls")
    out = tmp_path / "out.pb.gz"
    # All that is freed stays: it is about as much as loft keeps.
    ran = loft(
        *("profile", "--bytes", "256", "--waste", "-o", out, "--", program), LOFT_DIRTY_BYTES="1G"
    )
    assert ran.returncode == 0, ran.stderr
    # 14 MiB of slabs stay for 100 KiB.
    assert near(held(out, "survive", "inuse_space"), 14 * MIB)
    assert held(out, "pass", "inuse_space") == 0


def test_a_program_that_sigterm_ends_is_shown(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pb.gz"
    command = [str(LOFT), "profile", "--bytes", "16K", "-o", str(out), "--", str(program), "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
    assert near(held(out, "keep", "inuse_space"), 64 * MIB)


def test_the_child_of_a_fork_is_named(loft: Loft, program: Path, tmp_path: Path) -> None:
    ran = loft("profile", "-o", tmp_path / "out.pb.gz", "--", program, "fork")
    assert ran.returncode == 5, ran.stderr
    assert "this is the largest of 2 processes; the other:" in ran.stderr
    assert f"{program} fork, written to" in ran.stderr
    (other,) = tmp_path.glob("out.*.pb.gz")
    assert files.read(other).samples
