"""What of a command, or of a running process, matters to loft: above all, whose malloc it has."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from loft import elf, places, preload, program
from loft.finding import Finding
from loft.machine import Machine

# They define malloc too, and give way to whoever is loaded before them.
LIBC = re.compile(r"(libc[.-]|ld[-.]|libc\.musl)")
TRACE_LIMIT_S = 20


def check_library() -> Finding:
    return Finding("ok", "library", str(places.library()), "this is what will be preloaded")


def check_environment(machine: Machine) -> Iterator[Finding]:
    for entry in preload.entries(machine.environment.get("LD_PRELOAD", "")):
        path = Path(entry)
        if "/" in entry and not path.exists():
            yield Finding(
                "warning",
                "LD_PRELOAD",
                entry,
                "there is no such file: the loader complains in every program and goes on",
                "correct the variable, or unset it",
            )
        elif elf.replaces_malloc(path) and not _is_loft(path):
            yield Finding(
                "note",
                "LD_PRELOAD",
                entry,
                "brings a malloc of its own; loft run puts loft before it, and loft's is used",
                "unset LD_PRELOAD, if you do not want it for another reason",
            )
        else:
            yield Finding("ok", "LD_PRELOAD", entry, "stays preloaded, behind loft")


def check_command(command: list[str], machine: Machine) -> Iterator[Finding]:
    path = program.find(command[0])
    what = "program"
    if reason := program.obstacle(path, program.User.current()):
        yield Finding(
            "warning",
            what,
            str(path),
            reason,
            "link the program with loft, if it is yours",
            blocks=True,
        )
        return
    last = list(program.chain(path))[-1]
    yield from _own_malloc(last)
    for library in _libraries(last):
        if elf.replaces_malloc(library):
            yield _linked(library)
    yield from _python(last, machine)


def _own_malloc(path: Path) -> Iterator[Finding]:
    what, value = "program", str(path)
    described = elf.read(path)
    names = frozenset[str]() if described is None else described.exported | described.defined
    if "loft_malloc" in names:
        yield Finding("ok", what, value, "is linked with loft: nothing needs to be preloaded")
    elif "malloc" in names:
        yield Finding(
            "warning",
            what,
            value,
            "defines a malloc of its own, which comes before any that is preloaded",
            "build it without its allocator, where it has a switch for that, and link loft",
            blocks=True,
        )
    else:
        yield Finding("ok", what, value, "takes malloc from a library, so that loft's can be it")


def _linked(library: Path) -> Finding:
    if _is_loft(library):
        return Finding("ok", "linked library", str(library), "the program is linked with loft")
    return Finding(
        "note",
        "linked library",
        str(library),
        "brings a malloc of its own; one that is preloaded comes first, and loft's is used",
        "nothing; without it the program would start a little faster",
    )


def _python(path: Path, machine: Machine) -> Iterator[Finding]:
    if re.match(r"python[0-9.]*$", path.name) and "PYTHONMALLOC" not in machine.environment:
        yield Finding(
            "note",
            "PYTHONMALLOC",
            "not set",
            "Python takes memory in large pieces and keeps small objects to itself",
            "PYTHONMALLOC=malloc loft run ... gives them to loft",
        )


def _libraries(path: Path) -> list[Path]:
    """What the program's own loader would load; it stops before any of the program runs."""
    described = elf.read(path)
    if described is None or described.interpreter is None:
        return []
    try:
        listed = subprocess.run(
            [described.interpreter, "--list", path],
            capture_output=True,
            text=True,
            timeout=TRACE_LIMIT_S,
            env={},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.findall(r"^\s(?:.* => )?(/\S+) \(", listed, re.MULTILINE)
    return [Path(name) for name in found if not LIBC.match(Path(name).name)]


def check_process(machine: Machine) -> Iterator[Finding]:
    mapped = {line.split(maxsplit=5)[5] for line in _file_lines(machine.of_process("maps"))}
    libraries = [Path(name) for name in sorted(mapped) if not LIBC.match(Path(name).name)]
    with_malloc = [path for path in libraries if elf.replaces_malloc(path)]
    what = f"process {machine.process}"
    if any(_is_loft(path) for path in with_malloc):
        yield Finding("ok", what, "loft is loaded", "malloc is loft's, if nothing is before it")
    else:
        yield Finding(
            "note",
            what,
            "loft is not loaded",
            "an allocator cannot be exchanged while a program runs",
            "start it again: loft run -- ...",
        )
    for path in with_malloc:
        if not _is_loft(path):
            yield Finding(
                "note",
                what,
                str(path),
                "brings a malloc of its own",
                "see LD_PRELOAD, and what the program is linked with",
            )


def _file_lines(maps: str) -> list[str]:
    return [line for line in maps.splitlines() if re.search(r" /", line)]


def _is_loft(path: Path) -> bool:
    described = elf.read(path)
    return described is not None and "loft_malloc" in described.exported
