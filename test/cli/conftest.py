"""What the tests of the `loft` command share: the command as a user runs it, and small programs."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from asked import Ask, Asked
from browser import Browser
from heaps import MIB, Heap, small
from pages import drawn
from release import build_release
from support import FORWARDING_MALLOC, LOFT, Compile, Loft


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long to begin with is begun by one worker."""
    for item in items:
        for name in ("browser", "compared"):
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session", autouse=True)
def _hangups_end() -> Iterator[None]:
    """A signal that was ignored where the tests were started (nohup) stays so in all they start."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def build() -> Path:
    """The build folder, with the library and the command's own parts in it."""
    return build_release("loft_shared", "loft_static", "loft_command")


@pytest.fixture
def loft(build: Path) -> Loft:
    """Runs the command; variables are added to the environment."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        return subprocess.run(
            [LOFT, *arguments],
            env={**inherited, **variables},
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles a C program, or with -shared a library."""

    def compile_source(name: str, source: str, *flags: str) -> Path:
        folder = tmp_path_factory.mktemp("compiled")
        (folder / "source.c").write_text(source)
        out = folder / name
        subprocess.run(["gcc", "-o", out, folder / "source.c", *flags], check=True)
        return out

    return compile_source


@pytest.fixture(scope="session")
def aborting(compiled: Compile) -> Path:
    """An allocator under which every program crashes."""
    return compiled(
        "aborting.so",
        FORWARDING_MALLOC + "__attribute__((constructor)) static void end(void) { abort(); }",
        "-shared",
        "-fPIC",
    )


@pytest.fixture(scope="session")
def failing(compiled: Compile) -> Path:
    """An allocator under which every program exits with 7."""
    return compiled(
        "failing.so",
        FORWARDING_MALLOC + "__attribute__((constructor)) static void end(void) { _Exit(7); }",
        "-shared",
        "-fPIC",
    )


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of one heap profile."""
    return drawn(tmp_path_factory.mktemp("page"), small())


@pytest.fixture(scope="session")
def difference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of two."""
    now = Heap()
    now.stack("main;parse;grow", [10, 10 * MIB, 5, 6 * MIB])
    now.stack("main;fresh", [3, 3 * MIB, 3, 3 * MIB])
    now.stack("main;steady", [1, MIB, 1, MIB])
    before = small()
    before.stack("main;steady", [1, MIB, 1, MIB])
    return drawn(tmp_path_factory.mktemp("difference"), now, before)


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Starts a process that can be asked; in a short folder, since a socket's address is short."""
    started = []

    def start(name: str = "loft.%p", tell: bool = True) -> Asked:
        # Of pytest's own folders some are too long.
        folder = tempfile.TemporaryDirectory(prefix="ask-")
        process = Asked(Path(folder.name), name, tell)
        started.append((process, folder))
        return process

    yield start
    for process, folder in started:
        process.end()
        folder.cleanup()
