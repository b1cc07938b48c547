"""loft where it is at home less: with musl, and on processors that an emulator plays.

All are built from the single file with Debian's compilers. Debian has no libstdc++ for musl;
loft needs its headers alone, and of those that differ by system the folder musl/ has musl's.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
OWNERS = ("thread", "cpu", "shared")
FLAGS = [
    "-std=c++20",
    "-O2",
    "-DNDEBUG",
    "-fPIC",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fasynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
]


@dataclass(frozen=True)
class Place:
    library: Path
    program: Path
    stack: Path  # a program that is linked with loft, and looks at its stacks
    start: list[str]  # what runs the program
    before_a_variable: list[str]  # what that wants to see there
    # qemu 7.2 numbers a thread that a fork's child starts as one that the parent had, and aborts.
    child_may_start_threads: bool = True
    # Its C library has what libgcc asks for code.
    has_stacks: bool = True

    def run(self, what: str, owner: str) -> subprocess.CompletedProcess[str]:
        command = list(self.start)
        # The programs have one thread, beside which none of loft's would be by itself.
        background = "on" if self.child_may_start_threads or what != "fork" else "off"
        preload = f"LD_PRELOAD={self.library}"
        for variable in (preload, f"LOFT_OWNER={owner}", f"LOFT_BACKGROUND={background}"):
            command += [*self.before_a_variable, variable]
        command += [str(self.program), what]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def place_with(
    folder: Path, cxx: list[str], cc: list[str], start: list[str], before_a_variable: list[str]
) -> Place:
    single = folder / "loft.cc"
    library = folder / "libloft.so"
    program = folder / "everyday"
    amalgamate = ROOT / "tools" / "amalgamate.py"
    subprocess.run([sys.executable, amalgamate, "--output", single], check=True)
    inspect = folder / "loft_inspect.cc"
    subprocess.run([sys.executable, amalgamate, "--inspect", "--output", inspect], check=True)
    loft, stack, parts = folder / "loft.o", folder / "stack.o", folder / "parts.o"
    for source, compiled in ((single, loft), (HERE / "stack.cc", stack), (inspect, parts)):
        subprocess.run(
            [*cxx, *FLAGS, f"-I{ROOT / 'include'}", "-c", source, "-o", compiled], check=True
        )
    # As CMake does. What no library has is told here, and not looked for inside of malloc.
    shared = ["-shared", "-nodefaultlibs", "-Wl,-z,now,--no-undefined"]
    subprocess.run([*cxx, *shared, loft, "-o", library, "-lc", "-lgcc"], check=True)
    flags = ["-O1", "-fno-builtin", "-pthread"]
    subprocess.run([*cc, *flags, HERE / "everyday.c", "-o", program], check=True)
    # And libloft-inspect as one object, with libgcc's unwinder in it.
    whole = folder / "loft_inspect.o"
    wrapped = "-Wl,--wrap=_dl_find_object,--wrap=dl_iterate_phdr,--wrap=_Unwind_Find_FDE"
    libgcc = said(*cxx, "-print-file-name=libgcc_eh.a")
    subprocess.run([*cxx, "-r", "-nostdlib", wrapped, parts, libgcc, "-o", whole], check=True)
    objcopy = said(*cxx, "-print-prog-name=objcopy")
    subprocess.run([objcopy, "--keep-global-symbol=loft_inspect", whole], check=True)
    subprocess.run([*cc, "-pthread", loft, stack, whole, "-o", folder / "stack"], check=True)
    return Place(library, program, folder / "stack", start, before_a_variable)


def said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def musl(folder: Path) -> Place:
    version = said("g++", "-dumpversion")
    target = said("g++", "-dumpmachine")
    # The kernel's own headers, which go with any C library.
    kernel = folder / "kernel"
    kernel.mkdir()
    for name in ("linux", f"{target}/asm", "asm-generic"):
        (kernel / Path(name).name).symlink_to(Path("/usr/include") / name)
    headers = (
        HERE / "musl",
        f"/usr/include/c++/{version}",
        f"/usr/include/{target}/c++/{version}",
        "/usr/include/x86_64-linux-musl",
        kernel,
        said("g++", "-print-file-name=include"),
    )
    cxx = ["g++", "-nostdinc", "-nostdinc++", "-nostartfiles", "-L/usr/lib/x86_64-linux-musl"]
    for path in headers:
        cxx += ["-isystem", str(path)]
    return replace(place_with(folder, cxx, ["musl-gcc"], ["env"], []), has_stacks=False)


def emulated(folder: Path, machine: str) -> Place:
    emulator = [f"qemu-{machine}", "-L", f"/usr/{machine}-linux-gnu"]
    cxx, cc = ([f"{machine}-linux-gnu-{compiler}"] for compiler in ("g++", "gcc"))
    return replace(place_with(folder, cxx, cc, emulator, ["-E"]), child_may_start_threads=False)


def aarch64(folder: Path) -> Place:
    return emulated(folder, "aarch64")


def riscv64(folder: Path) -> Place:
    return emulated(folder, "riscv64")


PLACES: dict[str, Callable[[Path], Place]] = {"musl": musl, "aarch64": aarch64, "riscv64": riscv64}


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return PLACES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("what", ["exchange", "fork", "corners", "home", "holes"])
def test_programs_do_their_work(place: Place, what: str, owner: str) -> None:
    result = place.run(what, owner)
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


def test_stacks_are_followed(place: Place) -> None:
    command = [*place.start, str(place.stack)]
    if not place.has_stacks:
        command.append("none")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    if place.has_stacks:
        assert (result.stdout, result.stderr) == ("ok\n", "")
    else:
        assert result.stdout == "0 frames\n"
        assert result.stderr.startswith("loft: there are no stacks: the C library has no ")


def test_an_emulator_with_larger_pages_is_not_believed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # To a discard that these do not divide it answers "done", and does nothing.
    emulator = ["qemu-x86_64", "-p", "16384"]
    place = place_with(tmp_path_factory.mktemp("pages"), ["g++"], ["gcc"], emulator, ["-E"])
    result = place.run("holes", "thread")
    assert (result.stdout, result.stderr, result.returncode) == ("ok\n", "", 0)


@pytest.mark.parametrize("owner", OWNERS)
def test_misuse_is_reported(place: Place, owner: str) -> None:
    result = place.run("double-free", owner)
    assert "loft: double free" in result.stderr
    assert result.returncode in (-signal.SIGABRT, 128 + signal.SIGABRT)
