"""snmalloc's tests of allocation, with the standard functions in the place of its allocator."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sources import Sources
from suite import HERE, Outcomes, compare, ending

# The crate that brings the sources, and the version whose declarations shims/snmalloc.cc defines.
CRATE = ("snmalloc-sys", "0.7.6")
# The others are about parts or statistics of snmalloc itself, or bring a malloc of their own.
TESTS = (
    "func/first_operation/first_operation",
    "func/malloc/malloc",
    "func/memory/memory",
    "func/new/new",
    "func/teardown/teardown",
    "perf/contention/contention",
    "perf/external_pointer/externalpointer",
    "perf/large_alloc/large_alloc",
    "perf/lotsofthreads/lotsofthread",
    "perf/post_teardown/post-teardown",
    "perf/singlethread/singlethread",
    "perf/startup/startup",
)
FLAGS = (
    "-std=c++20",
    "-O1",
    "-w",
    "-fno-builtin",
    "-pthread",
    "-mcx16",
    # What snmalloc's own build would say.
    "-DNDEBUG",
    "-DSNMALLOC_USE_PTHREAD_DESTRUCTORS",
    "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1",
)


@pytest.fixture(scope="session")
def flags(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """How a test is compiled and linked."""
    source = sources.crate(*CRATE) / "upstream" / "src"
    folder = tmp_path_factory.mktemp("snmalloc")
    operators = folder / "snmalloc" / "override" / "new.cc"
    operators.parent.mkdir(parents=True)
    operators.touch()
    shims = HERE / "shims"
    flags: list[str | Path] = [*FLAGS, f"-I{folder}", f"-I{source}", "-include"]
    flags.append(shims / "snmalloc.h")
    shim = folder / "shim.o"
    command = ["g++", *flags, "-c", shims / "snmalloc.cc", "-o", shim]
    subprocess.run(command, check=True, timeout=300)
    return [*flags, shim]


@pytest.mark.long
@pytest.mark.parametrize("name", TESTS)
def test_standard(
    lib: Path, sources: Sources, flags: list[str | Path], tmp_path: Path, name: str
) -> None:
    source = sources.crate(*CRATE) / "upstream" / "src" / "test" / f"{name}.cc"
    program = tmp_path / "program"
    subprocess.run(["g++", *flags, source, "-o", program], check=True, timeout=300)

    def run(folder: Path, preload: Path | None) -> Outcomes:
        # The numbers of rounds that snmalloc's own checks take.
        return {source.stem: ending([program, "--smoke"], folder, preload, 900)}

    compare("snmalloc", run, lib, tmp_path)
