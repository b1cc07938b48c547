"""The command lines of what asks a process by its socket."""

from pathlib import Path
from typing import Annotated

import typer

Socket = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Ask at this socket. Default: the process's own, which is looked for.",
        show_default=False,
    ),
]
