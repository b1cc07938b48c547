#!/usr/bin/env python3
"""Keeps the calls of the programs of bench/kept.toml in bench/kept, for the ledger.

    tools/kept_recordings.py [NAME ...]

A recording is not the same twice. What is kept is the same everywhere, and small: the first calls
of the process that made most, in their order, all of one thread, without times, with numbers in
place of addresses. It is a trace like any other (docs/internals/trace-format.md).
"""

import os
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict

from loft_malloc import replay, trace_file
from loft_malloc.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "bench" / "kept.toml"
KEPT = ROOT / "bench" / "kept"

CALLS = {
    "malloc": 1,
    "calloc": 2,
    "realloc": 3,
    "reallocarray": 5,
    "free": 6,
    "free_sized": 7,
    "free_aligned_sized": 8,
    "aligned_alloc": 9,
    "memalign": 10,
    "posix_memalign": 11,
    "valloc": 12,
    "pvalloc": 13,
}
REALLOC, REALLOC_NEW, REALLOC_ARRAY = 3, 4, 5
WITH_COUNT = {2, 5, 8, 9, 10, 11}
FREES = {6, 7, 8}
NEXT_AND_NOW, NOTHING = 0x20 | 0x40, 0x80
CHUNK = struct.Struct("<IIQIIIIQQ")
CALLS_MAGIC, PROCESS_MAGIC = 0x31434C54, 0x31504C54
CHUNK_BYTES, LONGEST_CALL = 4096, 64
# As small as it gets: these are in the repository.
LEVEL = 22


class Kept(BaseModel):
    """As it is written in bench/kept.toml."""

    model_config = ConfigDict(extra="forbid")

    command: str
    environment: dict[str, str]
    calls: int
    # What is asked of a server, and what ends it.
    beside: str = ""
    behind: str = ""


def all_of_them(path: Path = WRITTEN) -> dict[str, Kept]:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Kept.model_validate(each) for name, each in told.items()}


def number(value: int) -> bytes:
    coded = bytearray()
    while value >= 0x80:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    coded.append(value)
    return bytes(coded)


class Encoder:
    """Writes calls, as `loft-trace calls` lists them, as those of one thread."""

    def __init__(self) -> None:
        self.chunks = b""
        self.count = 0
        self._serial = 0
        self._tickets = 0
        self._of_chunk = b""
        self._ticket_before = 0
        self._address = 0
        # By the ticket at which an object began; places are used again.
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._most = 0

    def add(self, line: str) -> None:
        _, _, _, name, *rest = line.split()
        if name not in CALLS:
            return
        call = CALLS[name]
        given = ""
        if "->" in rest:
            given = rest[-1]
            rest = rest[:-2]
        old = rest.pop() if rest and rest[-1][0] in "#n" else ""
        if old == "#?":
            return
        if call == REALLOC and old in ("", "null"):
            call = REALLOC_NEW
        self._write(call, [int(each) for each in rest], old, given)

    def _write(self, call: int, numbers: list[int], old: str, given: str) -> None:
        moves = call in (REALLOC, REALLOC_ARRAY)
        nothing = given == "null" or (call in FREES and old == "null")
        coded = bytes([call | NEXT_AND_NOW | (NOTHING if nothing else 0)])
        coded += b"".join(map(number, numbers))
        self._tickets += 1
        if moves:
            self._tickets += 1
            coded += number(0)
            coded += self._coded(self._places[old] if old.startswith("#") else 0)
        # A realloc that failed has left the old object alone; one to nothing has freed it.
        if old.startswith("#") and not (moves and nothing and numbers[-1] != 0):
            place = self._places.pop(old)
            self._free.append(place)
            if call in FREES:
                coded += self._coded(place)
        if given.startswith("#"):
            coded += self._coded(self._take(given))
        self._put(coded)

    def _take(self, ticket: str) -> int:
        if not self._free:
            self._most += 1
            self._free.append(self._most)
        self._places[ticket] = self._free.pop()
        return self._places[ticket]

    def _coded(self, place: int) -> bytes:
        difference = place - self._address
        self._address = place
        zigzag = difference << 1 if difference >= 0 else (-difference << 1) - 1
        return number(zigzag << 1)

    def _put(self, coded: bytes) -> None:
        self._of_chunk += coded
        self.count += 1
        if len(self._of_chunk) > CHUNK_BYTES - CHUNK.size - LONGEST_CALL:
            self.end_chunk()

    def end_chunk(self) -> None:
        if self._of_chunk:
            length = CHUNK.size + len(self._of_chunk)
            before = self._ticket_before
            self.chunks += CHUNK.pack(CALLS_MAGIC, length, 1, 1, 0, self._serial, 0, before, 0)
            self.chunks += self._of_chunk
        self._serial += 1
        self._of_chunk = b""
        self._address = 0
        self._ticket_before = self._tickets


def encoded(lines: Iterable[str], most: int, words: list[str]) -> bytes:
    """Chunks, as docs/internals/trace-format.md has them."""
    encoder = Encoder()
    for line in lines:
        if encoder.count == most:
            break
        encoder.add(line)
    encoder.end_chunk()
    process = struct.pack("<QQQ", 0, 0, 0) + b"".join(word.encode() + b"\0" for word in words)
    head = CHUNK.pack(PROCESS_MAGIC, CHUNK.size + len(process), 1, 1, 0, 0, 0, 0, 0)
    return head + process + encoder.chunks


def record(kept: Kept, packed: Path) -> None:
    text = kept.command.replace("{bench}", str(WRITTEN.parent))
    text = text.replace("{build}", str(ROOT / "build"))
    command = [sys.executable, "-m", "loft_malloc", "record", "-o", str(packed), "--"]
    ran = subprocess.Popen(
        [*command, *shlex.split(text)],
        env={**os.environ, **kept.environment},
        stdout=subprocess.DEVNULL,
    )
    if kept.beside:
        while subprocess.run(shlex.split(kept.beside), capture_output=True).returncode:
            time.sleep(0.5)
        subprocess.run(shlex.split(kept.behind), check=True, stdout=subprocess.DEVNULL)
    if ran.wait():
        raise UserError(f"{text.split()[0]} could not be recorded")


def make(name: str, kept: Kept) -> None:
    with tempfile.TemporaryDirectory(prefix="loft-kept-") as made:
        packed, chunks = Path(made) / "trace", Path(made) / "chunks"
        record(kept, packed)
        trace = trace_file.Trace.read(packed, chunks, lambda done, of: None)
        process = replay.pick(trace, replay.processes(trace, chunks), None)
        lines = replay.helper("loft-trace", trace, "calls", chunks, str(process.number))
        words = shlex.split(kept.command)[:1]
        with (KEPT / f"{name}.zst").open("wb") as file:
            header = {"command": words, "system": "", "machine": "", "libc": "", "loft": ""}
            writer = trace_file.Writer(file, {**header, "page_bytes": 4096, "time": 0}, LEVEL)
            writer.write(encoded(lines.splitlines(), kept.calls, words))
            writer.finish({"outcome": "exit", "code": 0, "seconds": 0.0})


def main(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    there = all_of_them()
    KEPT.mkdir(exist_ok=True)
    for name in names or there:
        if name not in there:
            raise UserError(f"no recording {name}; there are: {', '.join(there)}", 2)
        make(name, there[name])
        print(f"{name}: {(KEPT / f'{name}.zst').stat().st_size} bytes")


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        sys.exit(f"kept_recordings: {error}")
