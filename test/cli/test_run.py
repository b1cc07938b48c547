"""`loft run` and what the commands say about bad input."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from support import LOFT, Compile, Loft, one_line

from loft_malloc import options, places, preload
from loft_malloc.errors import UserError


def test_the_command_runs_on_loft(loft: Loft, build: Path) -> None:
    ran = loft("run", "--", "grep", "-c", "libloft", "/proc/self/maps")
    assert ran.returncode == 0
    assert int(ran.stdout) > 0


def test_the_dashes_may_be_left_out(loft: Loft) -> None:
    ran = loft("run", "sh", "-c", "echo $1", "name", "--option")
    assert ran.stdout == "--option\n"


def test_options_are_variables_of_the_command(loft: Loft, compiled: Compile) -> None:
    program = compiled(
        "variables",
        """
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
          return printf("%s %s", getenv("LOFT_STATS"), getenv("LOFT_CACHE_BYTES")) < 0;
        }
        """,
    )
    ran = loft("run", "--option", "stats=json", "--option", "cache_bytes=64K", "--", program)
    assert ran.stdout == "json 64K"
    assert '"heaps"' in ran.stderr


COPIES = """
#include <stdlib.h>
#include <string.h>
int main(int argc, char** argv) {
  char* volatile p = malloc(48);
  volatile size_t bytes = strtoul(argv[argc - 1], NULL, 0);
  memset(p, 1, bytes);
  return 0;
}
"""


@pytest.mark.parametrize(
    ("settings", "bytes_", "report"),
    [
        ((), 48, ""),
        ((), 49, "loft: memset of 49 bytes at 0x"),
        (("--option", "hardened=full"), 40, ""),
        (("--option", "hardened=full"), 49, "loft: memset of 49 bytes at 0x"),
    ],
)
def test_copies_end_with_their_object(
    loft: Loft, compiled: Compile, settings: tuple[str, ...], bytes_: int, report: str
) -> None:
    program = compiled("copies", COPIES)
    ran = loft("run", *settings, "--bounds", "--", program, str(bytes_))
    assert ran.returncode == (-signal.SIGABRT if report else 0), ran.stderr
    assert ran.stderr.startswith(report)
    assert report or not ran.stderr


def test_the_owner_is_an_option_of_its_own(loft: Loft) -> None:
    ran = loft("run", "--owner", "cpu", "--", "sh", "-c", "echo $LOFT_OWNER")
    assert ran.stdout == "cpu\n"
    ran = loft("run", "--owner", "nobody", "--", "true")
    assert ran.returncode == 2
    assert "owner=nobody: expected thread, cpu" in one_line(ran.stderr)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LOFT_DECAY", "LOFT_DECAY_MS"),
        ("LOFT_SOFT", "LOFT_SOFT_LIMIT"),
        ("LOFT_STAT", "LOFT_STATS"),
        ("LOFT_DIRTY_BYTE", "LOFT_DIRTY_BYTES"),
        ("LOFT_stats", "LOFT_STATS"),
    ],
)
def test_a_variable_that_is_nearly_an_option_is_named(loft: Loft, name: str, meant: str) -> None:
    ran = loft("run", "--", "sh", "-c", "echo ran", **{name: "1"})
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    said = one_line(ran.stderr)
    assert said == f"loft: {name} is no option of loft and sets nothing; did you mean {meant}?"


def test_other_variables_are_not_named(loft: Loft) -> None:
    names = [f"LOFT_{name.upper()}" for name in options.OPTIONS]
    # The command's own, the tests', and somebody else's.
    names += ["LOFT_HOLD_PID", "LOFT_HOLD_MS", "LOFT_LIB", "LOFT_TEST_SEED", "LOFT_HOME", "LOFT_"]
    assert options.misspelt(dict.fromkeys(names, "")) == []


def test_loft_goes_before_what_was_preloaded(loft: Loft, build: Path, compiled: Compile) -> None:
    other = compiled("other.so", "int nothing;", "-shared", "-fPIC")
    ran = loft("run", "--", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=str(other))
    assert ran.stdout.strip() == f"{build / 'libloft.so'}:{other}"


def test_a_loft_that_is_preloaded_already_gives_way(
    loft: Loft, build: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.so"
    other.write_bytes((build / "libloft.so").read_bytes())
    command = ["run", "--", "sh", "-c", "echo $LD_PRELOAD"]
    ran = loft(*command, LD_PRELOAD=str(other))
    assert ran.stdout.strip() == str(build / "libloft.so")
    ran = loft(*command, LD_PRELOAD=other.name, LD_LIBRARY_PATH=str(tmp_path))
    assert ran.stdout.strip() == str(build / "libloft.so")


def test_a_script_without_a_first_line_runs_as_in_a_shell(loft: Loft, tmp_path: Path) -> None:
    path = tmp_path / "-script"
    path.write_text('echo "$0 $1 $LD_PRELOAD"\nexit 4\n')
    path.chmod(0o755)
    for name in (str(path), path.name):
        ran = loft("run", "--", name, "an argument", PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert ran.returncode == 4
        assert ran.stdout.startswith(f"{path} an argument /")
        assert "libloft.so" in ran.stdout


@pytest.mark.parametrize("code", [0, 1, 42])
def test_the_exit_code_is_the_commands(loft: Loft, code: int) -> None:
    assert loft("run", "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGPIPE, signal.SIGSEGV])
def test_signals_are_the_commands(loft: Loft, number: signal.Signals) -> None:
    assert loft("run", "--", "sh", "-c", f"kill -{number.value} $$").returncode == -number


def test_a_signal_to_loft_reaches_the_command(build: Path) -> None:
    command = ["sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"]
    with subprocess.Popen([LOFT, "run", "--", *command], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait() == 9


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("decay=1", "there is no option 'decay'; did you mean decay_ms?"),
        ("nonsense=1", "there is no option 'nonsense'; `loft run --help` lists all"),
        ("stats=2", "stats=2: expected off, text, json, prometheus"),
        ("cache_bytes=many", "cache_bytes=many: expected a number of bytes"),
        ("decay_ms=soon", "decay_ms=soon: expected a number of milliseconds"),
        ("cache_bytes=18446744073709551616", "expected a number of bytes"),
        ("cache_bytes=", "expected a number of bytes"),
        ("stats", "write name=value"),
    ],
)
def test_a_bad_option_is_named(loft: Loft, setting: str, said: str) -> None:
    ran = loft("run", "--option", setting, "--", "true")
    assert ran.returncode == 2
    assert said in one_line(ran.stderr)


@pytest.mark.parametrize("command", ["run", "compare", "doctor", "profile"])
def test_a_command_that_is_not_there(loft: Loft, tmp_path: Path, command: str) -> None:
    ran = loft(command, "--", "no-such-program")
    assert ran.returncode == 127
    assert "there is no command 'no-such-program'" in one_line(ran.stderr)
    ran = loft(command, "--", tmp_path / "nothing")
    assert ran.returncode == 127
    assert f"no file {tmp_path / 'nothing'}" in one_line(ran.stderr)
    ran = loft(command, "--", tmp_path)
    assert ran.returncode == 126
    assert "is a folder" in one_line(ran.stderr)
    (tmp_path / "data").write_text("data")
    ran = loft(command, "--", tmp_path / "data")
    assert ran.returncode == 126
    assert "chmod +x" in one_line(ran.stderr)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prepare"], "No such command 'prepare'"),
        (["prfile"], "No such command 'prfile'. Did you mean 'profile'? See loft --help"),
        (["run"], "Missing argument 'CMD'. See loft run --help"),
        (["run", "--nosuch"], "No such option: --nosuch. See loft run --help"),
        (
            ["compare", "--runz", "3"],
            "No such option: --runz. Did you mean --runs? See loft compare",
        ),
        (["compare"], "Missing argument 'CMD'"),
        (
            ["compare", "--runs", "0", "--", "true"],
            "'--runs': '0' is not a whole number of at least 1",
        ),
        (["compare", "--runs", "few", "--", "true"], "'few' is not a whole number of at least 1"),
        (["compare", "--port", "65536", "--", "true"], "not a whole number from 1 to 65535"),
        (["compare", "--timeout", "-1", "--", "true"], "--timeout"),
        (["compare", "--tail", "-1", "--", "true"], "'--tail'"),
        (
            ["compare", "--timeout", "inf", "--", "true"],
            "'inf' is not a number of seconds from 0.001 to 86400",
        ),
        (["compare", "--timeout", "nan", "--", "true"], "'nan' is not a number of seconds"),
        (["compare", "--timeout", "1e10", "--", "true"], "'1e10' is not a number of seconds"),
        (["compare", "--tail", "inf", "--", "true"], "'--tail': 'inf' is not a number of seconds"),
        (["compare", "--tail", "nan", "--", "true"], "--tail"),
        (["compare", "--tail", "86401", "--", "true"], "from 0 to 86400. See loft compare --help"),
        (["compare", "--with", "nosuch", "--", "true"], "--with nosuch: there is no allocator"),
        (["compare", "--with", "/no/such.so", "--", "true"], "there is no such file"),
        (["compare", "--with", "/etc/passwd", "--", "true"], "not a library that defines malloc"),
        (["compare", "--json", "/no/such/file", "--", "true"], "/no/such/file cannot be written"),
        (["compare", "--html", "/tmp", "--", "true"], "/tmp is a folder"),
        (["doctor", "--pid", "1", "--", "true"], "not both"),
        (["doctor", "--pid", "999999999"], "there is no such process"),
    ],
)
def test_bad_input_is_one_line(loft: Loft, arguments: list[str], said: str) -> None:
    ran = loft(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert said in one_line(ran.stderr)


def test_the_version_is_the_headers(loft: Loft, build: Path) -> None:
    header = (build.parent / "include" / "loft" / "loft.h").read_text()
    version = header.split('LOFT_VERSION_STRING "')[1].split('"')[0]
    ran = loft("--version")
    assert ran.stdout == f"loft {version} ({build / 'libloft.so'})\n"


def test_a_checkout_where_nothing_was_installed_has_the_headers_too(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_installed(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    installed = places.version()
    monkeypatch.setattr(metadata, "version", not_installed)
    monkeypatch.setattr(places, "CHECKOUT", build.parent)
    assert places.version() == installed


def test_help(loft: Loft) -> None:
    ran = loft("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    # No word of any summary is cut.
    assert ran.stdout.startswith("Usage: loft") and "..." not in ran.stdout.split("Commands:")[1]
    assert loft().stdout == ran.stdout
    commands = re.findall(r"^  (\w+)  +[A-Z]", ran.stdout, re.MULTILINE)
    assert {"run", "compare", "profile", "top", "map"} <= set(commands)
    for command in commands:
        said = loft(command, "--help").stdout
        assert said.startswith(f"Usage: loft {command} ")
        assert f"\n    loft {command}" in said or command == "path", said
        assert "Examples:" in said
        # No type as the parser has it, and no option without a word of what it does.
        assert not re.search(r"<(list|int|float|str)|x[<>]=", said), said
        described = re.findall(r"^  (-\S+(?: \S+)*?)(?:  +|\n {6,})(\S.*)$", said, re.MULTILINE)
        named = re.findall(r"^  -", said, re.MULTILINE)
        assert len(described) == len(named), said


def test_help_has_a_text_for_each_option_of_loft(loft: Loft) -> None:
    said = loft("run", "--help").stdout
    for name, option in options.OPTIONS.items():
        assert f"\n    {name}=" in said
        words = " ".join(said.split(f"\n    {name}=")[1].split())
        assert option.meaning.split(";")[0] in words
    assert max(map(len, said.splitlines())) <= 80


def test_a_path_that_cannot_be_preloaded_is_refused() -> None:
    assert preload.value([Path("/a/b.so")], ["c.so"]) == f"{Path('/a/b.so')}:c.so"
    with pytest.raises(UserError, match="space"):
        preload.value([Path("/a b/c.so")], [])


def test_nothing_of_ours_is_left_in_the_environment(loft: Loft) -> None:
    entries = loft("run", "--", "env", "-0").stdout.split("\0")
    names = {entry.partition("=")[0] for entry in entries if entry}
    assert names - set(os.environ) == {"LD_PRELOAD"}
