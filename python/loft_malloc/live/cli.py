"""The command lines of `loft top` and `loft map`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from loft_malloc import extras
from loft_malloc.arguments import seconds, whole
from loft_malloc.errors import UserError
from loft_malloc.live import top_command
from loft_malloc.map import command as map_command

# Between two readings.
LEAST_S, MOST_S = 0.05, 3600.0
Pid = Annotated[
    Optional[int],
    typer.Argument(metavar="PID", parser=whole(1), hidden=True, show_default=False),
]
Socket = Annotated[
    Optional[Path],
    typer.Option(
        metavar="PATH",
        help="Use this socket. Default: the one that the process has opened.",
        show_default=False,
    ),
]


def top(
    pid: Pid = None,
    socket: Socket = None,
    interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=seconds(LEAST_S, MOST_S),
            help="How long to wait between two readings.",
        ),
    ] = 1.0,
    sort: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help="Sort the size classes by this column.", show_default=False
        ),
    ] = "",
    once: Annotated[
        bool, typer.Option("--once", help="Print the screen once, as text, and exit.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one reading as JSON.")] = False,
) -> None:
    """Watch the heap of a running process.

    Shows how much of the process's memory is the heap's, and what that is used for, over time. The
    process has to run under loft with a socket: LOFT_SOCKET=/run/user/1000/loft.%p. Without PID,
    lists the processes that have one; if there is only one, watches it. Press `?` for the keys.
    """
    wanted = top_command.Wanted(interval, once, json, sort)
    raise typer.Exit(top_command.top(pid, socket, wanted))


def map_(
    pid: Pid = None,
    socket: Socket = None,
    read: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="Draw this map, which --save has written, instead of a process.",
            show_default=False,
        ),
    ] = None,
    output_file: Annotated[
        Optional[Path],
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a page. Default, without --png and --save: map.PID.html.",
            show_default=False,
        ),
    ] = None,
    png: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="Write a picture.", show_default=False)
    ] = None,
    save: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Write the map itself, for --read.", show_default=False),
    ] = None,
) -> None:
    """Draw the heap of a running process by address.

    Writes a page, one file, that shows which addresses are in use, free or not resident, and how
    much each size class wastes; and prints a summary. The process needs a socket, as for `loft
    top`.
    """
    if read is not None and (pid is not None or socket is not None):
        raise UserError("give a process or --read, not both")
    if read is None and pid is None and socket is None:
        raise UserError("give a PID, --socket, or --read and a map")
    if png is not None:
        extras.need_charts("--png")
    wanted = map_command.Wanted(output_file, png, save)
    raise typer.Exit(map_command.draw(pid, socket, read, wanted))
