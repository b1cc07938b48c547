"""What several commands take."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Optional

import typer

# Until 0.26 it was another package's. The last typer for Python 3.9 is 0.23.
if TYPE_CHECKING or hasattr(typer, "TyperException"):
    from typer import TyperException as TyperException
else:
    import click

    TyperException = click.ClickException

# All that follows the command's name is the command's.
COMMAND_LAST = {"allow_interspersed_args": False}
# Much more is no number of seconds to the calls that wait.
MOST_SECONDS = 24 * 60 * 60
Settings = Annotated[
    Optional[list[str]],
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Set an option of loft. Repeat it to set several; `loft run --help` lists them.",
    ),
]
# The usage line names it, and each command's text says what it is.
Command = Annotated[list[str], typer.Argument(metavar="CMD", hidden=True, show_default=False)]


def whole(least: int, most: Optional[int] = None) -> Callable[[str], int]:
    """A number on a command line, and what is wrong with it in plain words."""
    wanted = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parsed(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise typer.BadParameter(f"{text!r} is not a whole number {wanted}")
        return number

    return parsed


def seconds(least: float = 0, most: float = MOST_SECONDS) -> Callable[[str], float]:
    def parsed(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1
        # Not so of what is no number at all: nan.
        if not least <= number <= most:
            raise typer.BadParameter(
                f"{text!r} is not a number of seconds from {least:g} to {most:g}"
            )
        return number

    return parsed


def example(*lines: str) -> str:
    """The end of a help text, whose lines stay as they are."""
    return "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in lines)
