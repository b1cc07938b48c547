"""The command line of `loft`."""

import errno
import os
import re
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
from loft_malloc.arguments import (
    COMMAND_LAST,
    Command,
    Settings,
    TyperException,
    example,
    seconds,
    whole,
)
from loft_malloc.comparison import Plan
from loft_malloc.errors import UserError
from loft_malloc.live import cli as live_cli
from loft_malloc.load import Load
from loft_malloc.printable import one_line
from loft_malloc.profile import cli as profile_cli

# A limit of no time at all would end every run.
MIN_SECONDS = 0.001

app = typer.Typer(
    name="loft",
    help="Run programs under the loft memory allocator, compare allocators, and see where memory "
    "goes.",
    epilog=example(
        "loft run -- program                    under loft, as it is",
        "loft compare -- program                time and memory under every allocator",
        "loft profile --html p.html -- program  which functions hold memory",
        "loft top                               the heap of a running process",
    )
    + "\n\n`loft COMMAND --help` has the options of each.",
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode=None,
    # Errors are one line, see main() below.
    pretty_exceptions_enable=False,
)
Owner = Annotated[
    str,
    typer.Option(
        metavar="|".join(options.OPTIONS["owner"].choices),
        help="Short for --option owner=...: who owns caches and slabs.",
        show_default=False,
    ),
]
RUN_EPILOG = (
    example(
        "loft run -- program --its-own-options",
        "loft run --owner cpu --option stats=text -- program",
        "loft run --option socket=/run/user/1000/loft.%p -- server",
    )
    + "\n\nOptions of loft, for --option, or in the environment as in LOFT_STATS=text:\n\n\b\n"
    + options.table()
)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"loft {places.version()} ({places.library()})")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
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
    if context.invoked_subcommand is None:
        print(context.get_help())


def all_settings(settings: Optional[list[str]], owner: str) -> list[str]:
    return [*(settings or []), *([f"owner={owner}"] if owner else [])]


@app.command(context_settings=COMMAND_LAST, epilog=RUN_EPILOG)
def run(
    command: Command,
    option: Settings = None,
    owner: Owner = "",
    bounds: Annotated[
        bool,
        typer.Option(
            "--bounds",
            help="Stop the command when memcpy, strcpy or the like go past the end of an object.",
        ),
    ] = False,
) -> None:
    """Run a command under loft.

    CMD is a program and its arguments. It replaces the loft process, so its signals and its exit
    code are its own. Libraries that LD_PRELOAD already names stay, after loft.
    """
    run_command.run(command, all_settings(option, owner), bounds)


@app.command(epilog=example("LD_PRELOAD=$(loft path) program"))
def path() -> None:
    """Print where the library is, for LD_PRELOAD or a linker."""
    print(places.library())


@app.command(
    epilog=example(
        'eval "$(loft env --format shell)"',
        "loft env --owner cpu > loft.env; docker run --env-file loft.env IMAGE",
        "loft env --format systemd > /etc/systemd/system/NAME.service.d/loft.conf",
    )
)
def env(
    option: Settings = None,
    owner: Owner = "",
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(env_command.FORMS),
            help="Who reads the output. plain: systemd's EnvironmentFile= and docker --env-file; "
            "shell: eval; systemd: a drop-in of a unit; docker: a Dockerfile.",
        ),
    ] = "plain",
    library: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Where the library is on the machine or in the image that reads the output. "
            "Default: where it is here.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Print the environment variables that put a program under loft."""
    form = next((form for form in env_command.FORMS if form == format_), None)
    if form is None:
        raise UserError(f"--format {format_}: expected {', '.join(env_command.FORMS)}")
    for line in env_command.env(all_settings(option, owner), form, library):
        print(line)


@app.command(
    context_settings=COMMAND_LAST,
    epilog=example(
        "loft compare -- program",
        "loft compare --with 'glibc,loft,loft:owner=cpu' --html page.html -- program",
        "loft compare --load 'wrk -d 5 http://127.0.0.1:{port}/' -- server",
    ),
)
def compare(
    command: Command,
    with_: Annotated[
        Optional[list[str]],
        typer.Option(
            "--with",
            metavar="NAME[:KEY=VALUE[;...]],...",
            help="Which allocators: names or paths of libraries. Settings are options for loft, "
            "environment variables for the others. Repeat it to add more. Default: all that are "
            "found.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=whole(1),
            help="How many timed runs under each allocator. Fewer than 6 cannot tell a difference "
            "from noise.",
        ),
    ] = 10,
    timeout: Annotated[
        Optional[float],
        typer.Option(
            metavar="SECONDS",
            parser=seconds(MIN_SECONDS),
            help="Kill a run, and everything it started, after this time. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    tail: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=seconds(),
            help="Keep the command alive for this time after it has finished, to see what an idle "
            "process keeps.",
        ),
    ] = 0,
    load: Annotated[
        str,
        typer.Option(
            metavar="'CLIENT ...'",
            help="CMD is a server: start it, run this client once it listens, then stop it. "
            "{port} stands for its port.",
            show_default=False,
        ),
    ] = "",
    port: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            parser=whole(1, 65535),
            help="The port of the server under --load. Default: the one it opens.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Optional[Path],
        typer.Option("--json", metavar="FILE", help="Write all measurements as JSON."),
    ] = None,
    csv_file: Annotated[
        Optional[Path], typer.Option("--csv", metavar="FILE", help="Write the tables as CSV.")
    ] = None,
    html_file: Annotated[
        Optional[Path],
        typer.Option("--html", metavar="FILE", help="Write a page with charts, in one file."),
    ] = None,
    stats_file: Annotated[
        Optional[Path],
        typer.Option(
            "--stats",
            metavar="FILE",
            help="Write loft's statistics as JSON, from an extra run of each row of loft.",
        ),
    ] = None,
    show_output: Annotated[
        bool, typer.Option("--show-output", help="Show what the command writes.")
    ] = False,
) -> None:
    """Run a command under each allocator and compare them.

    CMD is a program and its arguments. After a warm-up the allocators take turns, so that a busy
    moment of the machine hits all of them alike. Separate runs measure instructions, cycles and
    memory over time. The command's input is empty (/dev/null), and its output is dropped.

    The exit code is the command's if it was the same under every allocator, else 1. Processes that
    the command leaves behind are killed.
    """
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
            raise UserError("--port needs --load and the client of the server")
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--load {text}: {error}; quote as in a shell") from None
    if not words:
        raise UserError("--load: name a client")
    program.find(words[0])
    return Load(words, port)


app.command(
    context_settings=COMMAND_LAST,
    epilog=example("loft record -o t.zst -- program", "loft replay t.zst"),
)(trace_cli.record)
app.command(epilog=example("loft replay t.zst --with glibc,loft", "loft replay --info t.zst"))(
    trace_cli.replay
)


@app.command(
    context_settings=COMMAND_LAST,
    epilog=example("loft doctor", "loft doctor -- program", "loft doctor 1234"),
)
def doctor(
    command: Annotated[
        Optional[list[str]], typer.Argument(metavar="CMD", hidden=True, show_default=False)
    ] = None,
    pid: Annotated[
        Optional[int],
        typer.Option(
            metavar="PID",
            parser=whole(1),
            help="Check this running process too.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this machine, a command or a process for problems.

    With CMD, a program and its arguments, or the number of a process it also says whose malloc they
    use. Warnings come first, then notes, then what is ok; each with the reason and what to do. The
    exit code is 1 if something keeps loft from working, else 0.
    """
    if command and pid is not None:
        raise UserError("give a command or --pid, not both")
    if command and len(command) == 1 and command[0].isdecimal():
        pid, command = int(command[0]), None
    raise typer.Exit(doctor_command.doctor(command or [], pid, as_json=json))


app.command(
    context_settings=COMMAND_LAST, cls=profile_cli.ProfileCommand, epilog=profile_cli.EXAMPLES
)(profile_cli.profile)


@app.command("explain", epilog=example("loft explain report.1234", "program 2>&1 | loft explain -"))
def explain_(
    file: Annotated[str, typer.Argument(metavar="FILE", hidden=True, show_default=False)],
) -> None:
    """Add function names and source lines to reports of misuse.

    FILE is what the option report_file has written, or the standard error of a program; `-` reads
    standard input. Other lines pass through.
    """
    raise typer.Exit(explain.explain(file))


app.command(epilog=example("loft top", "loft top 1234", "loft top 1234 --once"))(live_cli.top)
app.command(
    "map", epilog=example("loft map 1234", "loft map 1234 --save heap.json --png heap.png")
)(live_cli.map_)

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
        code = app(prog_name="loft", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(code)
    except TyperException as error:
        complaint, code = wrong_usage(error), error.exit_code
    except UserError as error:
        complaint, code = str(error), error.exit_code
    except BrokenPipeError:
        # Whoever read has what it wanted.
        complaint, code = "", 1
    except OSError as error:
        # A write has no name: what is written to files is caught where they are known.
        where = error.filename or ("standard output" if error.errno == errno.ENOSPC else "")
        where = where and f"{where}: "
        complaint, code = f"{where}{error.strerror or error}", 1
    except Exception as error:
        if TRACE in os.environ:
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        complaint = f"an internal error, {what}; {TRACE}=1 shows where"
        code = INTERNAL_ERROR
    if complaint:
        # One line, whatever the user's own words are that it repeats.
        print(f"loft: {one_line(complaint)}", file=sys.stderr)
    end_without_flushing(code)


def wrong_usage(error: TyperException) -> str:
    """No such option: --runz. Did you mean --runs? See loft compare --help.

    Versions of typer put it differently.
    """
    context = getattr(error, "ctx", None)
    where = "loft" if context is None else context.command_path
    message = error.format_message().replace("Value error, ", "")
    message = re.sub(
        r"[. ]*\(?(?:Possible options:|Did you mean) ([^)?]*)[)?]*$", r". Did you mean \1?", message
    )
    end = "" if message.endswith(("?", ".")) else "."
    return f"{message}{end} See {where} --help"


def end_without_flushing(code: int) -> NoReturn:
    """What could not be written is not tried again at the end, with a second complaint."""
    with suppress(OSError, AttributeError):
        sys.stdout.flush()
        sys.exit(code)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
