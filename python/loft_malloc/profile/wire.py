"""The wire format of protocol buffers, as much of it as profiles are made of.

A message is read field by field and never copied: the parts are views of what was read.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED_SIZE = {FIXED64: 8, FIXED32: 4}
# Seven bits in each byte: the tenth has the last one of 64.
MOST_BYTES = 10
MASK = (1 << 64) - 1


class WireError(Exception):
    """What is wrong with a message, in a few words."""


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The number and the value of each field, in their order in the message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError("a field has the number 0")
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in FIXED_SIZE:
            size = FIXED_SIZE[kind]
        else:
            raise WireError(f"field {number} is of the unknown kind {kind}")
        if size > len(data) - at:
            raise WireError(f"field {number} is longer than what is left")
        part = data[at : at + size]
        at += size
        yield number, part if kind == BYTES else int.from_bytes(part, "little")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number there, and where it ends."""
    value = shift = 0
    for position in range(at, min(at + MOST_BYTES, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & MASK, position + 1
        shift += 7
    raise WireError("a number has no end")


def number(value: int | memoryview) -> int:
    if isinstance(value, int):
        return value
    raise WireError("a number is needed where there are bytes")


def signed(value: int | memoryview) -> int:
    """An int64, which is written as the uint64 of the same bits."""
    bits = number(value)
    return bits - (1 << 64) if bits >> 63 else bits


def message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise WireError("bytes are needed where there is a number")
    return value


def numbers(value: int | memoryview) -> list[int]:
    """A repeated number: one of them, or all packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        byte = value[at]
        if byte < 0x80:
            found.append(byte)
            at += 1
        else:
            each, at = _varint(value, at)
            found.append(each)
    return found


def signeds(value: int | memoryview) -> list[int]:
    return [signed(each) for each in numbers(value)]


class Writer:
    """A message that is being written. What is 0 or empty is left out, as readers expect."""

    def __init__(self) -> None:
        self.data = bytearray()

    def _put(self, value: int) -> None:
        value &= MASK
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def number(self, field: int, value: int) -> None:
        if value:
            self._put(field << 3 | VARINT)
            self._put(value)

    def bytes(self, field: int, value: bytes | bytearray) -> None:
        """Also if they are empty: the first string of a table is."""
        self._put(field << 3 | BYTES)
        self._put(len(value))
        self.data += value

    def packed(self, field: int, values: list[int]) -> None:
        if values:
            inner = Writer()
            for value in values:
                inner._put(value)
            self.bytes(field, inner.data)

    def message(self, field: int, inner: Writer) -> None:
        self.bytes(field, inner.data)
