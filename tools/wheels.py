#!/usr/bin/env python3
"""Builds the wheels that `pip install loft-malloc` takes, and the sdist that it takes elsewhere.

    tools/wheels.py                         all of them, in build/wheels
    tools/wheels.py manylinux-x86_64 ...    some, without the sdist

One for each machine and C library, as cibuildwheel would build them, without its images: from the
sdist, by pip, with a compiler that aims at an old C library; auditwheel looks at what came out of
it and puts the tag on. A wheel serves every Python from 3.9 on. Of one commit, two runs in two
places give equal bytes.
"""

import argparse
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import musl_root
from auditwheel import main_repair  # type: ignore[import-untyped]
from package_base import ROOT, PackageError, environment, epoch, loft_version, run

Defines = dict[str, str]


class Target(NamedTuple):
    machine: str
    compiler: str
    platform: str  # of C libraries, with the oldest version
    libc: Callable[[Path, str, str], Defines]  # what CMake is to know, and a folder for it

    @property
    def tag(self) -> str:
        return f"{self.platform}_{self.machine}"

    def defines(self, folder: Path) -> Defines:
        found = {"CMAKE_CXX_COMPILER": self.compiler}
        if self.machine != "x86_64":
            found |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": self.machine}
        return found | self.libc(folder, self.machine, self.compiler)


def glibc(folder: Path, machine: str, compiler: str) -> Defines:
    return {"LOFT_GLIBC": "2.28"}


def musl(folder: Path, machine: str, compiler: str) -> Defines:
    musl_root.write(folder, machine, compiler)
    return musl_root.defines(folder, machine, compiler)


COMPILERS = {"x86_64": "g++", "aarch64": "aarch64-linux-gnu-g++"}
TARGETS = {
    f"{name}-{machine}": Target(machine, compiler, platform, libc)
    for name, platform, libc in (
        ("manylinux", "manylinux_2_28", glibc),
        ("musllinux", "musllinux_1_2", musl),
    )
    for machine, compiler in COMPILERS.items()
}


def pip(*arguments: str | Path, **variables: str) -> None:
    """With the backend that is installed here, and no other: no network is needed."""
    env = {**environment(epoch()), **variables}
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, env=env)


def sdist(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    make = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", make, out, env=environment(epoch()))
    return out / f"loft_malloc-{loft_version()}.tar.gz"


def build(name: str, source: Path, out: Path) -> Path:
    """One wheel, from the sdist. Its folders' names are not in it, wherever they are."""
    target = TARGETS[name]
    with TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        with tarfile.open(source) as archive:
            archive.extractall(work, filter="data")
        (unpacked,) = work.iterdir()
        defines = target.defines(work / "libc")
        here = f"-ffile-prefix-map={work}=."
        defines["CMAKE_CXX_FLAGS"] = " ".join([defines.get("CMAKE_CXX_FLAGS", ""), here]).strip()
        pip(
            *("wheel", "--no-deps", "--no-build-isolation", "--check-build-dependencies"),
            *(f"--config-settings=cmake.define.{key}={value}" for key, value in defines.items()),
            *(f"--config-settings=build-dir={work / 'build'}", "-w", work / "wheel", unpacked),
            _PYTHON_HOST_PLATFORM=f"linux-{target.machine}",
        )
        (wheel,) = (work / "wheel").glob("*.whl")
        return repaired(wheel, target.tag, out)


def repaired(wheel: Path, tag: str, out: Path) -> Path:
    """auditwheel refuses what asks for more than the tag promises. There is nothing to graft.

    Its command knows this machine's processor alone; what it calls knows them all.
    """
    parser = argparse.ArgumentParser("auditwheel", usage=argparse.SUPPRESS)
    asked = argparse.Namespace(
        WHEEL_FILE=[wheel],
        WHEEL_DIR=out,
        PLAT=tag,
        ONLY_PLAT=True,
        PATCHER="none",
        LIB_SDIR=".libs",
        UPDATE_TAGS=True,
        STRIP=False,
        EXCLUDE=[],
        # Not where this machine's own libraries are, for which nothing was built.
        LDPATHS=str(wheel.parent),
        ZIP_COMPRESSION_LEVEL=9,
        DISABLE_ISA_EXT_CHECK=False,
        ALLOW_PURE_PY_WHEEL=False,
    )
    # The moment that the files in it bear.
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    try:
        refused = main_repair.execute(asked, parser)
    except (SystemExit, ValueError) as error:
        raise PackageError(f"auditwheel does not call {wheel.name} {tag}: {error}") from None
    if refused:
        raise PackageError(f"auditwheel finds nothing compiled in {wheel.name}")
    return out / f"loft_malloc-{loft_version()}-py3-none-{tag}.whl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "wheels", metavar="FOLDER")
    asked = parser.parse_args()
    for name in asked.targets:
        if name not in TARGETS:
            sys.exit(f"wheels: {name} is no target; there are {', '.join(TARGETS)}")
    out = asked.output.resolve()
    try:
        with TemporaryDirectory() as folder:
            source = sdist(Path(folder) if asked.targets else out)
            if not asked.targets:
                print(source)
            for name in asked.targets or TARGETS:
                print(build(name, source, out))
    except PackageError as error:
        sys.exit(f"wheels: {error}")


if __name__ == "__main__":
    main()
