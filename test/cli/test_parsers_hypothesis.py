"""What the command reads of others, for any bytes: a value, or the error that is documented, and
never another one. What it also writes is read as it was.

hypothesis draws the inputs, the same ones each time. test/fuzz does this for what is compiled.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import Compile

from loft_malloc import (
    client_output,
    elf,
    embedded,
    explain,
    host,
    options,
    ports,
    printable,
    settings_file,
    told_stats,
    trace_file,
)
from loft_malloc.client_output import Quantity
from loft_malloc.errors import UserError
from loft_malloc.live import reading
from loft_malloc.map import model as heap_map
from loft_malloc.profile import (
    collapsed,
    debug_files,
    files,
    made_code,
    pprof,
    pprof_write,
    symbolise,
    symbolizers,
    wire,
)
from loft_malloc.profile.model import Frame, Kind, Label, Location, Mapping, Profile, Sample

settings.register_profile(
    "loft",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=150,
    # Each example writes what it reads into a file of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("loft")

T = TypeVar("T")
U64 = st.integers(0, (1 << 64) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
LINE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))

# Numbers that Python's functions treat otherwise than the C library's do: too long to be read, and
# of digits that are no ASCII.
ODD_NUMBERS = st.sampled_from(["", "1.2.3", "..", "9" * 5000, "²", "٣", "-1", "1e999", "0x", "nan"])
JSON = st.recursive(
    st.none() | st.booleans() | I64 | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
# Deeper than Python's own stack.
DEEP = b"[" * 200_000


def read(call: Callable[[], T], *errors: type[Exception]) -> T | None:
    """What it gives; None if it refuses, and says why."""
    try:
        return call()
    except errors as error:
        assert str(error)
        return None


@pytest.fixture
def place(tmp_path: Path) -> Callable[[bytes], Path]:
    """A file with these bytes; each has a name of its own, since what is read is remembered."""
    numbers = count()

    def put(data: bytes) -> Path:
        path = tmp_path / str(next(numbers))
        path.write_bytes(data)
        return path

    return put


Place = Callable[[bytes], Path]


def pieces(*known: str) -> st.SearchStrategy[str]:
    """Texts of such parts, odd numbers, and anything at all."""
    part = st.sampled_from([*known, "\n", " ", "  "]) | ODD_NUMBERS | st.text(max_size=3)
    return st.lists(part, max_size=24).map("".join)


# ---- Profiles ----

KEYS = st.integers(1, (1 << 61) - 1)
Fields = list[tuple[int, int | bytes]]


def message(fields: Fields) -> bytes:
    out = wire.Writer()
    for number, value in fields:
        if isinstance(value, int):
            out.number(number, value)
        else:
            out.bytes(number, value)
    return bytes(out.data)


@given(st.lists(st.tuples(KEYS, U64 | st.binary(max_size=40)), max_size=12))
def test_a_message_is_read_as_it_was_written(fields: Fields) -> None:
    found = [
        (number, value if isinstance(value, int) else bytes(value))
        for number, value in wire.fields(memoryview(message(fields)))
    ]
    # A zero is what a reader assumes.
    assert found == [(number, value) for number, value in fields if value != 0]


@given(st.lists(I64, max_size=12))
def test_packed_numbers_are_read_as_they_were_written(values: list[int]) -> None:
    out = wire.Writer()
    out.packed(1, values)
    assert [
        each for _, part in wire.fields(memoryview(out.data)) for each in wire.signeds(part)
    ] == values


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    mappings = draw(st.lists(st.builds(Mapping, U64, U64, U64, text, text), max_size=3))
    frames = st.builds(Frame, text.filter(bool), text, I64, text.filter(bool), I64)
    some = st.sampled_from([None, *mappings])
    location = st.builds(Location, U64, some, st.lists(frames, max_size=3))
    locations = draw(st.lists(location, min_size=1, max_size=4))
    kinds = draw(st.lists(st.builds(Kind, text, text), min_size=1, max_size=3))
    samples = st.builds(
        Sample,
        st.lists(st.sampled_from(locations), max_size=4),
        st.lists(I64, min_size=len(kinds), max_size=len(kinds)),
        st.lists(st.builds(Label, text, text, I64, text), max_size=2),
    )
    return draw(
        st.builds(
            Profile,
            st.just(kinds),
            st.lists(samples, max_size=4),
            st.just(mappings),
            st.builds(Kind, text, text),
            I64,
            text,
            st.lists(text, max_size=3),
            I64,
            I64,
        )
    )


def told(profile: Profile) -> list[Any]:
    """All that it says, by values in place of objects."""

    def mapping(each: Mapping) -> tuple[Any, ...]:
        return each.start, each.limit, each.offset, each.file, each.build_id

    def location(each: Location) -> tuple[Any, ...]:
        return each.address, each.mapping and mapping(each.mapping), each.frames

    samples = [
        ([location(place) for place in each.locations], each.values, each.labels)
        for each in profile.samples
    ]
    return [
        *(profile.kinds, samples, list(map(mapping, profile.mappings)), profile.period_kind),
        *(profile.period, profile.default_type, profile.comments),
        *(profile.time_ns, profile.duration_ns),
    ]


@given(profiles())
def test_a_profile_is_read_as_it_was_written(profile: Profile) -> None:
    assert told(pprof.decode(pprof_write.encode(profile))) == told(profile)


@given(profiles(), st.data())
def test_a_damaged_profile(profile: Profile, data: st.DataObject) -> None:
    damaged = data.draw(changed(pprof_write.encode(profile)))
    read(lambda: pprof.decode(damaged), wire.WireError)


# Numbers are ids and places in tables, mostly.
NUMBER = st.integers(-2, 5) | I64
INNER = st.lists(st.tuples(st.integers(1, 6), NUMBER | st.binary(max_size=4)), max_size=4)
PART = st.tuples(st.integers(1, 14), NUMBER | st.binary(max_size=4) | INNER.map(message))


@given(st.lists(PART, max_size=8))
@example([(pprof.DEFAULT, -9)])
def test_any_parts_of_a_profile(parts: Fields) -> None:
    strings: Fields = [(pprof.STRINGS, b""), (pprof.STRINGS, b"space"), (pprof.KINDS, b"")]
    read(lambda: pprof.decode(message(strings + parts)), wire.WireError)


@given(st.binary(max_size=80), st.booleans(), st.booleans())
def test_any_bytes_as_a_profile(data: bytes, packed: bool, is_collapsed: bool) -> None:
    given_bytes = gzip.compress(data, mtime=0) if packed else data
    read(lambda: files.parsed(given_bytes, "it", is_collapsed), UserError)


@given(st.binary(max_size=60))
def test_any_bytes_behind_the_head_of_gzip(data: bytes) -> None:
    read(lambda: files.parsed(files.GZIP + data, "it"), UserError)


NAME = LINE.filter(lambda name: name.strip() and ";" not in name and name == name.strip())


@given(
    st.dictionaries(
        st.lists(NAME, min_size=1, max_size=4).map(tuple), st.integers(1, 10**19 - 1), max_size=5
    )
)
def test_stacks_are_read_as_they_were_written(stacks: dict[tuple[str, ...], int]) -> None:
    samples = [
        Sample([Location(0, frames=[Frame(name)]) for name in reversed(stack)], [value])
        for stack, value in stacks.items()
    ]
    lines = collapsed.lines(Profile([Kind("inuse_space", "bytes")], samples), 0)
    again = collapsed.decode("\n".join(lines))
    assert {
        tuple(each.frames[0].name for each in reversed(sample.locations)): sample.values[0]
        for sample in again.samples
    } == stacks


@given(pieces("main;grow", " 4096", ";"))
def test_any_text_as_stacks(text: str) -> None:
    read(lambda: collapsed.decode(text), collapsed.CollapsedError)


# ---- Programs ----

SMALL_PROGRAM = """
#include <stdlib.h>
static int inner(int n) { return n * 3; }
int outer(int n) { return inner(n) + (malloc(n) == NULL); }
int main(int argc, char** argv) { return outer(argc); }
"""


@pytest.fixture(scope="session")
def program(compiled: Compile) -> bytes:
    return compiled("small", SMALL_PROGRAM, "-g", "-O1").read_bytes()


def changed(data: bytes) -> st.SearchStrategy[bytes]:
    """The same with some bytes of it others, mostly in its front, and perhaps without its end."""
    places = st.integers(0, max(0, min(len(data), 1024) - 1)) | st.integers(
        0, max(0, len(data) - 1)
    )
    bits = st.sampled_from([0, 1, 2, 4, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
    end = st.just(len(data)) | st.integers(0, len(data))

    def change(edits: list[tuple[int, int]], end: int) -> bytes:
        copy = bytearray(data)
        for at, value in edits if data else []:
            copy[at] = value
        return bytes(copy[:end])

    return st.builds(change, st.lists(st.tuples(places, bits), max_size=6), end)


@given(st.data())
def test_a_damaged_program(
    program: bytes, place: Place, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    path = place(data.draw(changed(program)))
    elf.read(path)
    embedded.allocators(path)
    debug_files.describe(path)
    # The own reader's names, in place of those of the system's tools.
    monkeypatch.setattr(symbolizers, "commands", lambda path: iter(()))
    mapping = Mapping(0, 1 << 64, 0, str(path))
    locations = [Location(address, mapping) for address in range(0x1000, 0x1200, 8)]
    symbolise.symbolise(Profile([], [Sample(locations, [])], [mapping]))


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_as_a_program(place: Place, data: bytes, is_elf: bool) -> None:
    path = place((b"\x7fELF" if is_elf else b"") + data)
    elf.read(path)
    embedded.allocators(path)
    debug_files.describe(path)


@given(pieces("0x1000", "0x1008", "main", "??", "/a.c:12", ":?", " (discriminator 3)"))
def test_any_answer_of_a_tool_that_names_addresses(text: str) -> None:
    symbolizers._answers(text)


@given(pieces("1000 20 ", "py::grow:/a.py", "JS:*grow /a.js:10:5", "JS:~", ":"))
def test_any_text_as_a_map_of_made_code(place: Place, text: str) -> None:
    profile = Profile([], [Sample([Location(0x1008), Location(0x10)], [])])
    made_code.name(profile, place(text.encode(errors="replace")), 0)
    assert all(isinstance(each, Location) for each in profile.locations())


# ---- Traces ----


def trace(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def read_trace(packed: bytes, place: Place) -> tuple[trace_file.Trace, bytes]:
    chunks = place(b"")
    found = trace_file.Trace.read(place(packed), chunks, lambda done, size: None)
    return found, chunks.read_bytes()


@given(st.lists(st.text(max_size=6), max_size=3), st.lists(st.binary(max_size=50), max_size=4))
def test_a_trace_is_read_as_it_was_written(
    place: Place, words: list[str], chunks: list[bytes]
) -> None:
    out = io.BytesIO()
    writer = trace_file.Writer(out, {"command": words})
    for chunk in chunks:
        writer.write(chunk)
    writer.finish({"code": len(chunks)})
    found, plain = read_trace(out.getvalue(), place)
    assert (found.header, found.footer) == ({"command": words}, {"code": len(chunks)})
    assert plain == b"".join(chunks)


HEADERS = st.sampled_from(
    [b'{"command": ["a"]}\n', b"{}\n", DEEP, b"\n", b'{"command": "a"}\n', b""]
)


@given(HEADERS | st.binary(max_size=20), st.binary(max_size=40), JSON | st.just(DEEP), U64)
def test_any_bytes_in_a_trace(
    place: Place, header: bytes, chunks: bytes, footer: Any, length: int
) -> None:
    last = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    tail = trace_file.TAIL.pack(length % (2 * len(last) + 2), trace_file.END)
    exact = trace_file.TAIL.pack(len(last), trace_file.END)
    for end in (tail, exact, exact[:-1], b""):
        packed = trace(trace_file.MAGIC + header + chunks + last + end)
        read(lambda packed=packed: read_trace(packed, place), UserError)  # type: ignore[misc]


@given(st.data())
def test_a_damaged_trace(place: Place, data: st.DataObject) -> None:
    whole = trace(trace_file.MAGIC + b'{"command": ["a"]}\n' + bytes(range(64)))
    packed = data.draw(changed(whole))
    read(lambda: read_trace(packed, place), UserError)


# ---- What a process tells, in JSON ----

NUMBERS = I64 | st.sampled_from([0, 16, 1 << 16, 1 << 57]) | JSON


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "resident_bytes": NUMBERS,
            "untouched_bytes": NUMBERS,
            "loft": JSON,
            "classes": JSON
            | st.lists(
                st.fixed_dictionaries({}, optional={"object_bytes": NUMBERS, "live_bytes": NUMBERS})
            ),
        },
    )
)
def test_any_statistics(answer: dict[str, Any]) -> None:
    now = read(lambda: reading.parsed(answer, 1.0), UserError)
    if now is not None:
        assert len(now.parts()) > 0
        assert all(each.waste >= 0 for each in now.classes)


PIECE = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from([*heap_map.NAMES, "other"]) | JSON,
        **dict.fromkeys(("at", "bytes", "object_bytes", "objects"), NUMBERS),
        **dict.fromkeys(("free", "owner", "used_bytes"), NUMBERS),
    },
)


@given(st.fixed_dictionaries({"ranges": st.lists(PIECE | JSON, max_size=6)}) | JSON)
def test_any_map_of_a_heap(answer: Any) -> None:
    found = read(lambda: heap_map.parsed(answer, "it"), UserError)
    if found is None:
        return
    for before, after in zip(found.pieces, found.pieces[1:], strict=False):
        assert before.at + before.bytes <= after.at
    assert all(0 <= piece.used_bytes <= piece.bytes for piece in found.pieces)


@given(st.binary(max_size=30) | st.just(DEEP) | JSON.map(lambda told: json.dumps(told).encode()))
def test_any_bytes_as_json(
    place: Place, tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = place(data)
    read(lambda: heap_map.read(path), UserError)
    folder = tmp_path_factory.mktemp("told")
    (folder / "12").write_bytes(data)
    assert all(isinstance(stats, dict) for _, stats in told_stats.read(folder))


# ---- Texts of clients, settings and reports ----

RATE = st.integers(1, 10**9).map(lambda number: number / 100)
PERCENT = st.lists(
    st.sampled_from(client_output.PERCENTILES[:1] + client_output.PERCENTILES[3:]), unique=True
)


@given(
    RATE,
    st.dictionaries(st.sampled_from(["50", "90", "99"]), RATE),
    st.sampled_from(["us", "ms", "s"]),
)
def test_what_wrk_says(rate: float, latencies: dict[str, float], unit: str) -> None:
    rows = "".join(f"     {p}%  {time:7.2f}{unit}\n" for p, time in latencies.items())
    said = f"  Thread Stats   Avg\n  Latency Distribution\n{rows}Requests/sec:  {rate:9.2f}\n"
    assert client_output.read(said) == pytest.approx(
        {Quantity("", p): time * client_output.UNITS[unit] for p, time in latencies.items()}
        | {Quantity("", ""): rate}
    )


@given(st.dictionaries(st.from_regex(r"[A-Z]{1,8}", fullmatch=True), st.tuples(RATE, RATE)))
def test_what_redis_says_in_columns(rows: dict[str, tuple[float, float]]) -> None:
    lines = [f'"{test}","{rate:.2f}","{middle:.2f}"\n' for test, (rate, middle) in rows.items()]
    said = '"test","rps","p50_latency_ms"\n' + "".join(lines)
    assert client_output.read(said) == pytest.approx(
        {Quantity(test, ""): rate for test, (rate, _) in rows.items()}
        | {Quantity(test, "50"): middle / 1000 for test, (_, middle) in rows.items()}
    )


@given(
    pieces(
        '"test","rps","p50_latency_ms"\n',
        '"GET",',
        '"1.5",',
        '"',
        "====== GET ======\n",
        "throughput summary: ",
        "latency summary (msec):\n",
        "p50 p99\n",
        "GET: 3 requests per second, p50=",
        " msec",
        "Requests/sec: ",
        "Thread Stats",
        "  50% ",
        "  99%% in ",
        "ms",
        " secs\n",
        "Requests per second:  ",
        " [#/sec]",
    )
)
def test_any_words_of_a_client(text: str) -> None:
    for value in client_output.read(text).values():
        assert isinstance(value, float)


@given(
    st.sampled_from(list(options.OPTIONS)), pieces("K", "M", "any", "off", "SIG", "USR2", "4096")
)
def test_any_setting(name: str, value: str) -> None:
    found = read(lambda: options.checked(f"{name}={value}"), UserError)
    assert found in (None, (name, value))


@given(
    pieces("thp=never", "owner=", "cpu", "=", "#", "\r", "\f", "cache_bytes=", "4M", "stats=text\n")
)
def test_any_text_as_a_file_of_settings(text: str) -> None:
    found = settings_file._taken(text)
    assert set(found.values) <= set(options.OPTIONS)
    assert all("\n" not in each for each in found.mistakes)


@given(LINE.filter(lambda name: " build-id " not in name), U64, st.none() | U64, st.integers(0, 99))
def test_a_frame_of_a_report_is_read_as_it_was_written(
    file: str, address: int, build_id: int | None, number: int
) -> None:
    line = f"  #{number} 0x{address:x} in {file}+0x{address:x}"
    line += "" if build_id is None else f" build-id {build_id:x}"
    told_id = "" if build_id is None else f"{build_id:x}"
    assert explain._place(line) == explain.Place(file, told_id, address)


@given(pieces("loft: ", "  #1 ", "0x10 in ", "/bin/cat+0x", "10", " build-id ", "ab"))
def test_any_text_as_a_report(place: Place, capsys: Any, text: str) -> None:
    path = place(text.encode(errors="replace"))
    read(lambda: explain.explain(str(path)), UserError)
    capsys.readouterr()


@given(st.text())
def test_what_is_printed_is_one_line(text: str) -> None:
    assert len(printable.one_line(text).splitlines()) <= 1


# ---- The system's texts ----


@given(
    pieces(
        "  sl  local_address\n",
        "   0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 123 1\n",
        "model name\t: fast",
    )
)
def test_any_text_of_the_system(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    folder = tmp_path_factory.mktemp("proc")
    for name in ("tcp", "cpuinfo"):
        (folder / name).write_text(text, errors="replace")
    assert all(isinstance(port, int) for port in ports.listening(folder).values())
    monkeypatch.setattr(host, "CPUINFO", folder / "cpuinfo")
    host._processor()
