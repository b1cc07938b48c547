"""What `loft profile` takes."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand

from loft_malloc import options
from loft_malloc.arguments import Settings, TyperException, example, whole
from loft_malloc.arguments import seconds as number_of_seconds
from loft_malloc.errors import UserError
from loft_malloc.live.cli import Socket
from loft_malloc.profile import attached
from loft_malloc.profile import command as command_
from loft_malloc.profile.command import Shown
from loft_malloc.profile.launching import BYTES, Wanted
from loft_malloc.profile.top import Sort

EXAMPLES = example(
    "loft profile -- program",
    "loft profile --html page.html -- program      with a flame graph",
    "loft profile --leaks -- program",
    "loft profile 1234 --seconds 30                what grows in a running process",
    "loft profile --read new.pb.gz --base old.pb.gz",
)


def is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 12


class ProfileCommand(TyperCommand):
    """Options may follow a process's number, but not a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" not in args:
            with suppress(TyperException):
                found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
                first: str = next(iter(found.get("command") or ()), "")
                ctx.allow_interspersed_args = is_number(first)
        return super().parse_args(ctx, args)


def profile(
    command: Annotated[
        Optional[list[str]], typer.Argument(metavar="CMD|PID", hidden=True, show_default=False)
    ] = None,
    read: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="Show this file: a profile in pprof's format, or .collapsed.",
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
            help="Keep the profile, with function names: .pb.gz for pprof, or .collapsed. "
            "Default: it is not kept.",
            show_default=False,
        ),
    ] = None,
    html_file: Annotated[
        Optional[Path],
        typer.Option(
            "--html", metavar="FILE", help="Write a page with a flame graph, in one file."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(metavar="N", parser=whole(1), help="How many functions to list.")
    ] = 20,
    sort: Annotated[
        Sort,
        typer.Option(
            help="Sort by what a function holds itself (flat) or with what it calls (cum), or by "
            "what it allocated in the same two ways.",
        ),
    ] = Sort.FLAT,
    stacks: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            parser=whole(0),
            help="Show so many stacks after the list, largest first. Default: 3 with --leaks, "
            "else 0.",
            show_default=False,
        ),
    ] = None,
    bytes_: Annotated[
        str,
        typer.Option(
            "--bytes",
            metavar="BYTES",
            help="Allocated bytes from one sample to the next, on average.",
        ),
    ] = BYTES,
    leaks: Annotated[
        bool, typer.Option("--leaks", help="Show what nothing points to any more at the exit.")
    ] = False,
    peak: Annotated[
        bool,
        typer.Option(
            "--peak",
            help="Show the moment at which most was in use: the default for a command. The default "
            "for a running process is now.",
        ),
    ] = False,
    exit_: Annotated[
        bool, typer.Option("--exit", help="Show what is still in use when the command exits.")
    ] = False,
    waste: Annotated[
        bool,
        typer.Option(
            "--waste", help="Show whose objects hold on to memory that is otherwise free."
        ),
    ] = False,
    option: Settings = None,
    socket: Socket = None,
    seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=number_of_seconds(),
            help="Of a running process, show what changes in this time.",
            show_default=False,
        ),
    ] = 0,
    start: Annotated[
        bool,
        typer.Option("--start", help="Switch profiling on in a running process."),
    ] = False,
) -> None:
    """Show which functions hold memory, in a command or a process.

    CMD is a program and its arguments. It runs under loft and keeps its terminal, its signals and
    its exit code; when it ends, the list goes to stderr. PID is a running process with a socket, as
    for `loft top`; its list goes to stdout, and so does that of --read.
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
        wanted_of_it = attached.Wanted(peak, seconds, start, bytes_)
        raise typer.Exit(attached.attach(pid, socket, wanted_of_it, shown))
    if seconds or start or socket is not None:
        raise UserError("--seconds, --start and --socket are for a running process; give its PID")
    if read is not None:
        if command:
            raise UserError("give a command or --read, not both")
        raise typer.Exit(command_.read(read, shown))
    if not command:
        raise UserError("give a command, a PID, or --read and a profile")
    moments = {"leaks": leaks, "peak": peak, "exit": exit_, "waste": waste}
    asked = [moment for moment, is_asked in moments.items() if is_asked]
    if len(asked) > 1:
        raise UserError(f"give --{asked[0]} or --{asked[1]}, not both")
    options.check_bytes("--bytes", bytes_)
    at = {"exit": "on"}.get(asked[0], asked[0]) if asked else "peak"
    wanted = Wanted(bytes_, at, tuple(option or []))
    raise typer.Exit(command_.run(command, wanted, shown))
