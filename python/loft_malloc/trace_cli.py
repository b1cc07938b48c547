"""What `loft record` and `loft replay` take."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from loft_malloc import allocators, contestants, places, replay_command
from loft_malloc import record as record_command
from loft_malloc.arguments import Command, seconds, whole
from loft_malloc.errors import UserError


def record(
    command: Command,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="FILE", help="The recording.", show_default=False),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace FILE if it is there already.")
    ] = False,
) -> None:
    """Record every allocation call of a command to a file.

    CMD is a program and its arguments. It keeps this terminal, and its exit code is that of `loft
    record`. The processes that it starts are recorded too, each by itself. `loft replay` reads the
    file, which zstd compresses.
    """
    raise typer.Exit(record_command.record(command, out, force=force))


def replay(
    trace: Annotated[Path, typer.Argument(metavar="FILE", hidden=True, show_default=False)],
    with_: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="NAME,...",
            help="Which allocators: names or paths of libraries. Default: all that are found.",
            show_default=False,
        ),
    ] = "",
    runs: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=whole(1),
            help="How many runs under each allocator. Fewer than 6 cannot tell a difference from "
            "noise.",
        ),
    ] = 6,
    process: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            parser=whole(0),
            help="Which process of the recording. Default: the one with most calls.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            parser=whole(0),
            help="How many calls a thread may get ahead of another; 0 keeps the recorded order. "
            "Default: a thousandth of all calls, at most 1000.",
            show_default=False,
        ),
    ] = None,
    touch: Annotated[
        str,
        typer.Option(
            metavar="ends|pages|all",
            help="Which parts of each object to write when it is allocated and to check before it "
            "is freed.",
        ),
    ] = "pages",
    samples: Annotated[
        int, typer.Option(metavar="N", parser=whole(1), help="How often to measure memory.")
    ] = 200,
    timeout: Annotated[
        Optional[float],
        typer.Option(
            metavar="SECONDS",
            parser=seconds(0.001),
            help="Kill a run after this time. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Optional[Path],
        typer.Option("--json", metavar="FILE", help="Write all measurements as JSON."),
    ] = None,
    instructions: Annotated[
        bool,
        typer.Option(
            "--instructions",
            help="Count instructions exactly, in a slow extra run under valgrind.",
        ),
    ] = False,
    info: Annotated[
        bool, typer.Option("--info", help="Only say what is in the recording.")
    ] = False,
    calls: Annotated[
        bool, typer.Option("--calls", help="Only print the calls, one a line.")
    ] = False,
) -> None:
    """Replay a recording under each allocator and compare them.

    FILE is what `loft record` has written. Each recorded thread becomes a thread again and makes
    its calls in their order; one that frees what another allocates waits for it. Every object is
    filled and checked.

    The exit code is 1 if an allocator crashed or damaged an object, else 0.
    """
    if touch not in ("ends", "pages", "all"):
        raise UserError(f"--touch {touch}: ends, pages or all is needed")
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
