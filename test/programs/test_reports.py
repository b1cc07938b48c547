"""Reports of misuse beyond the line on standard error: a file, and a handler of the program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from filters import GLIBC, KILL, allowing
from programs import HOW_TO_GET_STACKS, Build, Execute

LINE = r"loft: free of an interior pointer 0x\w+: slab 0x\w+, size class 112 bytes\n"
OBJECT = r"  object 0x\w+ of 112 bytes, 16 bytes into it, slab 0x\w+, heap \d+\n"
FRAMES = r"(  #\d+ 0x\w+( in [^\n]+\+0x\w+( build-id \w+)?)?\n)+"
END = r"  end of report\n"
PROCESS = r"  process \d+, thread \d+, second \d+\n"


def aborted(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == -signal.SIGABRT, result.stderr
    assert "survived" not in result.stdout


def test_without_both_it_is_one_line(execute: Execute, build: Build) -> None:
    line = LINE.removesuffix(r"\n") + HOW_TO_GET_STACKS
    for how in ("nobody", "unset"):
        result = execute(build("reports.c"), how)
        aborted(result)
        assert (result.stdout, re.fullmatch(line, result.stderr) is not None) == ("", True)


def test_the_file_has_what_standard_error_has(
    execute: Execute, build: Build, tmp_path: Path
) -> None:
    path = tmp_path / "reports"
    result = execute(build("reports.c"), "nobody", LOFT_REPORT_FILE=str(path))
    aborted(result)
    assert re.fullmatch(LINE + PROCESS + OBJECT + FRAMES + END, result.stderr)
    assert path.read_text() == result.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    frames = re.findall(r"#\d+ 0x\w+ in (\S+)\+0x", result.stderr)
    # The functions of the program, and none of the library's.
    assert frames[:2] == [str(build("reports.c"))] * 2
    assert not any("libloft" in frame for frame in frames)


def test_reports_are_appended(execute: Execute, build: Build, tmp_path: Path) -> None:
    path = tmp_path / "reports"
    path.write_text("before\n")
    # A process, and its child.
    execute(build("reports.c"), "child", LOFT_REPORT_FILE=str(path))
    execute(build("reports.c"), "foreign", LOFT_MISUSE="continue", LOFT_REPORT_FILE=str(path))
    text = path.read_text()
    assert text.startswith("before\n")
    assert text.count("  end of report\n") == text.count("loft: free of ") == 4
    assert len(set(re.findall(r"^  process (\d+)", text, re.MULTILINE))) == 3


def test_a_file_for_each_process(execute: Execute, build: Build, tmp_path: Path) -> None:
    execute(build("reports.c"), "child", LOFT_REPORT_FILE=str(tmp_path / "of-%p"))
    files = sorted(tmp_path.glob("of-*"))
    assert len(files) == 2
    for file in files:
        assert f"  process {file.name[3:]}, " in file.read_text()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("link", "it is a symbolic link"),
        ("folder", "it is a folder"),
        ("nowhere", "its folder does not exist"),
        ("queue", "it is no regular file"),
        ("second name", "it has another name, too"),
    ],
)
def test_a_file_that_cannot_be_written(
    execute: Execute, build: Build, tmp_path: Path, kind: str, why: str
) -> None:
    path = tmp_path / "place"
    match kind:
        case "link":
            path.symlink_to(tmp_path / "other")
        case "folder":
            path.mkdir()
        case "nowhere":
            path = tmp_path / "no" / "folder"
        case "queue":
            os.mkfifo(path)
        case "second name":
            path.write_text("precious")
            path.with_name("precious").hardlink_to(path)
    result = execute(build("reports.c"), "nobody", LOFT_REPORT_FILE=str(path))
    aborted(result)
    said = re.escape(f"loft: the report is not appended to {path}: {why}\n")
    assert re.fullmatch(LINE + PROCESS + OBJECT + FRAMES + END + said, result.stderr)
    assert not (tmp_path / "other").exists()


def test_a_file_that_may_not_grow(execute: Execute, build: Build, tmp_path: Path) -> None:
    """The signal that the system sends then is not what ends the program."""
    path = tmp_path / "reports"
    script = 'ulimit -f 0; exec "$0" nobody'
    result = execute("bash", "-c", script, build("reports.c"), LOFT_REPORT_FILE=str(path))
    aborted(result)
    assert result.stderr.endswith(f"appended to {path}: it could not be written\n")


def test_a_handler_gets_the_report(execute: Execute, build: Build) -> None:
    result = execute(build("reports.c"), "handler")
    aborted(result)
    assert re.fullmatch(LINE + OBJECT + FRAMES + END, result.stderr)
    assert result.stdout == f"handled: {result.stderr}"


def test_a_child_has_the_handler(execute: Execute, build: Build) -> None:
    result = execute(build("reports.c"), "child")
    aborted(result)
    assert result.stdout.count("handled: loft: free of an interior pointer") == 2


def test_the_program_goes_on_where_it_may(execute: Execute, build: Build) -> None:
    result = execute(build("reports.c"), "foreign", LOFT_MISUSE="continue")
    assert result.returncode == 0
    assert result.stdout.count("handled: loft: free of a foreign pointer") == 2
    assert result.stdout.endswith("survived\n")
    assert len(re.findall(r"^  0x\w+ lies outside of the heap$", result.stderr, re.MULTILINE)) == 2


def test_a_mistake_of_the_handler(execute: Execute, build: Build) -> None:
    """It is not told to the handler; whether it waits for itself before depends on the owner."""
    result = execute(build("reports.c"), "badly")
    aborted(result)
    assert result.stdout.count("handled") == 1
    assert re.fullmatch(LINE + OBJECT + FRAMES + END + f"({LINE})?", result.stderr)


def test_a_handler_under_a_filter(execute: Execute, build: Build, tmp_path: Path) -> None:
    """A report for a handler takes no call that a program under glibc does not make."""
    # What abort makes.
    ends = {"gettid", "getpid", "tgkill", "clock_gettime"}
    path = allowing(GLIBC | ends, KILL).put(tmp_path / "filter")
    result = execute(build("reports.c"), "handler", path)
    aborted(result)
    assert result.stdout == f"handled: {result.stderr}"
    assert re.fullmatch(LINE + OBJECT + FRAMES + END, result.stderr)
