"""Files that a command is to write."""

from pathlib import Path

from loft.errors import UserError


def check(path: Path) -> None:
    """Before anything is run: nobody wants to learn it after an hour of measuring."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file to write")
    try:
        with path.open("a"):
            pass
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
