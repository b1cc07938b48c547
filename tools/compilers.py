"""The compilers that tests call: by ccache, where there is one, so that the same is made once."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path

Words = Sequence[str | PathLike[str]]

# Has loft take the functions of a library or program for the C library's own, which it calls past
# all others (src/os/calls.h): one that had this name was a part of glibc up to version 2.33.
AS_LIBC = "-Wl,-soname,libpthread.so.0"


def cached(compiler: str) -> list[str]:
    """How a command begins that compiles, and does not link: ccache keeps no programs."""
    return ["ccache", compiler] if shutil.which("ccache") else [compiler]


def link(
    compiler: str, sources: Iterable[Path], program: Path, flags: Words = (), libraries: Words = ()
) -> Path:
    """Compiles the sources, each by itself and beside the program, and links them."""
    every = list(sources)
    objects = [program.with_name(f"{program.name}.{at}.o") for at in range(len(every))]

    def compile_one(source: Path, to: Path) -> None:
        subprocess.run([*cached(compiler), *flags, "-c", source, "-o", to], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, every, objects))
    subprocess.run([compiler, *flags, *objects, "-o", program, *libraries], check=True)
    return program
