"""loft on Windows, as far as Wine plays it: in a program, as loft.dll, and by the launcher.

clang compiles loft, because its thread-local storage is the system's own; the programs are
compiled by Debian's mingw, whose runtime is msvcrt.dll. None of this has seen a real Windows
(docs/porting.md).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CLANG = "clang++-19"
MINGW = "x86_64-w64-mingw32"
FLAGS = [
    f"--target={MINGW}",
    "-std=c++20",
    "-O2",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-builtin",
    "-ffunction-sections",
    "-fdata-sections",
]
LIBRARIES = ["-static-libgcc", "-Wl,--gc-sections", "-lsynchronization"]
ABORTED = 3  # what the runtime's abort ends a process with


@dataclass(frozen=True)
class Windows:
    folder: Path
    environment: dict[str, str]

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            ["wine", *command],
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        # On a busy machine Wine tells of its own server, when that lets a process go.
        said = re.sub(r"^wine client error:.*\n?", "", result.stderr, flags=re.MULTILINE)
        return subprocess.CompletedProcess(result.args, result.returncode, result.stdout, said)


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT)


def build(folder: Path) -> None:
    amalgamate: list[str | Path] = [
        sys.executable,
        ROOT / "tools" / "amalgamate.py",
        "--system",
        "windows",
    ]
    run(*amalgamate, "--output", folder / "loft.cc")
    run(*amalgamate, "--loaded", "--output", folder / "dll.cc")
    compile_loft: list[str | Path] = [CLANG, *FLAGS, f"-I{ROOT / 'include'}", "-c"]
    sources = [(folder / "loft.cc", folder / "loft.o"), (folder / "dll.cc", folder / "dll.o")]
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(lambda pair: run(*compile_loft, pair[0], "-o", pair[1]), sources):
            pass
    gcc = [f"{MINGW}-gcc-posix", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin"]
    everyday, loft = HERE / "windows_everyday.c", folder / "loft.o"
    table = ROOT / "cmake" / "loft.def"
    archive = f"-Wl,--out-implib,{folder / 'libloft.dll.a'}"
    run(*gcc, "-shared", folder / "dll.o", table, "-o", folder / "loft.dll", archive, *LIBRARIES)
    run(*gcc, ROOT / "launcher" / "windows_run.c", "-o", folder / "loft-run.exe")
    run(*gcc, everyday, "-o", folder / "plain.exe")
    run(*gcc, everyday, loft, "-o", folder / "linked.exe", *LIBRARIES)
    names = ["-DLOFT_NAMES", f"-I{ROOT / 'include'}"]
    run(*gcc, *names, everyday, loft, "-o", folder / "names.exe", *LIBRARIES)
    asked: list[str | Path] = ["-Wl,-u,loft_version", folder / "libloft.dll.a"]
    run(*gcc, everyday, *asked, "-o", folder / "importing.exe")
    gxx = [f"{MINGW}-g++-posix", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror"]
    pages: list[str | Path] = [f"-I{ROOT / 'src'}", HERE / "windows_pages.cc", loft]
    run(*gxx, "-fno-builtin", *pages, "-static", "-o", folder / "pages.exe", *LIBRARIES)
    run(*gxx, HERE / "windows_program.cc", "-o", folder / "program.exe")
    for name in ("libstdc++-6.dll", "libgcc_s_seh-1.dll", "libwinpthread-1.dll"):
        where = subprocess.run(
            [gxx[0], f"-print-file-name={name}"], check=True, capture_output=True, text=True
        )
        shutil.copy(where.stdout.strip(), folder)


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Windows]:
    folder = tmp_path_factory.mktemp("windows")
    prefix = folder / "prefix"
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"} | {
        "WINEPREFIX": str(prefix),
        "WINEDEBUG": "-all",
        # Nothing that asks a person, no entries in anybody's menu, and no debugger that speaks.
        "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe,winedbg.exe=d",
        "HOME": str(folder),
    }
    with ThreadPoolExecutor() as pool:
        started = pool.submit(
            subprocess.run,
            ["wine", "wineboot", "--init"],
            env=environment,
            capture_output=True,
            check=True,
        )
        build(folder)
        started.result()
    yield Windows(folder, environment)
    subprocess.run(["wineserver", "-k"], env=environment, check=False)


STARTS = {
    "linked": ["linked.exe"],
    "importing": ["importing.exe"],
    "launched": ["loft-run.exe", "plain.exe"],
}
CASES = ("exchange", "threads", "corners", "home", "aligned", "foreign", "expand")


@pytest.mark.parametrize("how", STARTS)
@pytest.mark.parametrize("what", CASES)
def test_programs_do_their_work(windows: Windows, how: str, what: str) -> None:
    result = windows.run(*STARTS[how], what)
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@pytest.mark.parametrize("owner", ["core", "shared"])
@pytest.mark.parametrize("what", ["exchange", "threads"])
def test_under_the_other_owners(windows: Windows, owner: str, what: str) -> None:
    result = windows.run("names.exe", what, LOFT_OWNER=owner)
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@pytest.mark.parametrize("what", ["exchange", "threads", "corners", "home"])
def test_by_its_own_names_beside_the_runtime(windows: Windows, what: str) -> None:
    result = windows.run("names.exe", what, LOFT_BACKGROUND="on")
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@pytest.mark.parametrize("how", STARTS)
def test_misuse_is_reported_and_ends_the_process(windows: Windows, how: str) -> None:
    result = windows.run(*STARTS[how], "double-free")
    assert "loft: double free of 0x" in result.stderr
    assert (result.stdout, result.returncode) == ("", ABORTED)


@pytest.mark.parametrize("hardened", ["off", "full"])
@pytest.mark.parametrize("how", ["importing", "launched"])
def test_runtimes_and_names_that_come_later(windows: Windows, how: str, hardened: str) -> None:
    result = windows.run(*STARTS[how], "late", LOFT_HARDENED=hardened)
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@pytest.mark.parametrize("how", STARTS)
def test_a_walk_of_the_heap_is_refused(windows: Windows, how: str) -> None:
    result = windows.run(*STARTS[how], "walk")
    assert (result.stdout, result.returncode) == ("0 refused\nok\n", 0)
    assert "loft: a heap is not walked" in result.stderr


def test_the_program_alone_does_the_same(windows: Windows) -> None:
    # So that what passes above is not the emulator's doing.
    assert windows.run("plain.exe", "corners").stdout == "ok\n"
    assert "loft" not in windows.run("plain.exe", "double-free").stderr


def test_a_program_in_cxx_with_its_libraries(windows: Windows) -> None:
    result = windows.run("loft-run.exe", "program.exe", LOFT_STATS="json")
    assert (result.stdout, result.returncode) == ("ok\n", 0)
    assert '"allocated_bytes"' in result.stderr


def test_the_system_floor(windows: Windows) -> None:
    result = windows.run("pages.exe", LOFT_TEST_SET="yes")
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


def test_the_launcher_says_what_is_wrong(windows: Windows) -> None:
    assert "usage: loft-run" in windows.run("loft-run.exe").stderr
    result = windows.run("loft-run.exe", "nowhere.exe")
    assert "loft-run: the program cannot be started" in result.stderr
    assert result.returncode == 127


def test_a_program_keeps_its_code(windows: Windows) -> None:
    assert windows.run("loft-run.exe", "plain.exe", "nothing").returncode == 2


def test_no_storage_of_threads_is_emulated(windows: Windows) -> None:
    # Emulated, it is allocated by malloc, which asks for it.
    names = subprocess.run(
        [f"{MINGW}-nm", windows.folder / "loft.o"], check=True, capture_output=True, text=True
    ).stdout
    assert "__emutls" not in names
    assert "_tls_index" in names


def test_the_library_shows_what_the_header_declares(windows: Windows) -> None:
    listed = {
        line.strip() for line in (ROOT / "cmake" / "loft.def").read_text().splitlines()[3:] if line
    }
    names = subprocess.run(
        [f"{MINGW}-nm", "-g", "--defined-only", windows.folder / "dll.o"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    defined = {line.split()[2] for line in names.splitlines() if " T loft_" in line}
    assert listed == defined
