"""What `loft record` and `loft replay` take."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from loft_malloc import allocators, contestants, places, replay_command
from loft_malloc import record as record_command
from loft_malloc.arguments import Command, check_seconds
from loft_malloc.errors import UserError


def record(
    command: Command,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="FILE", help="The trace.", show_default=False),
    ],
) -> None:
    """Run a command and write every allocation call of it to a file, for `loft replay`.

    The command keeps this terminal, and its exit code is this one's. All that it starts is
    recorded too, each process by itself. The trace is compressed by zstd.
    """
    raise typer.Exit(record_command.record(command, out))


def replay(
    trace: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    with_: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="NAME,...",
            help="The allocators, by name or as paths of libraries. Default: all that are found.",
            show_default=False,
        ),
    ] = "",
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Rounds under each.")] = 6,
    process: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            help="Which process of the trace. Default: the one with most calls.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            min=0,
            help="How many calls a thread may be ahead of another; 0 for the recorded order. "
            "Default: a thousandth of all, 1000 at most.",
            show_default=False,
        ),
    ] = None,
    touch: Annotated[
        str,
        typer.Option(
            metavar="ends|pages|all",
            help="What is written into each object, and looked at before it is freed.",
        ),
    ] = "pages",
    samples: Annotated[
        int, typer.Option(metavar="N", min=1, help="How often memory is looked at.")
    ] = 200,
    timeout: Annotated[
        Optional[float],
        typer.Option(
            metavar="SECONDS",
            help="End a run after so long. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Optional[Path],
        typer.Option("--json", metavar="FILE", help="Write everything measured as JSON."),
    ] = None,
    instructions: Annotated[
        bool,
        typer.Option(
            "--instructions",
            help="Count instructions one by one, under valgrind, in a run that takes long.",
        ),
    ] = False,
    info: Annotated[
        bool, typer.Option("--info", help="Say what is in the trace, and replay nothing.")
    ] = False,
    calls: Annotated[
        bool, typer.Option("--calls", help="Print the calls, a line for each, and replay nothing.")
    ] = False,
) -> None:
    """Make the calls of a trace again under each allocator, and compare.

    Each recorded thread is a thread again, and makes its calls in their order; who frees what
    another thread allocates waits for it. Every object is stamped, and the stamps are checked.

    The exit code is 1 if an allocator crashed, or an object was damaged under it, else 0.
    """
    if touch not in ("ends", "pages", "all"):
        raise UserError(f"--touch {touch}: ends, pages or all is needed")
    if timeout is not None and timeout <= 0:
        raise UserError(f"--timeout {timeout:g}: a number of seconds above 0 is needed")
    check_seconds("--timeout", timeout or 0)
    if info:
        raise typer.Exit(replay_command.show_info(trace, process, json_file))
    if calls:
        raise typer.Exit(replay_command.show_calls(trace, process))
    there = allocators.found(allocators.library_folders(), places.PEERS)
    picked = contestants.chosen([with_] if with_ else [], there)
    request = replay_command.Request(
        trace,
        picked,
        process,
        runs,
        window,
        touch,
        samples,
        timeout,
        instructions,
        json_file,
    )
    raise typer.Exit(replay_command.run(request))
