"""The command lines of `loft top` and `loft map`."""

import math
from pathlib import Path
from typing import Annotated, Optional

import typer

from loft_malloc import extras
from loft_malloc.errors import UserError
from loft_malloc.live import top_command
from loft_malloc.map import command as map_command

Pid = Annotated[Optional[int], typer.Argument(metavar="PID", min=1, show_default=False)]
Socket = Annotated[
    Optional[Path],
    typer.Option(
        metavar="PATH",
        help="Ask at this socket. Default: the process's own, which is looked for.",
        show_default=False,
    ),
]
# Between two readings.
LEAST_S, MOST_S = 0.05, 3600.0


def top(
    pid: Pid = None,
    socket: Socket = None,
    interval: Annotated[float, typer.Option(metavar="SECONDS", help="Between two readings.")] = 1.0,
    sort: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Sort size classes by it.", show_default=False),
    ] = "",
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame as text, as into a pipe.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one reading as JSON.")] = False,
) -> None:
    """Watch the heap of a running process: its memory by what it is used for, over time.

    The process has to run under loft with a socket: LOFT_SOCKET=/run/user/1000/loft.%p. Without
    PID, this lists the processes that have one, or watches the one that has. `?` shows the keys.
    """
    if not math.isfinite(interval) or not LEAST_S <= interval <= MOST_S:
        raise UserError(
            f"--interval {interval:g}: a number of seconds from {LEAST_S} to {MOST_S:g}"
        )
    wanted = top_command.Wanted(interval, once, json, sort)
    raise typer.Exit(top_command.top(pid, socket, wanted))


def map_(
    pid: Pid = None,
    socket: Socket = None,
    read: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="Draw this map, as --save has written it, in place of a process's.",
            show_default=False,
        ),
    ] = None,
    output_file: Annotated[
        Optional[Path],
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The page. Default, without --png and --save: map.PID.html.",
            show_default=False,
        ),
    ] = None,
    png: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="Write a picture.", show_default=False)
    ] = None,
    save: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Write what the process told.", show_default=False),
    ] = None,
) -> None:
    """Draw where the slabs of a running process lie, how full they are, and what each class wastes.

    The page is one file that loads nothing. A summary is printed.
    """
    if read is not None and (pid is not None or socket is not None):
        raise UserError("give a process or --read, not both")
    if read is None and pid is None and socket is None:
        raise UserError("give a process's number, --socket, or --read and a map")
    if png is not None:
        extras.need_charts("--png")
    wanted = map_command.Wanted(output_file, png, save)
    raise typer.Exit(map_command.draw(pid, socket, read, wanted))
