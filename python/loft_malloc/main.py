"""The command line of `loft`."""

import os
import shlex
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn, Optional

import typer

from loft_malloc import (
    allocators,
    compare_command,
    contestants,
    doctor_command,
    env_command,
    explain,
    extras,
    options,
    places,
    program,
    trace_cli,
)
from loft_malloc import run as run_command
from loft_malloc.arguments import COMMAND_LAST, Command, Settings, TyperException, check_seconds
from loft_malloc.comparison import Plan
from loft_malloc.errors import UserError
from loft_malloc.live import cli as live_cli
from loft_malloc.load import Load
from loft_malloc.printable import one_line
from loft_malloc.profile import cli as profile_cli

app = typer.Typer(
    name="loft",
    help="Run programs under the loft memory allocator, and compare allocators.",
    add_completion=False,
    rich_markup_mode=None,
    # Errors are one line, see main() below.
    pretty_exceptions_enable=False,
)
Owner = Annotated[
    str,
    typer.Option(
        metavar="|".join(options.OPTIONS["owner"].choices),
        help="Who holds caches and slabs: the option `owner`.",
        show_default=False,
    ),
]
OPTIONS_EPILOG = "Options of loft:\n\n\b\n" + options.table()


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"loft {places.version()} ({places.library()})")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=show_version,
            is_eager=True,
            help="Show the version and where the library is.",
        ),
    ] = False,
) -> None:
    pass


def all_settings(settings: Optional[list[str]], owner: str) -> list[str]:
    return [*(settings or []), *([f"owner={owner}"] if owner else [])]


@app.command(context_settings=COMMAND_LAST, epilog=OPTIONS_EPILOG)
def run(
    command: Command,
    option: Settings = None,
    owner: Owner = "",
    bounds: Annotated[
        bool,
        typer.Option(
            "--bounds",
            help="Stop the command where memcpy, strcpy and the like reach beyond an object.",
        ),
    ] = False,
) -> None:
    """Run a command under loft.

    The command takes this process's place: its signals and its exit code are its own. What
    LD_PRELOAD names already stays, behind loft.
    """
    run_command.run(command, all_settings(option, owner), bounds)


@app.command()
def path() -> None:
    """Print the path of the library, for LD_PRELOAD, a linker or an image."""
    print(places.library())


@app.command(epilog=OPTIONS_EPILOG)
def env(
    option: Settings = None,
    owner: Owner = "",
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(env_command.FORMS),
            help="plain for an EnvironmentFile of systemd and for docker --env-file, shell for "
            "eval, systemd for a drop-in of a unit, docker for a Dockerfile.",
        ),
    ] = "plain",
    library: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Where the library is on the machine or in the image that these lines are for. "
            "Default: where it is here.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Print the variables that put a program under loft."""
    form = next((form for form in env_command.FORMS if form == format_), None)
    if form is None:
        raise UserError(f"--format {format_}: accepted is {', '.join(env_command.FORMS)}")
    for line in env_command.env(all_settings(option, owner), form, library):
        print(line)


@app.command(context_settings=COMMAND_LAST)
def compare(
    command: Command,
    with_: Annotated[
        Optional[list[str]],
        typer.Option(
            "--with",
            metavar="NAME[:KEY=VALUE[;...]],...",
            help="The allocators, by name or as paths of libraries, and what is set for each: "
            "options of loft, variables for the others. May be given again. Default: all that are "
            "found.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Timed runs under each allocator.")
    ] = 10,
    timeout: Annotated[
        Optional[float],
        typer.Option(
            metavar="SECONDS",
            help="End a run, and all that it started, after so long. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    tail: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Hold the command so long at its end while memory is watched, to see what an "
            "idle process keeps.",
        ),
    ] = 0,
    load: Annotated[
        str,
        typer.Option(
            metavar="'CLIENT ...'",
            help="CMD is a server: start it, run this client when it listens, then stop it. "
            "{port} is where it listens.",
            show_default=False,
        ),
    ] = "",
    port: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            min=1,
            max=65535,
            help="Where the server of --load listens. Default: found among its sockets.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Optional[Path],
        typer.Option("--json", metavar="FILE", help="Write everything measured as JSON."),
    ] = None,
    csv_file: Annotated[
        Optional[Path], typer.Option("--csv", metavar="FILE", help="Write the tables as CSV.")
    ] = None,
    html_file: Annotated[
        Optional[Path],
        typer.Option("--html", metavar="FILE", help="Write a page with charts, one file."),
    ] = None,
    stats_file: Annotated[
        Optional[Path],
        typer.Option(
            "--stats",
            metavar="FILE",
            help="Write loft's own statistics as JSON, from one run more of each row of loft.",
        ),
    ] = None,
    show_output: Annotated[
        bool, typer.Option("--show-output", help="Let the command write to this terminal.")
    ] = False,
) -> None:
    """Run a command under each allocator and compare.

    After a warm-up the allocators take turns, so that a change of the machine's mood meets all of
    them. Instructions, cycles and memory over time are taken in passes of their own, which do not
    disturb the timed runs. The command reads nothing (/dev/null), and what it writes is dropped.

    The exit code is the command's if it was the same under every allocator, else 1. What the
    command leaves running at its end is ended.
    """
    if timeout is not None and timeout <= 0:
        raise UserError(f"--timeout {timeout:g}: a number of seconds above 0 is needed")
    check_seconds("--timeout", timeout or 0)
    check_seconds("--tail", tail)
    files = compare_command.Files(json_file, csv_file, html_file, stats_file)
    if html_file is not None:
        extras.need_charts("--html")
    program.check(command)
    there = allocators.found(allocators.library_folders(), places.PEERS)
    picked = contestants.chosen(with_ or [], there)
    plan = Plan(
        command,
        picked,
        runs,
        timeout,
        tail,
        show_output,
        stats_file is not None,
        client_of(load, port),
    )
    raise typer.Exit(compare_command.compare(plan, files))


def client_of(text: str, port: Optional[int]) -> Optional[Load]:
    if not text:
        if port is not None:
            raise UserError("--port is that of a server; give its client with --load")
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--load {text}: {error}; quote as in a shell") from None
    if not words:
        raise UserError("--load: a command is needed")
    program.find(words[0])
    return Load(words, port)


app.command(context_settings=COMMAND_LAST)(trace_cli.record)
app.command()(trace_cli.replay)


@app.command(context_settings=COMMAND_LAST)
def doctor(
    command: Annotated[
        Optional[list[str]], typer.Argument(metavar="CMD", show_default=False)
    ] = None,
    pid: Annotated[
        Optional[int],
        typer.Option(metavar="PID", help="Look at this running process too.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Look at this machine, and at a command or a process, for what matters to loft.

    Each line is ok, a note or a warning, with its value, why it matters and what to do about it.
    The exit code is 1 if something keeps loft from working, else 0.
    """
    if command and pid is not None:
        raise UserError("give a command or --pid, not both")
    raise typer.Exit(doctor_command.doctor(command or [], pid, as_json=json))


app.command(context_settings=COMMAND_LAST, cls=profile_cli.ProfileCommand)(profile_cli.profile)


@app.command("explain")
def explain_(
    file: Annotated[str, typer.Argument(metavar="FILE", show_default=False)],
) -> None:
    """Show reports of misuse with functions and source lines in place of addresses.

    FILE is what the option report_file has written, or the standard error of a program; - reads
    the standard input. Lines that belong to no report are shown as they are.
    """
    raise typer.Exit(explain.explain(file))


app.command()(live_cli.top)
app.command("map")(live_cli.map_)

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_with_cleanup(number: int, frame: Optional[FrameType]) -> None:
    """As an exception, so that whoever has started processes ends them, undisturbed by a second."""
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


# With it in the environment, an error of loft's own is shown with the way to it.
TRACE = "LOFT_TRACE"
INTERNAL_ERROR = 70


def main() -> None:
    for number in ENDING:
        # What is ignored already, as under nohup, is to stay so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end_with_cleanup)
    for stream in (sys.stdout, sys.stderr):
        # A terminal may lack a character, such as that of micro.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(code)
    except TyperException as error:
        message = error.format_message().rstrip(".")
        complaint, code = f"{message}; see loft --help", error.exit_code
    except UserError as error:
        complaint, code = str(error), error.exit_code
    except BrokenPipeError:
        # Whoever read has what it wanted.
        complaint, code = "", 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complaint, code = f"{where}{error.strerror or error}", 1
    except Exception as error:
        if TRACE in os.environ:
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        complaint = f"an error of loft's own, {what}; with {TRACE}=1 it says where"
        code = INTERNAL_ERROR
    if complaint:
        # One line, whatever the user's own words are that it repeats.
        print(f"loft: {one_line(complaint)}", file=sys.stderr)
    end_without_flushing(code)


def end_without_flushing(code: int) -> NoReturn:
    """What could not be written is not tried again at the end, with a second complaint."""
    with suppress(OSError, AttributeError):
        sys.stdout.flush()
        sys.exit(code)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
