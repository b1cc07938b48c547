"""`loft explain`: addresses of reports become source lines."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import LOFT, Loft, one_line

from loft_malloc import places

# Each statement on a line of its own: the lines are looked for.
WRONG = """\
#include <stdlib.h>
static inline __attribute__((always_inline)) void wrong(char* p) {
  free(p + 16);
}
__attribute__((noinline)) void caller(char* p) {
  wrong(p);
  __asm__ volatile("");
}
int main(void) {
  caller(malloc(100));
  return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    source, built = tmp_path / "wrong.c", tmp_path / "wrong program"
    source.write_text(WRONG)
    words = ["-g", "-O1", "-fno-builtin", "-fno-omit-frame-pointer", "-Wl,--build-id"]
    subprocess.run(["gcc", *words, source, "-o", built], check=True)
    return built


@pytest.fixture
def report(program: Path, tmp_path: Path) -> Path:
    path = tmp_path / "report"
    env = {"LD_PRELOAD": str(places.library()), "LOFT_REPORT_FILE": str(path)}
    ran = subprocess.run([program], env=env, capture_output=True, text=True, check=False)
    assert ran.returncode < 0
    assert path.read_text() == ran.stderr
    return path


def test_lines_of_the_source(loft: Loft, report: Path, tmp_path: Path) -> None:
    before = report.read_text().splitlines()
    ran = loft("explain", str(report))
    assert (ran.returncode, ran.stderr) == (0, "")
    after = ran.stdout.splitlines()
    assert after[:3] == before[:3]
    assert after[-1] == "  end of report"
    source = re.escape(str(tmp_path / "wrong.c"))
    frames = [line for line in after if line.startswith("  #")]
    assert re.fullmatch(rf"  #0 0x\w+ in wrong \(inlined\) at {source}:3", frames[0])
    assert re.fullmatch(rf"  #0 0x\w+ in caller at {source}:[67]", frames[1])
    assert re.fullmatch(rf"  #1 0x\w+ in main at {source}:1[01]", frames[2])


def test_from_the_standard_input_among_other_lines(report: Path) -> None:
    text = f"before\n\tit\n{report.read_text()}behind\n"
    ran = subprocess.run([LOFT, "explain", "-"], input=text, capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    assert (ran.returncode, lines[:2], lines[-1]) == (0, ["before", "\tit"], "behind")
    assert any(" in caller at " in line for line in lines)


def test_another_program_in_its_place(loft: Loft, report: Path, program: Path) -> None:
    shutil.copy("/bin/true", program)
    ran = loft("explain", str(report))
    assert ran.returncode == 0
    assert "has changed since" in one_line(ran.stderr)
    assert re.search(r"#0 0x\w+ in .*/wrong program\+0x\w+ build-id \w+\n", ran.stdout)


def test_a_program_that_is_gone(loft: Loft, report: Path, program: Path) -> None:
    program.unlink()
    ran = loft("explain", str(report))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "/wrong program+0x" in ran.stdout


def test_a_report_without_a_stack(loft: Loft, tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("loft: double free of 0x10: slab 0x0, size class 64 bytes\n")
    ran = loft("explain", str(path))
    assert (ran.returncode, ran.stdout) == (0, path.read_text())
    assert "report_file" in one_line(ran.stderr)


@pytest.mark.parametrize("text", ["", "nothing\n", "a loft: b\n", "\x00\xff" * 100])
def test_no_report(loft: Loft, tmp_path: Path, text: str) -> None:
    path = tmp_path / "report"
    path.write_bytes(text.encode("latin-1"))
    ran = loft("explain", str(path))
    assert ran.returncode != 0
    assert "has no report of loft" in one_line(ran.stderr)
    assert ran.stdout == ""


def test_damaged_frames_are_shown_as_they_are(loft: Loft, tmp_path: Path) -> None:
    path = tmp_path / "report"
    text = (
        "loft: double free of 0x10\n"
        "  #0 0x10 in /nowhere+0x\n"
        "  #1 0x10 in +0xffffffffffffffffffff\n"
        "  #2 0x10 in /etc/passwd+0x10 build-id zz\n"
        "  #3 0x10 in /etc/passwd+0x10\n"
        "  #4 0x10 in /dev/null+0x10 build-id 00\n"
    )
    path.write_text(text)
    ran = loft("explain", str(path))
    assert (ran.returncode, ran.stdout) == (0, text)


def test_no_such_file(loft: Loft, tmp_path: Path) -> None:
    ran = loft("explain", str(tmp_path / "nothing"))
    assert ran.returncode != 0
    assert "No such file" in one_line(ran.stderr)
    ran = loft("explain", str(tmp_path))
    assert "directory" in one_line(ran.stderr)


def test_what_would_steer_a_terminal(loft: Loft, tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("loft: double free of 0x10\n\x1b[31m  #0 0x10\n")
    assert "\x1b" not in loft("explain", str(path)).stdout
