"""Heap profiles as files: against pprof's schema as protoc has it, and damaged in many ways."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest
from heaps import Heap, block, decoded, protoc, small

from loft_malloc.errors import UserError
from loft_malloc.profile import files, pprof_write, tree
from loft_malloc.profile.model import Frame, Kind, Label, Profile


def addresses() -> Heap:
    """With everything that the library writes, and numbers that take all of 64 bits."""
    heap = Heap()
    text = heap.mapping(0x55_0000_0000, 0x55_0001_0000, 0x1000, "/usr/bin/pro gram", "ab12cd34")
    heap.mapping(0x7F_0000_0000, 0x7F_0001_0000, 0, "/usr/lib/libé.so")
    places = [heap.address(0x55_0000_0010, text), heap.address(0xFFFF_FFFF_FF60_0000)]
    heap.sample(places, [1, 2, 3, (1 << 63) - 1], size=4096)
    heap.sample([], [0, 0, 0, 7])
    return heap


def test_all_of_a_profile_is_read(tmp_path: Path) -> None:
    profile = files.read(addresses().write(tmp_path / "heap.pb.gz"))
    assert profile.kinds[3] == Kind("inuse_space", "bytes")
    assert (profile.period, profile.period_kind) == (524288, Kind("space", "bytes"))
    assert (profile.default_type, profile.time_ns) == ("inuse_space", 1700)
    first, second = profile.samples
    assert first.values == [1, 2, 3, (1 << 63) - 1]
    assert first.labels == [Label("bytes", number=4096)]
    assert (second.locations, second.values) == ([], [0, 0, 0, 7])
    near, far = first.locations
    assert (near.address, near.frames) == (0x55_0000_0010, [])
    assert near.mapping is profile.mappings[0]
    assert (far.address, far.mapping) == (0xFFFF_FFFF_FF60_0000, None)
    mapping = profile.mappings[0]
    assert (mapping.start, mapping.limit, mapping.offset) == (
        0x55_0000_0000,
        0x55_0001_0000,
        0x1000,
    )
    assert (mapping.file, mapping.build_id) == ("/usr/bin/pro gram", "ab12cd34")
    assert profile.mappings[1].file == "/usr/lib/libé.so"


def numbers(text: str, name: str) -> list[int]:
    return [int(found) for found in re.findall(rf"\b{name}: (-?\d+)", text)]


def test_what_is_written_is_read_by_protoc(tmp_path: Path) -> None:
    heap = addresses()
    profile = files.read(heap.write(tmp_path / "heap.pb.gz"))
    profile.samples[0].locations[0].frames = [
        Frame("inner", "/src/a.h", 3, "_Z5innerv", 2),
        Frame("outer", "/src/a.c", 40),
    ]
    profile.comments = ["by loft"]
    text = decoded(pprof_write.compressed(profile))
    assert numbers(text, "value") == [1, 2, 3, (1 << 63) - 1, 0, 0, 0, 7]
    assert numbers(text, "address") == [0x55_0000_0010, 0xFFFF_FFFF_FF60_0000]
    assert numbers(text, "memory_limit") == [0x55_0001_0000, 0x7F_0001_0000]
    assert numbers(text, "file_offset") == [0x1000]
    assert numbers(text, "line") == [3, 40]
    assert numbers(text, "start_line") == [2]
    assert numbers(text, "num") == [4096]
    assert numbers(text, "period") == [524288]
    strings = re.findall(r'string_table: "(.*)"', text)
    assert strings[0] == ""
    assert len(set(strings)) == len(strings)
    assert {"inner", "outer", "_Z5innerv", "/src/a.h", "by loft", "ab12cd34"} <= set(strings)
    assert strings[numbers(text, "default_sample_type")[0]] == "inuse_space"
    assert [text.count(f"has_{what}: true") for what in ("functions", "inline_frames")] == [1, 1]


def test_what_is_written_reads_the_same_again(tmp_path: Path) -> None:
    path = small().write(tmp_path / "heap.pb.gz")
    first = pprof_write.compressed(files.read(path))
    path.write_bytes(first)
    profile = files.read(path)
    assert pprof_write.compressed(profile) == first
    stacks = [[each.frames[0].name for each in sample.locations] for sample in profile.samples]
    assert stacks[1] == ["grow", "parse", "parse", "main"]


def test_a_message_may_come_without_gzip_and_unpacked_numbers(tmp_path: Path) -> None:
    heap = small()
    path = tmp_path / "heap.pb"
    path.write_bytes(heap.message())
    assert len(files.read(path).samples) == 4
    # proto2 writes each number of a list by itself.
    schema = (Path(__file__).parent / "profile.proto").read_text()
    schema = re.sub(r"(repeated u?int64 \w+ = \d+)", r"\1 [packed = false]", schema)
    (tmp_path / "loose.proto").write_text(schema)
    loose = subprocess.run(
        ["protoc", "--encode=pprof.Profile", f"--proto_path={tmp_path}", "loose.proto"],
        input=heap.source(),
        capture_output=True,
        check=True,
    ).stdout
    assert loose != path.read_bytes()
    path.write_bytes(loose)
    assert [sample.values for sample in files.read(path).samples][3] == [90, 9 << 20, 0, 0]


def test_collapsed_stacks(tmp_path: Path) -> None:
    out = tmp_path / "heap.collapsed"
    files.write(out, files.read(small().write(tmp_path / "heap.pb.gz")))
    assert out.read_text().splitlines() == [
        f"main;parse;grow {5 << 20}",
        f"main;parse;parse;grow {2 << 20}",
        f"main;serve;grow {1 << 20}",
    ]
    profile = files.read(out)
    assert [sample.values for sample in profile.samples] == [[5 << 20], [2 << 20], [1 << 20]]
    assert [each.frames[0].name for each in profile.samples[2].locations] == [
        "grow",
        "serve",
        "main",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "main;grow",
        "main;grow x",
        "main -3",
        "5",
        " 5",
        "a 99999999999999999999999",
        "a ²",
        "a 1\nb",
    ],
)
def test_lines_that_are_no_stacks(tmp_path: Path, text: str) -> None:
    path = tmp_path / "heap.collapsed"
    path.write_text(text)
    number = text.count("\n") + 1
    with pytest.raises(
        UserError, match=f"not a profile that loft can read: line {number} does not"
    ):
        files.read(path)


def message(*parts: str, strings: str = 'string_table: "" string_table: "a"') -> bytes:
    return protoc("--encode", "\n".join([block("sample_type", type=1), *parts, strings]).encode())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"text", "not a profile that loft can read"),
        (b"\x80" * 20, "a number has no end"),
        (b"\x0a", "a number has no end"),
        (b"\x0a\x7f", "field 1 is longer than what is left"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "field 1 is longer than what is left"),
        (b"\x00\x01", "a field has the number 0"),
        (b"\x0b\x0c", "field 1 is of the unknown kind 3"),
        (b"\x30\x05", "bytes are needed where there is a number"),
        (b"\x10\x05", "bytes are needed where there is a number"),
        (b"\x62\x01a", "a number is needed where there are bytes"),
        (b"\x32\x00", "it does not say what its values count"),
        (b"\x0a\x00", "no table of strings"),
        (message(strings='string_table: "a"'), "no table of strings"),
        (message(block("sample_type", type=2)), "it names string 2 of 2"),
        (message(block("sample_type", type=-1)), "it names string 18446744073709551615 of 2"),
        (message(block("sample", location_id=[1], value=1)), "it names location 1, which it"),
        (message(block("sample", value=[1, 2])), "a sample has 2 values, and not 1"),
        (message(block("sample", value=-1)), "negative values"),
        (message(block("location", id=1, mapping_id=3)), "it names mapping 3, which it"),
        (message(block("location", id=1, line="line { function_id: 9 }")), "names function 9"),
        (message(block("location", address=1)), "the id 0 is not one location's"),
        (message(block("function", id=4), block("function", id=4)), "id 4 is not one function's"),
        (gzip.compress(message(), mtime=0)[:-12], "its gzip data cannot be unpacked"),
        (gzip.compress(message(), mtime=0)[:5], "its gzip data cannot be unpacked"),
        (gzip.compress(message(), mtime=0)[:-8] + bytes(8), "its gzip data cannot be unpacked"),
        (b"\x1f\x8b" + bytes(40), "its gzip data cannot be unpacked"),
        (gzip.compress(b"", mtime=0), "is empty"),
    ],
)
def test_a_damaged_profile_is_one_line(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "heap.pb.gz"
    path.write_bytes(data)
    with pytest.raises(UserError) as raised:
        files.read(path)
    assert said in str(raised.value)
    assert str(raised.value).startswith(f"{path} ")
    assert "\n" not in str(raised.value)


def test_every_damaged_byte_ends_in_a_profile_or_in_one_line(tmp_path: Path) -> None:
    data = addresses().message()
    path = tmp_path / "heap.pb"
    refused = 0
    for at, byte in enumerate(data):
        for other in {0, 0x7F, 0xFF, byte ^ 1, byte ^ 0x80} - {byte}:
            path.write_bytes(data[:at] + bytes([other]) + data[at + 1 :])
            try:
                tree.build(files.read(path))
            except UserError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > len(data)


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    path = tmp_path / "heap.pb.gz"
    path.write_bytes(gzip.compress(bytes(1 << 22), mtime=0))
    with pytest.raises(UserError, match="it is larger than 1 MiB"):
        files.read(path)


def test_a_stack_deeper_than_pythons_own(tmp_path: Path) -> None:
    heap = Heap()
    heap.stack(";".join(f"f{i}" for i in range(3000)) + ";again" * 3000, [1, 1, 1, 64])
    profile = files.read(heap.write(tmp_path / "heap.pb.gz"))
    made = tree.build(profile)
    assert len(made.nodes) == 6001
    assert {held.cumulative[3] for held in made.held} == {64}
    kept, gone = tree.without_crumbs(made, 1 / 1000)
    assert (len(kept), gone) == (6001, 0)


def test_small_boxes_become_their_callers(tmp_path: Path) -> None:
    heap = Heap()
    heap.stack("main;big", [1, 1000, 1, 1000])
    heap.stack("main;small;smaller", [0, 4, 0, 4])
    made = tree.build(files.read(heap.write(tmp_path / "heap.pb.gz")))
    kept, gone = tree.without_crumbs(made, 1 / 100)
    assert gone == 2
    held = {node.function[0]: node.values[3] for node in kept}
    assert held == {"": 0, "main": 4, "big": 1000}


@pytest.mark.parametrize(
    ("name", "said"), [("nothing", "No such file or directory"), (".", "Is a directory")]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(UserError, match=f"{tmp_path / name} cannot be read: {said}"):
        files.read(tmp_path / name)


def test_a_profile_may_be_empty(tmp_path: Path) -> None:
    profile = files.read(Heap().write(tmp_path / "heap.pb.gz"))
    assert (profile.samples, profile.main_index) == ([], 3)
    assert Profile([]).index("inuse_space") is None
