"""glibc's own tests of malloc, built outside of its tree against the C library of the machine."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sources import Sources
from suite import HERE, Outcomes, compare, ending

# Those that ask for no part of glibc that it does not export, and bring no malloc of their own.
TESTS = (
    "tst-calloc",
    "tst-free-errno",
    "tst-mallinfo2",
    "tst-malloc",
    "tst-malloc-backtrace",
    "tst-malloc-check",
    "tst-malloc-fork-deadlock",
    "tst-malloc-stats-cancellation",
    "tst-malloc-tcache-leak",
    "tst-malloc-thread-exit",
    "tst-malloc-thread-fail",
    "tst-malloc-too-large",
    "tst-malloc_info",
    "tst-mallocfork",
    "tst-mallocfork2",
    "tst-mallocfork3",
    "tst-mallopt",
    "tst-memalign",
    "tst-mtrace",
    "tst-mxfast",
    "tst-obstack",
    "tst-posix_memalign",
    "tst-pvalloc",
    "tst-pvalloc-fortify",
    "tst-realloc",
    "tst-reallocarray",
    "tst-tcfree1",
    "tst-tcfree2",
    "tst-tcfree3",
    "tst-trim1",
    "tst-valloc",
)
FLAGS = (
    "-std=gnu11",
    "-O1",
    "-w",
    "-fno-builtin",
    "-pthread",
    "-D_GNU_SOURCE",
    # What glibc's own headers, which are not used here, would bring.
    "-DTIMEOUTFACTOR=1",
    "-include",
    "limits.h",
)
HEADERS = ("array_length.h", "libc-diag.h", "intprops.h")


@pytest.fixture(scope="session")
def support(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tests are built in: glibc's test support, as headers and as a library."""
    glibc = sources.folder("glibc")
    folder = tmp_path_factory.mktemp("glibc")
    shutil.copytree(glibc / "support", folder / "support")
    shutil.copy(glibc / "test-skeleton.c", folder)
    for name in HEADERS:
        shutil.copy(glibc / "include" / name, folder)
    (folder / "config.h").touch()
    includes = [f"-I{folder}", f"-I{folder / 'support'}"]

    def built(source: Path) -> Path | None:
        out = folder / f"{source.stem}.o"
        command: list[str | Path] = ["gcc", *FLAGS, *includes, "-c", source, "-o", out]
        ran = subprocess.run(command, capture_output=True, timeout=120)
        # Some need what only glibc's own build has; no test here needs those.
        return out if ran.returncode == 0 else None

    # These are programs and parts of tests.
    left = ("test-driver", "test-container", "links-dso", "-container", "tst-", "README", "_main")
    parts = [
        source
        for source in sorted((folder / "support").glob("*.c"))
        if source.stem == "support_test_main" or not any(part in source.stem for part in left)
    ]
    with ThreadPoolExecutor(2) as pool:
        objects = [out for out in pool.map(built, [*parts, HERE / "shims/glibc_paths.c"]) if out]
    subprocess.run(["ar", "rc", folder / "libsupport.a", *objects], check=True, timeout=60)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", TESTS)
def test_malloc(lib: Path, sources: Sources, support: Path, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    source = sources.folder("glibc") / "malloc" / f"{name}.c"
    command: list[str | Path] = [
        "gcc",
        *FLAGS,
        f"-I{support}",
        source,
        support / "libsupport.a",
        "-o",
        program,
    ]
    subprocess.run(command, check=True, timeout=120)

    def run(folder: Path, preload: Path | None) -> Outcomes:
        # glibc's tests end themselves long before.
        return {name: ending([program], folder, preload, 300)}

    compare("glibc", run, lib, tmp_path)
