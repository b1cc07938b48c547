"""Names and arguments are bytes to the system, and need not be text in any encoding."""


def printable(text: str) -> str:
    """What a terminal and a file take: a mark in place of each byte that is no UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
