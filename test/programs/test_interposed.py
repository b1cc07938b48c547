"""Libraries that stand in front of libc's functions, or change them, and what loft calls."""

from __future__ import annotations

import platform
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from compilers import link
from programs import OWNERS, SOURCES, Build, Execute

FLAGS = ("-O1", "-fno-builtin", "-pthread", "-fPIC", "-shared")


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("preloaded")

    def of(name: str) -> Path:
        library = folder / f"{name}.so"
        if not library.exists():
            source = SOURCES / f"{name}.c"
            subprocess.run(["gcc", *FLAGS, source, "-o", library], check=True)
        return library

    return of


def runs(result: subprocess.CompletedProcess[str]) -> None:
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


@pytest.mark.parametrize("owner", OWNERS)
def test_a_tracer_that_allocates(
    execute: Execute, build: Build, preloaded: Callable[[str], Path], lib: Path, owner: str
) -> None:
    """Whatever loft calls under its locks: the tracer's lock is taken around malloc."""
    both = {"LD_PRELOAD": f"{preloaded('tracer')}:{lib}", "LOFT_OWNER": owner}
    for more in (
        {"LOFT_BACKGROUND": "on", "LOFT_DECAY_MS": "10"},
        {"LOFT_HARDENED": "full"},
        {"LOFT_PROFILE": "leaks", "LOFT_PROFILE_FILE": "/dev/null"},
        {"LOFT_PROFILE": "waste", "LOFT_PROFILE_FILE": "/dev/null"},
        {"LOFT_STATS": "json"},
    ):
        runs(execute("env", build("traced.c"), preload=False, **both, **more))


def test_a_tracer_of_what_a_report_writes(
    execute: Execute, build: Build, preloaded: Callable[[str], Path], lib: Path
) -> None:
    both = f"{preloaded('tracer')}:{lib}"
    result = execute("env", f"LD_PRELOAD={both}", build("traced.c"), "twice", preload=False)
    assert (result.returncode, result.stdout) == (-signal.SIGABRT, "done\n")
    assert result.stderr.startswith("loft: ")


def test_a_tracer_of_a_program_with_loft_inside(
    execute: Execute, preloaded: Callable[[str], Path], lib: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    linked: list[str | Path] = ["-Wl,-u,malloc", lib.parent / "libloft.a"]
    link("gcc", [SOURCES / "traced.c"], program, FLAGS[:3], linked)
    tracer = f"LD_PRELOAD={preloaded('tracer')}"
    runs(execute("env", tracer, program, preload=False))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code that is written is x86-64's")
def test_who_changes_libcs_code_sees_what_is_unmapped(
    execute: Execute, build: Build, preloaded: Callable[[str], Path], lib: Path
) -> None:
    both = f"{preloaded('changed_code')}:{lib}"
    result = execute("env", f"LD_PRELOAD={both}", build("traced.c"), preload=False)
    runs(result)
    assert result.stderr.splitlines()[-1:] == ["seen"]


@pytest.mark.parametrize("mode", ["off", "guard", "full"])
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_sanitizer_has_its_own_malloc(
    execute: Execute, lib: Path, tmp_path: Path, sanitizer: str, mode: str
) -> None:
    """Where loft is linked, or preloaded behind the sanitizer's library."""
    flags = ["-O1", "-fno-builtin", "-pthread", f"-fsanitize={sanitizer}"]
    own = subprocess.run(
        ["gcc", f"-print-file-name=lib{sanitizer[0]}san.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    plain, linked = tmp_path / "plain", tmp_path / "linked"
    link("gcc", [SOURCES / "sanitized.c"], plain, flags)
    link("gcc", [SOURCES / "sanitized.c"], linked, flags, [lib, f"-Wl,-rpath,{lib.parent}"])
    for preload, program in ((f"{own}:{lib}", plain), ("", linked)):
        settings = {"LD_PRELOAD": preload, "LOFT_HARDENED": mode}
        runs(execute("env", program, preload=False, **settings))
        result = execute("env", program, "stale", preload=False, **settings)
        assert result.returncode != 0
        assert "Sanitizer: heap-use-after-free" in result.stderr
    refused = execute("env", f"LD_PRELOAD={lib}", plain, preload=False, LOFT_HARDENED=mode)
    says = {"address": "runtime does not come first", "thread": "unexpected memory mapping"}
    assert refused.returncode > 0
    assert says[sanitizer] in refused.stderr
