"""`loft map`: what is read, summed up, written and refused."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from asked import BASE, GRANULE, Ask, many, slab, slabs
from support import LOFT, Loft, one_line

from loft_malloc.live import owners
from loft_malloc.map import model, page, picture, residence
from loft_malloc.map.model import Kind

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_process_is_drawn_and_summed_up(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask()
    html, png, saved = tmp_path / "m.html", tmp_path / "m.png", tmp_path / "m.json"
    ran = loft("map", process.pid, "-o", html, "--png", png, "--save", saved)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    # Whether it is malloc at all comes first.
    assert re.fullmatch(r"heap 315 (MiB )?of [0-9.]+ MiB resident \(100%\)", lines[1])
    assert lines == [
        f"{process.title}",
        lines[1],
        "3 slabs: 160 KiB resident, 48.0 KiB of it free inside; 32.0 KiB not resident",
        "1 medium run: 256 KiB resident, 64.0 KiB of it free inside",
        "1 large object: 64.0 KiB resident, 0 B of it free inside; 4.94 MiB not resident",
        "1 free span: 128 KiB resident",
        "1 extent of a heap of the program's own: 64.0 KiB resident",
        "class slabs resident free inside % free not resident",
        "64 2 96.0 KiB 48.0 KiB 50.0% 32.0 KiB",
        "1024 1 64.0 KiB 0 B 0.0% 0 B",
        f"saved in {saved}",
        f"drawn in {html}",
        f"drawn in {png}",
    ]
    assert png.read_bytes().startswith(PNG)
    # What was saved is drawn the same way.
    again = tmp_path / "again.html"
    ran = loft("map", "--read", saved, "-o", again)
    assert "3 slabs: 160 KiB resident" in ran.stdout
    assert again.read_text().startswith("<!doctype html>")


def test_parts_of_an_answer_are_put_together(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask()
    whole = slabs()
    at = whole["ranges"][3]["at"]
    process.tell("slabs.json", json.dumps({**whole, "ranges": whole["ranges"][:3], "next": at}))
    process.tell(f"slabs.json.from={at}", json.dumps({**whole, "ranges": whole["ranges"][3:]}))
    saved = tmp_path / "saved"
    assert loft("map", process.pid, "--save", saved).returncode == 0
    assert json.loads(saved.read_text()) == whole
    process.tell(f"slabs.json.from={at}", json.dumps({**whole, "next": at}))
    ran = loft("map", process.pid, "--save", saved)
    assert one_line(ran.stderr).endswith("the answers to /slabs.json never end")


def test_the_page_has_a_name_of_its_own(build: Path, tmp_path: Path) -> None:
    file = tmp_path / "heap.json"
    file.write_text(json.dumps(slabs()))
    ran = subprocess.run(
        [LOFT, "map", "--read", file], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.stdout.endswith("drawn in heap.html\n")
    assert (tmp_path / "heap.html").exists()


def test_classes_and_holes() -> None:
    found = model.parsed(slabs(), "here")
    assert [piece.kind for piece in found.pieces] == [
        Kind.SLAB, Kind.SLAB, Kind.SLAB, Kind.FREE, Kind.MEDIUM, Kind.LARGE, Kind.HEAP
    ]  # fmt: skip
    small = found.classes()[0]
    assert (small.object_bytes, small.slabs, small.bytes) == (64, 2, 2 * GRANULE)
    assert small.hole_bytes == (256 + 512) * 64
    assert [piece.hole_bytes for piece in found.pieces] == [
        256 * 64, 512 * 64, 0, 0, GRANULE, 0, 0
    ]  # fmt: skip


def test_the_kernel_says_what_is_resident() -> None:
    pages, page = 3 * GRANULE // mmap.PAGESIZE, mmap.PAGESIZE
    with mmap.mmap(-1, pages * page, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in (0, 2 * page):
            memory[at] = 1
        at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        told = {"ranges": [{"at": at, "bytes": pages * page, "kind": "free"}]}
        residence.add(told, os.getpid())
        assert told["ranges"][0]["resident_bytes"] == 2 * page
        assert told["ranges"][0]["absent"] == [[GRANULE, 2 * GRANULE]]
        (piece,) = model.parsed(told, "here").pieces
        assert (piece.resident, piece.absent) == (2 * page, [(GRANULE, 2 * GRANULE)])


def test_a_map_without_what_is_resident_says_so(tmp_path: Path, loft: Loft) -> None:
    told = slabs()
    for each in told["ranges"]:
        each.pop("resident_bytes")
        each.pop("absent", None)
    file = tmp_path / "heap.json"
    file.write_text(json.dumps(told))
    ran = loft("map", "--read", file, "-o", tmp_path / "page")
    assert ran.stdout.splitlines()[1:3] == [
        "it is not known what is resident: sizes are address space",
        "3 slabs: 192 KiB, 80.0 KiB of it free inside",
    ]
    # Of a process that has ended, the kernel says nothing.
    residence.add(told, 1 << 22)
    assert not any("resident_bytes" in each for each in told["ranges"])


def test_the_heap_of_the_samples_is_named() -> None:
    told = slabs()
    told["ranges"][4]["samples"] = True
    found = model.parsed(told, "here")
    assert found.samples == 2
    assert [each.title for each in owners.owners(found)] == ["heap 1", "heap 2 (samples)"]


def test_what_changed_while_it_was_told_is_left_out() -> None:
    told = slabs()
    over = {"at": BASE + GRANULE, "bytes": 3 * GRANULE, "kind": "free"}
    told["ranges"].append(over)
    assert sum(1 for _ in model.parsed(told, "here").of(Kind.FREE)) == 1
    told["ranges"].insert(0, slab(-1, 64, 1024, 0))
    assert model.parsed(told, "here").pieces[0].at == BASE - GRANULE


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ranges": None}, "it has no list of ranges"),
        ({"ranges": [3]}, "entry 0 of the ranges: it is not an object"),
        ({"ranges": [{"kind": "slab", "at": 0}]}, "entry 0 of the ranges: it has no 'bytes'"),
        ({"ranges": [{**slab(0, 64, 4, 9)}]}, "9 of 4 objects of 64 bytes are free"),
        ({"ranges": [{**slab(0, 64, 1 << 20, 9)}]}, "are free in 65536 bytes"),
        ({"ranges": [{**slab(0, 64, 4, 1), "at": -1}]}, "at is -1"),
        ({"ranges": [{**slab(0, 64, 4, 1), "at": 1 << 60}]}, "bytes at 0x1000000000000000"),
        ({"ranges": [{**slab(0, 64, 4, 1), "absent": [[0, 1 << 20]]}]}, "absent are 1048576 bytes"),
        ({"ranges": []}, "the heap is empty; there is nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    loft: Loft, tmp_path: Path, changed: dict[str, Any], complaint: str
) -> None:
    file = tmp_path / "told.json"
    file.write_text(json.dumps({**slabs(), **changed}))
    ran = loft("map", "--read", file, "-o", tmp_path / "page")
    assert ran.returncode != 0
    assert complaint in one_line(ran.stderr)
    assert not (tmp_path / "page").exists()


def test_wrong_arguments(loft: Loft, tmp_path: Path) -> None:
    file = tmp_path / "told.json"
    file.write_text(json.dumps(slabs()))
    for arguments, complaint in (
        ([], "give a PID, --socket, or --read and a map"),
        (["12", "--read", file], "give a process or --read, not both"),
        (["--read", tmp_path / "none"], "none cannot be read: No such file"),
        (["--read", Path(__file__)], "is not JSON"),
        (["--read", file, "--save", tmp_path / "s"], "--save needs a process"),
        (["--read", file, "-o", tmp_path], "is a folder; name a file to write"),
        (["--read", file, "--png", "/dev/full"], "/dev/full cannot be written: No space left"),
    ):
        ran = loft("map", *arguments)
        assert ran.returncode == 2
        assert complaint in one_line(ran.stderr)


def test_a_hundred_thousand_slabs_are_a_small_page(tmp_path: Path) -> None:
    found = model.parsed(many(100_000), "here")
    assert len(found.pieces) == 100_000
    path = tmp_path / "page.html"
    page.write(path, found, "many", None)
    assert path.stat().st_size < 4_000_000
    picture.write(tmp_path / "page.png", found, "many")
    assert (tmp_path / "page.png").read_bytes().startswith(PNG)


def test_cells_of_the_picture() -> None:
    values, each = picture.occupancy(model.parsed(slabs(), "here"))
    assert each == GRANULE
    # The hole between the two parts of the heap is drawn, and not at its full length.
    assert list(values[:5]) == [0.75, 0, 1, -1, -1]
    hole = [index for index, value in enumerate(values) if value != value]
    assert hole == list(range(5, 5 + picture.MOST_GAP))
    assert list(values[69:73]) == [0.75] * 4 and values[-1] == 1
    # Of the large object, all but its first granule has no memory.
    assert list(values[73:75]) == [1, -2] and list(values).count(-2) == 79
