"""`loft map`: what is read, summed up, written and refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from asked import BASE, GRANULE, Ask, many, slab, slabs
from support import LOFT, Loft, one_line

from loft_malloc.map import model, page, picture
from loft_malloc.map.model import Kind

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_process_is_drawn_and_summed_up(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask()
    html, png, saved = tmp_path / "m.html", tmp_path / "m.png", tmp_path / "m.json"
    ran = loft("map", process.pid, "-o", html, "--png", png, "--save", saved)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [" ".join(line.split()) for line in ran.stdout.splitlines()] == [
        f"{process.title}",
        "3 slabs: 192 KiB, 58.3% used",
        "1 medium runs: 256 KiB, 75.0% used",
        "1 large objects: 5.00 MiB, 99.9% used",
        "1 free spans: 128 KiB",
        "1 own heaps: 64.0 KiB",
        "class slabs memory free inside",
        "64 2 128 KiB 80.0 KiB 62.5%",
        "1024 1 64.0 KiB 0 B 0.0%",
        f"saved in {saved}",
        f"drawn in {html}",
        f"drawn in {png}",
    ]
    assert png.read_bytes().startswith(PNG)
    # What was saved is drawn the same way.
    again = tmp_path / "again.html"
    ran = loft("map", "--read", saved, "-o", again)
    assert "3 slabs: 192 KiB, 58.3% used" in ran.stdout
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
    assert small.hole_bytes == (256 + 1024) * 64
    assert [piece.hole_bytes for piece in found.pieces] == [
        256 * 64, 1024 * 64, 0, 0, GRANULE, 4096, 0
    ]  # fmt: skip


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
        ({"ranges": [3]}, "entry 0 of the ranges: it is no object"),
        ({"ranges": [{"kind": "slab", "at": 0}]}, "entry 0 of the ranges: it has no 'bytes'"),
        ({"ranges": [{**slab(0, 64, 4, 9)}]}, "9 of 4 objects of 64 bytes are free"),
        ({"ranges": [{**slab(0, 64, 1 << 20, 9)}]}, "are free in 65536 bytes"),
        ({"ranges": [{**slab(0, 64, 4, 1), "at": -1}]}, "at is -1"),
        ({"ranges": [{**slab(0, 64, 4, 1), "at": 1 << 60}]}, "bytes at 0x1000000000000000"),
        ({"ranges": []}, "there is nothing in the heap to draw"),
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
        ([], "give a process's number, --socket, or --read and a map"),
        (["12", "--read", file], "give a process or --read, not both"),
        (["--read", tmp_path / "none"], "none cannot be read: No such file"),
        (["--read", Path(__file__)], "is no JSON"),
        (["--read", file, "--save", tmp_path / "s"], "--save is for a process's map"),
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
