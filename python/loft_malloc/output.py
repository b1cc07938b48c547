"""Files that a command is to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loft_malloc.errors import UserError


def check(path: Path) -> None:
    """Before anything is run: nobody wants to learn it after an hour of measuring."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file to write")
    with writing(path), path.open("a"):
        pass


def check_all(paths: Iterable[Path | None]) -> None:
    """The same for those that are to be written."""
    for path in paths:
        if path is not None:
            check(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Says what went wrong with the file, in one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None
