"""Heap profiles for the tests, written as text and made into pprof's format by protoc."""

from __future__ import annotations

import gzip
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = Path(__file__).resolve().parent / "profile.proto"
MIB = 1 << 20
KINDS = (
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
)


def protoc(how: str, data: bytes) -> bytes:
    """--encode makes a message of a text, --decode a text of a message."""
    command = ["protoc", f"{how}=pprof.Profile", f"--proto_path={SCHEMA.parent}", str(SCHEMA)]
    ran = subprocess.run(command, input=data, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout


def decoded(packed: bytes) -> str:
    return protoc("--decode", gzip.decompress(packed)).decode()


def block(message: str, /, **fields: int | list[int] | str) -> str:
    """One message; the values of a list are a repeated field, a text is a message inside."""
    parts = []
    for key, value in fields.items():
        if isinstance(value, str):
            parts.append(value)
        else:
            parts += [f"{key}: {each}" for each in (value if isinstance(value, list) else [value])]
    return f"{message} {{ {' '.join(parts)} }}"


@dataclass
class Heap:
    """A profile as the library writes it: addresses without names; or with, as others do."""

    kinds: tuple[tuple[str, str], ...] = KINDS
    strings: list[str] = field(default_factory=lambda: [""])
    parts: list[str] = field(default_factory=list)
    locations: dict[object, int] = field(default_factory=dict)
    functions: dict[tuple[str, str], int] = field(default_factory=dict)
    mappings: int = 0
    comments: list[str] = field(default_factory=list)

    def text(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def mapping(self, start: int, limit: int, offset: int, file: str, build_id: str = "") -> int:
        self.mappings += 1
        self.parts.append(
            block(
                "mapping",
                id=self.mappings,
                memory_start=start,
                memory_limit=limit,
                file_offset=offset,
                filename=self.text(file),
                build_id=self.text(build_id),
            )
        )
        return self.mappings

    def address(self, address: int, mapping: int = 0) -> int:
        if address not in self.locations:
            self.locations[address] = number = len(self.locations) + 1
            self.parts.append(block("location", id=number, mapping_id=mapping, address=address))
        return self.locations[address]

    def named(self, *frames: tuple[str, str, int]) -> int:
        """A location whose functions are known, the innermost first."""
        if frames not in self.locations:
            self.locations[frames] = number = len(self.locations) + 1
            lines = " ".join(
                block("line", function_id=self.function(name, file), line=line)
                for name, file, line in frames
            )
            self.parts.append(block("location", id=number, line=lines))
        return self.locations[frames]

    def function(self, name: str, file: str) -> int:
        if (name, file) not in self.functions:
            self.functions[name, file] = number = len(self.functions) + 1
            self.parts.append(
                block("function", id=number, name=self.text(name), filename=self.text(file))
            )
        return self.functions[name, file]

    def sample(
        self, locations: list[int], values: list[int], size: int = 0, lifetime_us: int = 0
    ) -> None:
        labels = ""
        if size:
            labels += block("label", key=self.text("bytes"), num=size)
        if lifetime_us:
            unit = self.text("microseconds")
            labels += block("label", key=self.text("lifetime"), num=lifetime_us, num_unit=unit)
        self.parts.append(block("sample", location_id=locations, value=values, labels=labels))

    def stack(self, path: str, values: list[int], lifetime_us: int = 0) -> None:
        """Of functions with names alone, the outermost first: main;parse;grow."""
        places = [self.named((name, "/src/a.c", 10)) for name in reversed(path.split(";"))]
        self.sample(places, values, lifetime_us=lifetime_us)

    def source(self) -> bytes:
        kinds = [
            block("sample_type", type=self.text(kind), unit=self.text(unit))
            for kind, unit in self.kinds
        ]
        period = block("period_type", type=self.text("space"), unit=self.text("bytes"))
        main = self.text("inuse_space")
        comments = [f"comment: {self.text(each)}" for each in self.comments]
        # A text in the format is quoted as in C, of which JSON's quotes are a part.
        strings = [f"string_table: {json.dumps(each, ensure_ascii=False)}" for each in self.strings]
        last = [period, "period: 524288", f"default_sample_type: {main}", "time_nanos: 1700"]
        return "\n".join([*kinds, *self.parts, *strings, *comments, *last]).encode()

    def message(self) -> bytes:
        return protoc("--encode", self.source())

    def write(self, path: Path) -> Path:
        path.write_bytes(gzip.compress(self.message(), mtime=0))
        return path


def small() -> Heap:
    """Two kinds of callers, one of them recursive, and one that has freed all of its own."""
    heap = Heap()
    heap.stack("main;parse;grow", [10, 10 * MIB, 5, 5 * MIB])
    heap.stack("main;parse;parse;grow", [4, 4 * MIB, 2, 2 * MIB])
    heap.stack("main;serve;grow", [8, MIB, 8, MIB])
    heap.stack("main;serve", [90, 9 * MIB, 0, 0])
    return heap
