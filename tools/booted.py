#!/usr/bin/env python3
"""Runs the unit, surface and storm tests on a Linux that QEMU boots: Debian's kernel, and nothing
else of a system.

    tools/booted.py x86_64|aarch64 [WORD]...     # the programs with a word in their names, or all

It shows what neither this kernel nor QEMU's way of playing single programs does: what an older
kernel does, and what a kernel for another processor does. The tests have to be built (`make
booted`). cmake/machines/left_out_booted.txt says which may fail, and why.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = ROOT / "cmake" / "machines" / "left_out_booted.txt"
INIT = ROOT / "test" / "elsewhere" / "booted_init.sh"
# It ends a test that hangs: QEMU compiles each program anew, and some fill gigabytes.
TEST_LIMIT_S = 1500
MEMORY = "6G"
APPLETS = ("cat", "mkdir", "mount", "poweroff", "sed", "sh", "sleep", "timeout", "true", "uname")


@dataclass
class Machine:
    name: str
    debian: str  # Debian's name for it
    tools: str  # how the names of its compiler and linker begin
    qemu: list[str]
    console: str

    def build(self) -> Path:
        return ROOT / "build" if self.name == "x86_64" else ROOT / "build" / self.name

    def folder(self) -> Path:
        return ROOT / "build" / "booted" / self.name


MACHINES = [
    Machine("x86_64", "amd64", "", ["qemu-system-x86_64", "-M", "q35"], "ttyS0"),
    Machine(
        "aarch64",
        "arm64",
        "aarch64-linux-gnu-",
        ["qemu-system-aarch64", "-M", "virt"],
        "ttyAMA0",
    ),
]


def said(*command: str | Path, at: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=at, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"booted: {command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def fetch(machine: Machine) -> Path:
    """Debian's kernel and shell for the machine, unpacked. The packages here stay as they are."""
    state = machine.folder() / "apt"
    unpacked = machine.folder() / "debian"
    if (unpacked / "boot").is_dir():
        return unpacked
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    apart = [
        f"-oAPT::Architecture={machine.debian}",
        f"-oAPT::Architectures={machine.debian}",
        f"-oDir::State={state}",
        f"-oDir::Cache={state}",
        f"-oDir::State::status={state / 'status'}",
        "-oAPT::Sandbox::User=root",
    ]
    print("booted: fetching Debian's list of packages, and a kernel of 60 MB", flush=True)
    said("apt-get", *apart, "update")
    pattern = rf"^linux-image-[0-9.]+-[0-9]+-{machine.debian}-unsigned$"
    found = said("apt-cache", *apart, "search", "--names-only", pattern).split("\n")
    kernels = sorted(line.split(" ")[0] for line in found if line)
    if not kernels:
        sys.exit(f"booted: Debian's list has no kernel for {machine.debian}")
    said("apt-get", *apart, "download", kernels[-1], "busybox-static", at=state)
    for package in state.glob("*.deb"):
        said("dpkg-deb", "-x", package, unpacked)
        package.unlink()
    return unpacked


def libraries(machine: Machine, program: Path) -> Iterator[tuple[Path, Path]]:
    """What the program needs: where it is here, and where the program looks for it."""
    text = said(f"{machine.tools}readelf", "-ld", program)
    loader = re.search(r"interpreter: (\S+)\]", text)
    assert loader is not None
    names = re.findall(r"Shared library: \[([^]]+)\]", text)
    places = [Path(loader[1]), *(Path("/lib") / name for name in names)]
    for place in places:
        here = said(f"{machine.tools}gcc", f"-print-file-name={place.name}").strip()
        yield Path(here).resolve(), place


def tests(machine: Machine, words: list[str]) -> list[Path]:
    programs = [
        path
        for kind in ("unit", "surface", "storm")
        for path in sorted((machine.build() / "test" / kind).glob(f"{kind}*_tests"))
        if not words or any(word in path.name for word in words)
    ]
    if not programs:
        sys.exit(f"booted: no test in {machine.build() / 'test'}; `make booted` builds them")
    return programs


def pack(root: Path, image: Path) -> Path:
    """What a kernel unpacks at its start."""
    listed = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    packed = subprocess.run(
        ["cpio", "--quiet", "-o", "-H", "newc"],
        cwd=root,
        input=listed.encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    image.write_bytes(gzip.compress(packed.stdout, 1))
    return image


def make_root(machine: Machine, debian: Path, programs: list[Path]) -> Path:
    """A root as a kernel unpacks it at its start. The programs have the paths they have here."""
    root = machine.folder() / "root"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "dev", "proc", "sys", "tmp", "var/tmp"):
        (root / folder).mkdir(parents=True)
    shutil.copy(debian / "bin" / "busybox", root / "bin")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    (root / "init").write_text(INIT.read_text().replace("LIMIT", str(TEST_LIMIT_S)))
    (root / "init").chmod(0o755)
    (root / "programs").write_text("".join(f"{program}\n" for program in programs))
    beside = {path for program in programs for path in program.parent.glob("*.so")}
    for program in [*programs, *sorted(beside)]:
        to = root / program.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        said(f"{machine.tools}strip", "--strip-debug", "-o", to, program)
    for here, there in libraries(machine, programs[0]):
        to = root / there.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here, to)
    return pack(root, machine.folder() / "root.gz")


def boot(machine: Machine, debian: Path, image: Path) -> Iterator[str]:
    """The lines that the machine writes."""
    kernel = next((debian / "boot").glob("vmlinuz-*"))
    command = [*machine.qemu, "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", "2"]
    command += ["-m", MEMORY, "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]
    command += ["-kernel", str(kernel), "-initrd", str(image)]
    # A machine that QEMU plays on a busy one has a clock that the kernel finds too slow to trust.
    command += ["-append", f"console={machine.console} quiet no_timer_check panic=-1"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip()


def left_out(machine: str) -> re.Pattern[str]:
    lines = [line for line in LEFT_OUT.read_text().splitlines() if line and line[0] != "#"]
    kept = [pattern for name, pattern in map(str.split, lines) if name == machine]
    return re.compile("|".join(kept) or "(?!)")


def judge(lines: Iterable[str], expected: re.Pattern[str], programs: int) -> bool:
    """Tells what the lines say. True if all ran to the end, and none failed but those that may."""
    passed = failed = left = done = 0
    wrong = 0  # in the program that runs
    ended = False
    for line in lines:
        word, *rest = line.split(" ")
        if word == "FAILED" and len(rest) == 3:
            name = f"{rest[0].split('_')[0]}.{rest[1]}"
            wrong += 1
            may = expected.match(name) is not None
            left += may
            failed += not may
            print(f"{'left out' if may else 'failed'}: {name} (status {rest[2]})")
        elif word == "DONE" and len(rest) == 2:
            done += 1
            count = int(rest[1])
            if count == 0:
                failed += 1
                print(f"failed: {rest[0]} does not start")
            passed += count - wrong
            wrong = 0
            print(f"[{done}/{programs}] {rest[0]}: {count} tests", flush=True)
        elif line == "END":
            ended = True
        else:
            print(line)
    if not ended:
        print("booted: the machine ended before its tests did")
    print(f"{passed} passed, {failed} failed, {left} left out")
    return ended and done == programs and failed == 0 and passed > 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("machine", choices=[machine.name for machine in MACHINES])
    parser.add_argument("words", nargs="*", metavar="WORD")
    arguments = parser.parse_args()
    machine = next(each for each in MACHINES if each.name == arguments.machine)
    programs = tests(machine, arguments.words)
    debian = fetch(machine)
    image = make_root(machine, debian, programs)
    good = judge(boot(machine, debian, image), left_out(machine.name), len(programs))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
