"""Under filters of system calls, as services and sandboxes have them, programs live on."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from filters import GLIBC, KILL, LOADER, REFUSE, Filter, allowing, refusing, systemd
from programs import Build, Execute

# Memory goes back while the program runs, not long after.
SOON = {"LOFT_DECAY_MS": "50"}


def service(action: int, *without: str) -> Filter:
    """SystemCallFilter=@system-service, and then SystemCallFilter=~ of other sets."""
    refused = frozenset[str]().union(*map(systemd, without))
    return allowing(systemd("system-service") - refused, action)


@pytest.fixture
def glibc(execute: Execute, build: Build, tmp_path: Path) -> frozenset[str]:
    """What a program needs that glibc serves; with the clock where that is a system call here."""
    path = allowing(GLIBC, KILL).put(tmp_path / "clock")
    result = execute(build("sandboxed.c"), "clock", path, preload=False)
    return GLIBC if result.returncode == 0 else GLIBC | {"clock_gettime"}


NAMES = ["service", "service without", "without ipc", "without debug", "glibc"]


def named(name: str, action: int, glibc: frozenset[str]) -> Filter:
    match name:
        case "service":
            return service(action)
        case "service without":
            return service(action, "privileged", "resources")
        case "without ipc":
            return refusing(systemd("ipc"), action)
        case "without debug":
            return refusing(systemd("debug"), action)
    return allowing(glibc, action)


ACTIONS = pytest.mark.parametrize("action", [KILL, REFUSE], ids=["kill", "refuse"])


def lived(result: subprocess.CompletedProcess[str]) -> None:
    assert (result.returncode, result.stdout, result.stderr) == (0, "lived\n", "")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("mode", "action"),
    [
        pytest.param("first", KILL, id="before it allocates"),
        pytest.param("work", KILL, id="after that"),
        pytest.param("work", REFUSE, id="refused"),
    ],
)
def test_confined_by_itself(
    execute: Execute,
    build: Build,
    tmp_path: Path,
    glibc: frozenset[str],
    name: str,
    mode: str,
    action: int,
) -> None:
    program, path = build("sandboxed.c"), named(name, action, glibc).put(tmp_path / "filter")
    lived(execute(program, mode, path, **SOON))


@pytest.mark.parametrize("name", NAMES)
@ACTIONS
def test_confined_by_its_parent(
    execute: Execute, build: Build, tmp_path: Path, glibc: frozenset[str], name: str, action: int
) -> None:
    chosen = named(name, action, glibc | LOADER)
    path = chosen.put(tmp_path / "filter")
    lived(execute(build("confined.c"), path, build("sandboxed.c"), "work", **SOON))


@pytest.mark.parametrize("name", ["service without", "glibc"])
@pytest.mark.parametrize("inherited", [False, True], ids=["by itself", "by its parent"])
def test_owner_core(
    execute: Execute,
    build: Build,
    tmp_path: Path,
    glibc: frozenset[str],
    name: str,
    inherited: bool,
) -> None:
    """It asks where the process may run, and processors' caches are reached from afar by a call of
    their own: the set has these if the option is used."""
    allowed = glibc | {"sched_getaffinity", "membarrier"}
    path = named(name, KILL, allowed | LOADER if inherited else allowed).put(tmp_path / "filter")
    program = build("sandboxed.c")
    command = [build("confined.c"), path, program, "work"] if inherited else [program, "work", path]
    lived(execute(*command, LOFT_OWNER="cpu", **SOON))


@pytest.mark.parametrize("name", ["service without", "glibc"])
@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
def test_statistics_do_without(
    execute: Execute, build: Build, tmp_path: Path, glibc: frozenset[str], name: str, owner: str
) -> None:
    """What they cannot find out is left out."""
    chosen = named(name, REFUSE, glibc | {"newfstatat"})
    path = chosen.put(tmp_path / "filter")
    lived(execute(build("sandboxed.c"), "statistics", path, LOFT_OWNER=owner, **SOON))


@pytest.mark.parametrize("name", NAMES)
def test_without_loft(
    execute: Execute, build: Build, tmp_path: Path, glibc: frozenset[str], name: str
) -> None:
    """The filters allow what they mean to allow: the program lives on with glibc's malloc."""
    path = named(name, KILL, glibc).put(tmp_path / "filter")
    lived(execute(build("sandboxed.c"), "work", path, preload=False))
    path = named(name, KILL, glibc | LOADER).put(tmp_path / "filter")
    command = (build("confined.c"), path, build("sandboxed.c"), "work")
    lived(execute(*command, preload=False))


def test_what_is_not_allowed_kills(
    execute: Execute, build: Build, tmp_path: Path, glibc: frozenset[str]
) -> None:
    path = allowing(glibc, KILL).put(tmp_path / "filter")
    result = execute(build("sandboxed.c"), "forbidden", path, preload=False)
    assert result.returncode == -signal.SIGSYS
