"""What several commands take."""

import math
from typing import Annotated

import typer

from loft_malloc.errors import UserError

# All that follows the command's name is the command's.
COMMAND_LAST = {"allow_interspersed_args": False}
# Much more is no number of seconds to the calls that wait.
MOST_SECONDS = 24 * 60 * 60
Settings = Annotated[
    list[str] | None,
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
