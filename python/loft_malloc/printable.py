"""Names and arguments are bytes to the system, and need not be text in any encoding."""

from __future__ import annotations


def printable(text: str) -> str:
    """What a terminal and a file take: a mark in place of each byte that is no UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def one_line(text: str) -> str:
    """As a terminal shows it in place: names from elsewhere may hold what would steer it."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
