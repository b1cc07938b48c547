"""`loft profile PID`: the profile of a process that runs."""

from __future__ import annotations

from pathlib import Path

from asked import Ask, Asked
from heaps import MIB, Heap, small
from support import Loft, one_line

from loft_malloc.profile import files


def grow(process: Asked, name: str = "heap.pb.gz") -> None:
    grown = small()
    grown.stack("main;leak", [3, 3 * MIB, 3, 3 * MIB])
    grown.write(process.folder / "new.pb.gz").replace(process.folder / name)


def test_it_is_shown_as_one_that_is_read(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask()
    ran = loft("profile", process.pid)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0] == f"{process.title}, now"
    read = loft("profile", "--read", process.folder / "heap.pb.gz")
    assert lines[1:] == read.stdout.splitlines()[1:]


def test_it_is_written_and_drawn(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask()
    kept, page = tmp_path / "kept.pb.gz", tmp_path / "page.html"
    # Options stand on both sides of the number.
    ran = loft("profile", "--top", "1", process.pid, "-o", kept, "--html", page)
    assert "and 3 more functions" in ran.stdout and f"drawn in {page}" in ran.stdout
    assert len(files.read(kept).samples) == 4
    assert page.read_text().startswith("<!doctype html>")


def test_the_peak(ask: Ask, loft: Loft) -> None:
    process = ask()
    grow(process, "peak.pb.gz")
    ran = loft("profile", process.pid, "--peak")
    assert ran.stdout.startswith(f"{process.title}, at its peak\nin use: 11.0 MiB")


def test_what_changes_meanwhile(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask()
    earlier = tmp_path / "earlier.pb.gz"
    assert loft("profile", process.pid, "-o", earlier).returncode == 0
    grow(process)
    ran = loft("profile", process.pid, "--base", earlier)
    assert ran.stdout.startswith(f"{process.title}, now, against {earlier}\n")
    assert "in use: 11.0 MiB, +3.00 MiB against 8.00 MiB" in ran.stdout
    ran = loft("profile", process.pid, "--seconds", "0.05")
    assert ran.stdout.startswith(f"{process.title}, now, against 0.05 s before\n")
    assert "0 B against 11.0 MiB" in ran.stdout


def test_where_it_is_off_it_can_be_switched_on(ask: Ask, loft: Loft) -> None:
    process = ask()
    process.refuse("heap.pb.gz", "503 there is no profile: the option profile is off")
    ran = loft("profile", process.pid)
    assert ran.returncode == 1
    assert one_line(ran.stderr) == (
        f"loft: process {process.pid} has no profile: its option profile is off; "
        f"loft profile {process.pid} --start switches it on, for what is allocated from then on"
    )
    process.tell("options", "options set: 1\n")
    ran = loft("profile", process.pid, "--start")
    assert ran.stdout == (
        f"{process.title} takes samples from now on; without --start they are shown\n"
    )
    assert process.posted == ["/options 'profile=on'"]
    (process.folder / "heap.pb.gz.status").unlink()
    ran = loft("profile", process.pid, "--start", "--bytes", "4K", "--seconds", "0.05")
    assert "against 0.05 s before" in ran.stdout
    assert process.posted[1:] == ["/options 'sample_bytes=4K\\nprofile=on'"]


def test_what_the_process_refuses_is_one_line(ask: Ask, loft: Loft) -> None:
    process = ask()
    process.refuse("options", "400 line 1: this option is fixed")
    ran = loft("profile", process.pid, "--start")
    assert ran.returncode == 1
    assert one_line(ran.stderr).endswith("with 400: line 1: this option is fixed")
    (process.folder / "heap.pb.gz").write_bytes(b"\x1f\x8bnothing")
    said = one_line(loft("profile", process.pid).stderr)
    assert "is damaged: its gzip data cannot be unpacked" in said


def test_where_nothing_is_in_use_what_was_allocated_is_shown(ask: Ask, loft: Loft) -> None:
    process = ask()
    freed = Heap()
    freed.stack("main;serve", [90, 9 * MIB, 0, 0])
    freed.write(process.folder / "new.pb.gz").replace(process.folder / "heap.pb.gz")
    said = loft("profile", process.pid).stdout.splitlines()
    assert said[1] == "allocated: 9.00 MiB, in 90 objects"
    assert "nothing is in use, so the list shows what was allocated" in said


def test_wrong_arguments(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask()
    heap = small().write(tmp_path / "heap.pb.gz")
    useless = "--option and a command do not go with a running process"
    for arguments, complaint in (
        ([process.pid, "--leaks"], useless),
        ([process.pid, "--exit"], useless),
        ([process.pid, "--option", "owner=cpu"], useless),
        ([process.pid, "more"], "names a process; only options can follow it"),
        (["--socket", process.path, "true"], useless),
        ([process.pid, "--seconds", "1", "--peak"], "--seconds compares two moments"),
        ([process.pid, "--seconds", "1", "--base", heap], "--seconds compares two moments"),
        ([process.pid, "--seconds", "1e9"], "'1e9' is not a number of seconds"),
        ([process.pid, "--bytes", "4K"], "with a running process, --bytes needs --start"),
        (["--seconds", "1", "--", "true"], "are for a running process; give its PID"),
        (["--start", "--read", heap], "are for a running process; give its PID"),
    ):
        ran = loft("profile", *arguments)
        assert ran.returncode == 2, arguments
        assert complaint in one_line(ran.stderr), arguments
