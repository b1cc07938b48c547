"""libloft-inspect.so: when it is opened, from where, and what there is without it."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path

import pytest
from compilers import link
from programs import Build, Execute, captured, environment

ASKED = {
    "profile": {"LOFT_PROFILE": "on"},
    "report_file": {"LOFT_REPORT_FILE": "report"},
    "guard": {"LOFT_HARDENED": "guard"},
}
WHERE = "; install libloft-inspect.so beside the file that loft is in"
OPEN = "open, environment, inspect\n"


def test_nobody_who_asks_for_nothing_has_it(execute: Execute, build: Build) -> None:
    result = execute(build("inspect.c"))
    assert (result.stdout, result.stderr) == ("not open, environment, inspect\n", "")


# libloft.so is initialised before libc, which would not know the environment if this were libc's
# first call.
@pytest.mark.parametrize("settings", [*ASKED.values(), {"LOFT_SOCKET": "s"}])
def test_it_is_opened_where_an_option_asks(
    execute: Execute, build: Build, settings: dict[str, str]
) -> None:
    result = execute(build("inspect.c"), **settings)
    assert (result.stdout, result.stderr) == (OPEN, "")


# By the path that the code lies at, whatever the loader was told.
@pytest.mark.parametrize(
    "option", [("profile", "on"), ("report_file", "/dev/null"), ("socket", "s")]
)
def test_it_is_opened_later(
    lib: Path, build: Build, tmp_path: Path, option: tuple[str, str]
) -> None:
    program = build("inspect.c")
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "loft.so").symlink_to(lib.resolve())
    result = captured(
        (program, *option), folder, environment(tmp_path) | {"LD_PRELOAD": "./loft.so"}
    )
    assert (result.stdout, result.stderr) == (OPEN, "")


@pytest.mark.parametrize("asked", ASKED)
def test_without_it_a_line_says_so(lib: Path, build: Build, tmp_path: Path, asked: str) -> None:
    alone = tmp_path / "libloft.so"
    shutil.copy(lib.resolve(), alone)
    env = environment(tmp_path) | ASKED[asked] | {"LD_PRELOAD": str(alone)}
    result = captured((build("inspect.c"),), tmp_path, env)
    assert result.stdout == "not open, environment, inspect\n"
    missing = (
        f"loft: there are no stacks and no profiles: {tmp_path}/libloft-inspect.so: cannot open "
    )
    assert re.fullmatch(rf"{re.escape(missing)}[^\n]+{re.escape(WHERE)}\n", result.stderr)


def test_without_it_there_is_no_socket(lib: Path, build: Build, tmp_path: Path) -> None:
    alone = tmp_path / "libloft.so"
    shutil.copy(lib.resolve(), alone)
    env = environment(tmp_path) | {"LOFT_SOCKET": "s", "LD_PRELOAD": str(alone)}
    result = captured((build("inspect.c"),), tmp_path, env)
    assert result.stdout == "not open, environment, inspect\n"
    missing = f"loft: the socket s is not served: {tmp_path}/libloft-inspect.so: cannot open "
    assert re.fullmatch(rf"{re.escape(missing)}[^\n]+\n", result.stderr)


# It is said once, and the program goes on.
@pytest.mark.parametrize("asked", ["on", "leaks", "waste", "peak"])
def test_without_it_there_is_no_profile(
    lib: Path, build: Build, tmp_path: Path, asked: str
) -> None:
    alone = tmp_path / "libloft.so"
    shutil.copy(lib.resolve(), alone)
    settings = {
        "LOFT_PROFILE": asked,
        "LOFT_SAMPLE_BYTES": "1",
        "LOFT_PROFILE_FILE": f"{tmp_path}/heap.pb.gz",
    }
    env = environment(tmp_path) | settings | {"LD_PRELOAD": str(alone)}
    result = captured((build("inspect.c"), "sample_bytes", "2"), tmp_path, env)
    assert result.returncode == 0
    assert result.stdout == f"not open, environment, inspect\nwritten: {errno.ELIBACC}\n"
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.glob("heap*"))


# Another version's table is not called.
def test_another_version_is_not_used(lib: Path, build: Build, tmp_path: Path) -> None:
    for name in ("libloft.so", "libloft-inspect.so"):
        shutil.copy(lib.resolve().parent / name, tmp_path / name)
    source = tmp_path / "other.c"
    source.write_text("const unsigned long loft_inspect[8] = {~0ul};")
    link("gcc", [source], tmp_path / "libloft-inspect.so", ["-shared", "-fPIC"], [])
    env = environment(tmp_path) | ASKED["profile"] | {"LD_PRELOAD": f"{tmp_path}/libloft.so"}
    result = captured((build("inspect.c"),), tmp_path, env)
    assert result.stdout == OPEN
    said = "loft: there are no stacks and no profiles: libloft-inspect.so is another version's"
    assert result.stderr == said + WHERE + "\n"
