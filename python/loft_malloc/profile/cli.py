"""What `loft profile` takes."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand

from loft_malloc import options
from loft_malloc.arguments import Settings, TyperException, check_seconds
from loft_malloc.errors import UserError
from loft_malloc.live.cli import Socket
from loft_malloc.profile import attached
from loft_malloc.profile import command as command_
from loft_malloc.profile.command import Shown
from loft_malloc.profile.launching import BYTES, Wanted
from loft_malloc.profile.top import Sort


def is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 12


class ProfileCommand(TyperCommand):
    """Behind a process's number, unlike behind a command, come options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" not in args:
            with suppress(TyperException):
                found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
                first: str = next(iter(found.get("command") or ()), "")
                ctx.allow_interspersed_args = is_number(first)
        return super().parse_args(ctx, args)


def profile(
    command: Annotated[
        Optional[list[str]], typer.Argument(metavar="CMD", show_default=False)
    ] = None,
    read: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="Show this profile, in place of a command's: pprof's format, or .collapsed.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Show what has changed since this profile."),
    ] = None,
    output_file: Annotated[
        Optional[Path],
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the profile with its names: .pb.gz for pprof, or .collapsed. "
            "Default: it is not kept.",
            show_default=False,
        ),
    ] = None,
    html_file: Annotated[
        Optional[Path],
        typer.Option("--html", metavar="FILE", help="Write a page with a flame graph, one file."),
    ] = None,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many functions are listed.")
    ] = 20,
    sort: Annotated[
        Sort,
        typer.Option(help="List by what functions hold themselves or with calls, or allocated."),
    ] = Sort.FLAT,
    stacks: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            min=0,
            help="How many of the stacks that hold most follow. Default: 3 with --leaks, else 0.",
            show_default=False,
        ),
    ] = None,
    bytes_: Annotated[
        str,
        typer.Option(
            "--bytes", metavar="BYTES", help="Take one sample in so many bytes, on average."
        ),
    ] = BYTES,
    leaks: Annotated[
        bool, typer.Option("--leaks", help="Show what nothing points to at the exit.")
    ] = False,
    peak: Annotated[
        bool,
        typer.Option(
            "--peak",
            help="Show the moment at which most was in use. That is the default for a command; a "
            "process is shown as it is now.",
        ),
    ] = False,
    exit_: Annotated[
        bool, typer.Option("--exit", help="Show what is still in use when the command exits.")
    ] = False,
    waste: Annotated[
        bool, typer.Option("--waste", help="Show what objects keep from being used by others.")
    ] = False,
    option: Settings = None,
    socket: Socket = None,
    seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Of a process that runs: show what changes in so long.",
            show_default=False,
        ),
    ] = 0,
    start: Annotated[
        bool,
        typer.Option("--start", help="Switch the profile on in a process that runs."),
    ] = False,
) -> None:
    """Run a command under loft and show which of its functions hold memory; or show a profile.

    The command keeps its terminal, its signals and its exit code; the list is printed on stderr
    at its end. A profile that is read is printed on stdout. So is that of a process that runs: a
    number in the place of CMD is one, if its loft has a socket (see loft top).
    """
    shown = Shown(top, sort, output_file, html_file, base, stacks)
    pid = int(command[0]) if command and is_number(command[0]) else None
    if pid is not None and len(command or []) > 1:
        raise UserError(f"{pid} names a process; only options can follow it")
    if read is None and (pid is not None or socket is not None):
        if leaks or waste or exit_ or option or (command and pid is None):
            raise UserError(
                "--leaks, --waste, --exit, --option and a command do not go with a running process"
            )
        check_seconds("--seconds", seconds)
        wanted_of_it = attached.Wanted(peak, seconds, start, bytes_)
        raise typer.Exit(attached.attach(pid, socket, wanted_of_it, shown))
    if seconds or start or socket is not None:
        raise UserError("--seconds, --start and --socket are for a running process; give its PID")
    if read is not None:
        if command:
            raise UserError("give a command or --read, not both")
        raise typer.Exit(command_.read(read, shown))
    if not command:
        raise UserError("give a command to profile, or --read and a profile")
    moments = {"leaks": leaks, "peak": peak, "exit": exit_, "waste": waste}
    asked = [moment for moment, is_asked in moments.items() if is_asked]
    if len(asked) > 1:
        raise UserError(f"give --{asked[0]} or --{asked[1]}, not both")
    options.check_bytes("--bytes", bytes_)
    at = {"exit": "on"}.get(asked[0], asked[0]) if asked else "peak"
    wanted = Wanted(bytes_, at, tuple(option or []))
    raise typer.Exit(command_.run(command, wanted, shown))
