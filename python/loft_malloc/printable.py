"""Text for a terminal. Names and arguments are bytes to the system, in whatever encoding."""

from __future__ import annotations


def printable(text: str) -> str:
    """What a terminal and a file take: a mark in place of each byte that is no UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def counted(number: int, one: str, many: str = "") -> str:
    """1 slab, 2,000 slabs."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def one_line(text: str) -> str:
    """As a terminal shows it in place: names from elsewhere may hold what would steer it."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
