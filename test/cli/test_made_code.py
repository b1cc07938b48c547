"""Names of code that programs make, from the maps they write; and the stacks that hold most."""

from __future__ import annotations

import os
from pathlib import Path

from heaps import MIB, Heap, small
from support import Loft, one_line

from loft_malloc.profile import files, made_code
from loft_malloc.profile.model import Frame, Location, Mapping, Profile, Sample

SOURCE = """
def outer():
    def inner(): pass
    return lambda: inner()
class Basket:
    class Lid:
        async def close(self): pass
    @property
    def size(self): pass
"""


def named(path: Path, *addresses: int, since: float = 0, owner: int | None = None) -> list[Frame]:
    anywhere = Mapping(0, 1 << 40, 0, "[anon]")
    locations = [Location(address, anywhere) for address in addresses]
    profile = Profile([], [Sample(locations, [])])
    made_code.name(profile, path, since, owner)
    return [frame for location in locations for frame in location.frames]


def test_functions_of_python_with_their_lines(tmp_path: Path) -> None:
    source, table = tmp_path / "a b.py", tmp_path / "perf-1.map"
    source.write_text(SOURCE)
    names = ["outer", "outer.<locals>.inner", "outer.<locals>.<lambda>", "Basket.Lid.close",
             "Basket.size", "<module>", "gone"]  # fmt: skip
    lines = [f"{0x1000 + 16 * at:x} b py::{name}:{source}" for at, name in enumerate(names)]
    table.write_text("\n".join(lines))
    frames = named(table, *(0x1006 + 16 * at for at in range(len(names))))
    assert [(frame.name, frame.line) for frame in frames] == list(
        zip(names, [2, 3, 4, 7, 9, 0, 0], strict=True)
    )
    assert {frame.file for frame in frames} == {str(source)}


def test_other_names_and_what_is_none(tmp_path: Path) -> None:
    table = tmp_path / "perf-1.map"
    table.write_bytes(
        b"1000 10 JS:*grow file:///srv/app.js:10:5\n1010 10 LazyCompile:~ /srv/app.js:12:1\n"
        b"1020 10 Interpreter\n1030 0 nothing\nfffffffffffffffff 10 far\n\xff\n1040\n1060 10 py::"
    )
    frames = named(table, 0x1001, 0x1010, 0x1029, 0x1030, 0x1040, 0x0FFF, 0x1060)
    assert [(frame.name, frame.file, frame.line) for frame in frames] == [
        ("grow", "/srv/app.js", 10), ("(anonymous)", "/srv/app.js", 12), ("Interpreter", "", 0),
        ("py::", "", 0),
    ]  # fmt: skip


def test_of_two_pieces_at_one_place_the_last_counts(tmp_path: Path) -> None:
    table = tmp_path / "perf-1.map"
    table.write_text("1000 100 old\n1010 10 new\n")
    assert [frame.name for frame in named(table, 0x1001, 0x1011)] == ["old", "new"]


def test_maps_that_are_not_believed(tmp_path: Path) -> None:
    table, link, pipe = (tmp_path / name for name in ("table", "link", "pipe"))
    table.write_text("1000 10 name\n")
    link.symlink_to(table)
    os.mkfifo(pipe)
    assert len(named(table, 0x1001)) == 1
    for path in (link, pipe, tmp_path, tmp_path / "none"):
        assert not named(path, 0x1001)
    # Left by a process that had the same number.
    assert not named(table, 0x1001, since=table.stat().st_mtime + 10)


def test_code_of_files_is_not_looked_up(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("1000 10 name\n")
    location = Location(0x1001, Mapping(0, 1 << 40, 0, "/usr/bin/program"))
    made_code.name(Profile([], [Sample([location], [])]), table, 0)
    assert not location.frames


def test_the_map_of_this_process() -> None:
    path = made_code.of_process(os.getpid())
    assert str(path) == f"/proc/{os.getpid()}/root/tmp/perf-{os.getpid()}.map"


def test_the_stacks_that_hold_most(loft: Loft, tmp_path: Path) -> None:
    path = small().write(tmp_path / "heap.pb.gz")
    ran = loft("profile", "--read", path, "--stacks", "2")
    assert ran.returncode == 0, ran.stderr
    _, stacks = ran.stdout.split("\n\n", 1)
    assert stacks == (
        "5.00 MiB in 5 objects\n    grow  a.c:10\n    parse  a.c:10\n    main  a.c:10\n\n"
        "2.00 MiB in 2 objects\n    grow  a.c:10\n    parse  a.c:10\n    parse  a.c:10\n"
        "    main  a.c:10\n\nand 1 more stack\n\n"
    )
    ran = loft("profile", "--read", path, "--base", path, "--stacks", "2")
    assert ran.returncode == 2
    assert "--base" in one_line(ran.stderr)


def test_long_stacks_and_collapsed_ones(loft: Loft, tmp_path: Path) -> None:
    heap = Heap()
    heap.stack(";".join(["main"] * 30), [1, MIB, 1, MIB])
    path = heap.write(tmp_path / "heap.pb.gz")
    assert "\n    and 14 more callers\n" in loft("profile", "--read", path, "--stacks", "1").stdout
    collapsed = tmp_path / "heap.collapsed"
    files.write(collapsed, files.read(path))
    ran = loft("profile", "--read", collapsed, "--stacks", "1")
    assert "\n1.00 MiB\n    main\n" in ran.stdout
