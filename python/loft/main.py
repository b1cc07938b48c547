"""The command line of `loft`."""

import math
import os
import shlex
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from loft import (
    allocators,
    compare_command,
    contestants,
    doctor_command,
    env_command,
    options,
    places,
    program,
    replay_command,
)
from loft import record as record_command
from loft import run as run_command
from loft.comparison import Plan
from loft.errors import UserError
from loft.live import cli as live_cli
from loft.load import Load
from loft.printable import printable
from loft.profile import attached
from loft.profile import command as profile_command
from loft.profile.command import Shown
from loft.profile.launching import BYTES, Wanted
from loft.profile.top import Sort

app = typer.Typer(
    name="loft",
    help="Run programs under the loft memory allocator, and compare allocators.",
    add_completion=False,
    rich_markup_mode=None,
    # Errors are one line, see main() below.
    pretty_exceptions_enable=False,
)
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
Owner = Annotated[
    str,
    typer.Option(
        metavar="|".join(options.OPTIONS["owner"].choices),
        help="Who holds caches and slabs: the option `owner`.",
        show_default=False,
    ),
]
OPTIONS_EPILOG = "Options of loft:\n\n\b\n" + options.table()
Command = Annotated[list[str], typer.Argument(metavar="CMD", show_default=False)]


def check_seconds(option: str, value: float) -> None:
    if not math.isfinite(value) or value > MOST_SECONDS:
        raise UserError(
            f"{option} {value:g}: a number of seconds is needed, at most {MOST_SECONDS} (a day)"
        )


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


def all_settings(settings: list[str] | None, owner: str) -> list[str]:
    return [*(settings or []), *([f"owner={owner}"] if owner else [])]


@app.command(context_settings=COMMAND_LAST, epilog=OPTIONS_EPILOG)
def run(command: Command, option: Settings = None, owner: Owner = "") -> None:
    """Run a command under loft.

    The command takes this process's place: its signals and its exit code are its own. What
    LD_PRELOAD names already stays, behind loft.
    """
    run_command.run(command, all_settings(option, owner))


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
        list[str] | None,
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
        float | None,
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
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=65535,
            help="Where the server of --load listens. Default: found among its sockets.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write everything measured as JSON."),
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the tables as CSV.")
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with charts, one file."),
    ] = None,
    stats_file: Annotated[
        Path | None,
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


def client_of(text: str, port: int | None) -> Load | None:
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


@app.command(context_settings=COMMAND_LAST)
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


@app.command()
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
        int | None,
        typer.Option(
            metavar="N",
            help="Which process of the trace. Default: the one with most calls.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        int | None,
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
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="End a run after so long. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
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


@app.command(context_settings=COMMAND_LAST)
def doctor(
    command: Annotated[list[str] | None, typer.Argument(metavar="CMD", show_default=False)] = None,
    pid: Annotated[
        int | None,
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


def is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 12


class ProfileCommand(TyperCommand):
    """Behind a process's number, unlike behind a command, come options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" not in args:
            with suppress(typer.TyperException):
                found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
                first: str = next(iter(found.get("command") or ()), "")
                ctx.allow_interspersed_args = is_number(first)
        return super().parse_args(ctx, args)


@app.command(context_settings=COMMAND_LAST, cls=ProfileCommand)
def profile(
    command: Annotated[list[str] | None, typer.Argument(metavar="CMD", show_default=False)] = None,
    read: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Show this profile, in place of a command's: pprof's format, or .collapsed.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show what has changed since this profile."),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the profile with its names: .pb.gz for pprof, or .collapsed. "
            "Default, of a command: heap.PID.pb.gz.",
            show_default=False,
        ),
    ] = None,
    html_file: Annotated[
        Path | None,
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
        int | None,
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
        bool, typer.Option("--peak", help="Show the moment at which most was in use.")
    ] = False,
    waste: Annotated[
        bool, typer.Option("--waste", help="Show what objects keep from being used by others.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Set an option of loft; may be given again."),
    ] = None,
    socket: live_cli.Socket = None,
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
        raise UserError(f"{pid} is taken for a process, and nothing can follow it but options")
    if read is None and (pid is not None or socket is not None):
        if leaks or option or (command and pid is None):
            raise UserError("--leaks, --option and a command are of no use to a process that runs")
        check_seconds("--seconds", seconds)
        wanted_of_it = attached.Wanted(peak, seconds, start, bytes_)
        raise typer.Exit(attached.attach(pid, socket, wanted_of_it, shown))
    if seconds or start or socket is not None:
        raise UserError(
            "--seconds, --start and --socket are of a process that runs; give its number"
        )
    if read is not None:
        if command:
            raise UserError("give a command or --read, not both")
        raise typer.Exit(profile_command.read(read, shown))
    if not command:
        raise UserError("give a command to profile, or --read and a profile")
    moments = {"leaks": leaks, "peak": peak, "waste": waste}
    asked = [moment for moment, is_asked in moments.items() if is_asked]
    if len(asked) > 1:
        raise UserError(f"give --{asked[0]} or --{asked[1]}, not both")
    options.check_bytes("--bytes", bytes_)
    wanted = Wanted(bytes_, asked[0] if asked else "exit", tuple(option or []))
    raise typer.Exit(profile_command.run(command, wanted, shown))


app.command()(live_cli.top)
app.command("map")(live_cli.map_)

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_with_cleanup(number: int, frame: FrameType | None) -> None:
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
    except typer.TyperException as error:
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
        print(f"loft: {printable(complaint)}", file=sys.stderr)
    end_without_flushing(code)


def end_without_flushing(code: int) -> NoReturn:
    """What could not be written is not tried again at the end, with a second complaint."""
    with suppress(OSError, AttributeError):
        sys.stdout.flush()
        sys.exit(code)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
