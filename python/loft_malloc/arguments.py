"""What several commands take."""

import math
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from loft_malloc.errors import UserError

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
        "--option", metavar="NAME=VALUE", help="Set an option of loft; may be given again."
    ),
]
Command = Annotated[list[str], typer.Argument(metavar="CMD", show_default=False)]


def check_seconds(option: str, value: float) -> None:
    if not math.isfinite(value) or value > MOST_SECONDS:
        raise UserError(
            f"{option} {value:g}: a number of seconds is needed, at most {MOST_SECONDS} (a day)"
        )
