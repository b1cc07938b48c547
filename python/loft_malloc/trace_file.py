"""The file that `loft record` writes and `loft replay` reads: docs/internals/trace-format.md."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import zstandard

from loft_malloc.errors import UserError

MAGIC = b"LOFT trace 1\n"
END = b"LOFT end\n"
# How long the last part is, and that it is the last.
TAIL = struct.Struct(f"<I{len(END)}s")
LEVEL = 3
PIECE = 1 << 20
LONGEST_HEADER = 1 << 20


class Writer:
    """Compresses what it is given as it comes, and keeps none of it."""

    def __init__(self, file: IO[bytes], header: dict[str, Any], level: int = LEVEL) -> None:
        self._file = file
        options = zstandard.ZstdCompressor(level=level, write_checksum=True)
        self._compressor = options.compressobj()
        # Of chunks.
        self.bytes_in = 0
        self._put(MAGIC + json.dumps(header).encode() + b"\n")

    def write(self, chunks: bytes) -> None:
        self.bytes_in += len(chunks)
        self._put(chunks)

    def finish(self, footer: dict[str, Any]) -> None:
        text = json.dumps(footer).encode()
        self._put(text + TAIL.pack(len(text), END))
        self._file.write(self._compressor.flush())
        self._file.flush()

    def _put(self, data: bytes) -> None:
        self._file.write(self._compressor.compress(data))


class Trace:
    """One that was read: what is known of it, and its chunks in a file of their own."""

    def __init__(self, path: Path, header: dict[str, Any], footer: dict[str, Any]) -> None:
        self.path = path
        self.header = header
        self.footer = footer

    @classmethod
    def read(cls, path: Path, chunks: Path, progress: Callable[[int, int], None]) -> Trace:
        """Uncompresses it into the file `chunks`; tells how much has been read, and of how much."""
        try:
            with path.open("rb") as packed, chunks.open("w+b") as plain:
                size = path.stat().st_size
                return cls(path, *_unpack(path, packed, plain, lambda done: progress(done, size)))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                said = f"{chunks.parent}: no space left to unpack {path}; set TMPDIR"
                raise UserError(said, 1) from None
            raise UserError(f"{path} cannot be read: {error.strerror}") from None


def _unpack(
    path: Path, packed: IO[bytes], plain: IO[bytes], progress: Callable[[int], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    pieces = _pieces(path, packed, progress)
    head = b""
    for piece in pieces:
        head += piece
        if not (head.startswith(MAGIC) or MAGIC.startswith(head)):
            break
        if head.find(b"\n", len(MAGIC)) >= 0 or len(head) > LONGEST_HEADER:
            break
    if not head.startswith(MAGIC):
        raise UserError(f"{path} is not a recording that this version of loft can read")
    line, _, rest = head[len(MAGIC) :].partition(b"\n")
    header = _json(path, line)
    words = header.get("command")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _damaged(path)
    plain.write(rest)
    for piece in pieces:
        plain.write(piece)
    end = plain.tell()
    plain.seek(max(0, end - TAIL.size))
    tail = plain.read()
    if len(tail) < TAIL.size or not tail.endswith(END):
        raise _incomplete(path)
    length, _ = TAIL.unpack(tail)
    if length > end - TAIL.size:
        raise _damaged(path)
    plain.seek(end - TAIL.size - length)
    footer = _json(path, plain.read(length))
    plain.truncate(end - TAIL.size - length)
    return header, footer


def _pieces(path: Path, packed: IO[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    while piece := packed.read(PIECE):
        if unpacker.eof:
            raise _damaged(path)
        try:
            yield unpacker.decompress(piece)
        except zstandard.ZstdError:
            raise _damaged(path) from None
        progress(packed.tell())
    if not unpacker.eof:
        raise _incomplete(path)
    if unpacker.unused_data:
        raise _damaged(path)


def _json(path: Path, text: bytes) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if not isinstance(told, dict):
        raise _damaged(path)
    return told


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged, or not a recording; record it again")


def _incomplete(path: Path) -> UserError:
    return UserError(f"{path} is incomplete: it was cut off, or `loft record` was; record it again")


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        # A write says what is wrong and not with which file.
        if error.filename not in (None, str(path)):
            raise
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
