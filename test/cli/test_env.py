"""`loft path` and `loft env`: where the library is, and variables in the words of each reader."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import Loft, one_line

# Each of these means something to one of the readers.
ODD = "/opt/a\"b'c$HOME%n\\d`e`#f/libloft.so"


def test_the_path_is_the_librarys(loft: Loft, build: Path) -> None:
    ran = loft("path")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{build / 'libloft.so'}\n", "")


def test_plain_lines_are_a_command_env_can_take(loft: Loft, build: Path) -> None:
    ran = loft("env", "--owner", "cpu", "--option", "decay_ms=0")
    lines = ran.stdout.splitlines()
    assert lines == [f"LD_PRELOAD={build / 'libloft.so'}", "LOFT_DECAY_MS=0", "LOFT_OWNER=cpu"]
    maps = subprocess.run(["env", *lines, "cat", "/proc/self/maps"], capture_output=True, text=True)
    assert str(build / "libloft.so") in maps.stdout


@pytest.mark.parametrize(("before", "behind"), [("", ""), ("/none/b.so", ":/none/b.so")])
def test_a_shell_evaluates_its_form(loft: Loft, before: str, behind: str) -> None:
    lines = loft("env", "--format", "shell", "--owner", "cpu", "--library", ODD).stdout
    setting = f"LD_PRELOAD={before}\n" if before else ""
    script = f'{setting}{lines}printf "[%s|%s]" "$LD_PRELOAD" "$LOFT_OWNER"'
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert ran.stdout == f"[{ODD}{behind}|cpu]"


def test_a_drop_in_of_systemd(loft: Loft) -> None:
    lines = loft("env", "--format", "systemd", "--owner", "shared", "--library", ODD).stdout
    assert lines.splitlines() == [
        "[Service]",
        'Environment="LD_PRELOAD=/opt/a\\"b\'c$HOME%%n\\\\d`e`#f/libloft.so"',
        'Environment="LOFT_OWNER=shared"',
    ]


def test_lines_of_a_dockerfile(loft: Loft) -> None:
    lines = loft("env", "--format", "docker", "--owner", "shared", "--library", ODD).stdout
    assert lines.splitlines() == [
        'ENV LD_PRELOAD="/opt/a\\"b\'c\\$HOME%n\\\\d`e`#f/libloft.so"',
        'ENV LOFT_OWNER="shared"',
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--library", ODD], "use --format systemd or --format docker"),
        (["--library", "libloft.so"], "--library libloft.so: the loader needs an absolute path"),
        (["--library", "/a b.so"], "no path with a space or a colon"),
        (["--library", "/a:b.so"], "no path with a space or a colon"),
        (["--library", "/a\nb.so"], "a path must not have a line break"),
        (["--format", "toml"], "--format toml: expected plain, shell, systemd, docker"),
        (["--owner", "nobody"], "owner=nobody: expected thread, cpu"),
        (["--option", "stats"], "write name=value"),
        (["program"], "unexpected extra argument"),
    ],
)
def test_bad_input_is_one_line(loft: Loft, arguments: list[str], said: str) -> None:
    ran = loft("env", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in one_line(ran.stderr)
