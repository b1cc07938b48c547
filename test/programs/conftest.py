"""What the tests share: compiled programs, and runs with and without the library."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from compilers import AS_LIBC, link
from programs import (
    OWNERS,
    SOURCES,
    Build,
    Clock,
    Execute,
    Outcome,
    Program,
    Reference,
    captured,
    environment,
    prepare,
    run,
)

# Each compiled as it stands: the compiler must not think that it knows what malloc does.
COMPILERS = {
    ".c": ("gcc", ["-O1", "-fno-builtin", "-pthread"]),
    ".cc": ("g++", ["-std=c++20", "-O1", "-fno-builtin", "-pthread"]),
}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    prepare(folder)
    return folder


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("built")

    def compiled(source: str, *more: str) -> Path:
        path = SOURCES / source
        program = folder / "".join([path.stem, *more])
        if not program.exists():
            compiler, flags = COMPILERS[path.suffix]
            has_clock = '#include "virtual_time.h"' in path.read_text()
            link(compiler, [path], program, [*flags, *more], [AS_LIBC] if has_clock else [])
        return program

    return compiled


@pytest.fixture(params=OWNERS)
def owner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def owned(execute: Execute, owner: str) -> Execute:
    """Runs a command under each owner."""
    return partial(execute, LOFT_OWNER=owner)


@pytest.fixture(scope="session")
def standing_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("clock") / "standing_clock.so"
    source = SOURCES / "standing_clock.c"
    flags = ["-O1", "-shared", "-fPIC", AS_LIBC]
    subprocess.run(["gcc", *flags, source, "-o", library], check=True)
    return library


@pytest.fixture
def clock(standing_clock: Path, tmp_path: Path) -> Clock:
    made = Clock(standing_clock, tmp_path / "clock")
    made.file.write_bytes(bytes(8))
    return made


@pytest.fixture(scope="session")
def reference(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    # Tests have other scripts of some programs, too.
    started: dict[tuple[str, str], Future[Outcome]] = {}
    with ThreadPoolExecutor(max_workers=1) as pool:

        def of(program: Program) -> Future[Outcome]:
            key = (program.name, program.script)
            if key not in started:
                folder = tmp_path_factory.mktemp("reference")
                started[key] = pool.submit(run, program, folder, inputs)
            return started[key]

        yield of


@pytest.fixture
def overcommit(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the system promises more of than it has, by parametrization of tests of the machine."""
    setting = Path("/proc/sys/vm/overcommit_memory")  # machine: its users carry the marker
    before = setting.read_text()
    setting.write_text(request.param)
    yield
    setting.write_text(before)


@pytest.fixture
def execute(lib: Path, tmp_path: Path) -> Execute:
    def result(
        *command: str | Path, preload: bool = True, **more: str
    ) -> subprocess.CompletedProcess[str]:
        env = environment(tmp_path) | more
        if preload:
            env["LD_PRELOAD"] = str(lib)
        return captured(command, tmp_path, env)

    return result
