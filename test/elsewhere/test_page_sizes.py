"""loft where pages are larger than 4 KiB, as far as a machine with such pages can tell.

larger_pages.c stands between loft and the kernel, rounds as a kernel with larger pages does, and
ends a process whose calls such a kernel would refuse. The unit and surface tests run so, too
(test/CMakeLists.txt). No kernel with larger pages is booted.
"""

from __future__ import annotations

import mmap
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from compilers import AS_LIBC

HERE = Path(__file__).parent

if mmap.PAGESIZE != 4096:
    pytest.skip("the pages of this machine are larger already", allow_module_level=True)

PAGES = pytest.mark.parametrize("page", [16384, 65536])
OWNERS = pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    flags, source = ["-O1", "-fno-builtin", "-pthread"], HERE / "everyday.c"
    subprocess.run(["gcc", *flags, source, "-o", folder / "everyday"], check=True)
    flags, source = ["-O1", "-fPIC", "-shared", "-fvisibility=hidden"], HERE / "larger_pages.c"
    flags.append(AS_LIBC)
    for page in (16384, 65536):
        subprocess.run(
            ["gcc", *flags, f"-DPAGE={page}", source, "-o", folder / f"{page}.so"], check=True
        )
    return folder


@pytest.fixture
def run(built: Path, lib: Path) -> Run:
    def run_with(
        page: int, *command: str | Path, **setting: str
    ) -> subprocess.CompletedProcess[str]:
        variables = [f"{name}={value}" for name, value in setting.items()]
        preload = f"LD_PRELOAD={built / f'{page}.so'}:{lib}"
        words = ["env", preload, *variables, *map(str, command)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    return run_with


@PAGES
@OWNERS
@pytest.mark.parametrize("what", ["exchange", "fork", "corners", "home", "holes"])
def test_programs_do_their_work(built: Path, run: Run, page: int, owner: str, what: str) -> None:
    result = run(page, built / "everyday", what, LOFT_OWNER=owner, LOFT_BACKGROUND="on")
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@PAGES
def test_misuse_is_reported(built: Path, run: Run, page: int) -> None:
    result = run(page, built / "everyday", "double-free")
    assert "loft: double free" in result.stderr
    assert result.returncode == -signal.SIGABRT


@PAGES
@pytest.mark.parametrize("call", ["munmap", "madvise", "mprotect", "mincore"])
def test_a_call_that_is_not_aligned_ends_the_process(
    tmp_path: Path, run: Run, page: int, call: str
) -> None:
    program = tmp_path / "misaligned"
    source = f"""
        #define _DEFAULT_SOURCE
        #include <sys/mman.h>
        int main(void) {{ {call}((char*){page} + 4096, 4096{"" if call == "munmap" else ", 0"}); }}
    """
    subprocess.run(["gcc", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    result = run(page, program)
    assert f"larger pages: {call}(0x" in result.stderr
    assert result.returncode == -signal.SIGABRT
