"""What of a command, or of a running process, matters to loft: above all, whose malloc it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from loft import allocators, elf, embedded, linked, options, places, preload, program
from loft.finding import Finding
from loft.machine import Machine

# How the kernel marks a file that is no longer in its folder.
DELETED = " (deleted)"
# The program, and the library that it mostly is.
PYTHON = re.compile(r"(lib)?python[0-9.]*t?(\.so\b.*)?$")


def check_library() -> Finding:
    return Finding("ok", "library", str(places.library()), "this is what will be preloaded")


def check_environment(machine: Machine) -> Iterator[Finding]:
    for complaint in options.misspelt(machine.environment):
        yield Finding(
            "warning",
            "variable",
            complaint,
            "a variable that is no option is taken for somebody else's, and nothing is said of it",
            "correct its name, or leave it if it is another program's",
        )
    for entry in preload.entries(machine.environment.get("LD_PRELOAD", "")):
        file = allocators.preloaded(entry, machine.environment)
        if "/" in entry and not Path(entry).exists():
            yield Finding(
                "warning",
                "LD_PRELOAD",
                entry,
                "there is no such file: the loader complains in every program and goes on",
                "correct the variable, or unset it",
            )
        elif file is not None and elf.is_loft(file):
            yield Finding("ok", "LD_PRELOAD", entry, "is loft; loft run puts its own in its place")
        elif file is not None and elf.replaces_malloc(file):
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
    path = program.executed(command)
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
    last = program.last(path)
    yield from _own_malloc(last)
    for library in linked.allocators(last):
        yield _linked(last, library)
    for library in embedded.libraries(last):
        yield from contained("linked library", library)
    yield from _python(last, machine)


def _own_malloc(path: Path) -> Iterator[Finding]:
    what, value = "program", str(path)
    if elf.is_loft(path):
        yield Finding("ok", what, value, "is linked with loft: nothing needs to be preloaded")
    elif elf.defines_malloc(path):
        names = " and ".join(each.allocator for each in embedded.allocators(path))
        yield Finding(
            "warning",
            what,
            value,
            f"defines a malloc of its own{names and f' ({names})'}, which comes before any that is "
            "preloaded",
            "build it without its allocator, where it has a switch for that, and link loft",
            blocks=True,
        )
    elif embedded.allocators(path):
        yield from contained(what, path)
    else:
        yield Finding("ok", what, value, "takes malloc from a library, so that loft's can be it")


def contained(what: str, file: Path, name: Path | None = None) -> Iterator[Finding]:
    """The allocators in a file, which a process may know by another name."""
    for each in embedded.allocators(file):
        if PYTHON.match(file.name) and each.allocator == "mimalloc":
            yield Finding(
                "note",
                what,
                str(name or file),
                f"contains {each}, which Python uses where PYTHONMALLOC=mimalloc asks for it, and "
                "where it has no global lock",
                "nothing, unless it is used; with the lock PYTHONMALLOC=malloc avoids it",
            )
        else:
            yield Finding(
                "warning" if what == "program" else "note",
                what,
                str(name or file),
                f"contains {each}: what it takes from that allocator stays there, and only what it "
                "takes from malloc is loft's; loft compare measures that part alone",
                each.remedy,
            )


def _linked(program: Path, library: Path) -> Finding:
    if elf.is_loft(library):
        return Finding("ok", "linked library", str(library), "the program is linked with loft")
    if name := embedded.taken_from(program, library):
        return Finding(
            "warning",
            "linked library",
            str(library),
            f"brings an allocator that the program calls as {name}: what it takes so stays there, "
            "and only what is taken from malloc is loft's",
            "build the program without that allocator, where it has a switch for that",
        )
    return Finding(
        "note",
        "linked library",
        str(library),
        "brings a malloc of its own; one that is preloaded comes first, and loft's is used",
        "nothing; without it the program would start a little faster",
    )


def _python(path: Path, machine: Machine) -> Iterator[Finding]:
    if PYTHON.match(path.name) and "PYTHONMALLOC" not in machine.environment:
        yield Finding(
            "note",
            "PYTHONMALLOC",
            "not set",
            "Python takes memory in large pieces and keeps small objects to itself",
            "PYTHONMALLOC=malloc loft run ... gives them to loft",
        )


def check_process(machine: Machine) -> Iterator[Finding]:
    mapped = _mapped(machine)
    what = f"process {machine.process}"
    if any(_is_loft(name, file) for name, file in mapped.items()):
        yield Finding("ok", what, "loft is loaded", "malloc is loft's, if nothing is before it")
    else:
        yield Finding(
            "note",
            what,
            "loft is not loaded",
            "an allocator cannot be exchanged while a program runs",
            "start it again: loft run -- ...",
        )
    for name, file in mapped.items():
        if file is not None and elf.replaces_malloc(file) and not elf.is_loft(file):
            yield Finding(
                "note",
                what,
                str(name),
                "brings a malloc of its own",
                "see LD_PRELOAD, and what the program is linked with",
            )
        elif file is not None:
            yield from contained(what, file, name)


def _mapped(machine: Machine) -> dict[Path, Path | None]:
    """The libraries of a process as it names them, and where each can be read."""
    spans: dict[Path, str] = {}
    for line in _file_lines(machine.of_process("maps")):
        span, *_, name = line.split(maxsplit=5)
        spans.setdefault(Path(name), span)
    names = [name for name in sorted(spans) if not linked.is_libc(name)]
    return {name: _file(machine, spans[name], str(name)) for name in names}


def _file_lines(maps: str) -> list[str]:
    return [line for line in maps.splitlines() if re.search(r" /", line)]


def _file(machine: Machine, span: str, name: str) -> Path | None:
    """Where this file can be read from here; None if nowhere."""
    folder = machine.proc / machine.process
    path = name.removesuffix(DELETED)
    # In a container the process has a root of its own.
    files = [folder / "root" / path.lstrip("/"), Path(path)]
    if path != name:
        # Another file may have taken its place. Here the kernel writes no leading zeros.
        ends = [f"{int(end, 16):x}" for end in span.split("-")]
        files.insert(0, folder / "map_files" / "-".join(ends))
    return next((file for file in files if elf.read(file) is not None), None)


def _is_loft(name: Path, file: Path | None) -> bool:
    return name.name.startswith("libloft.so") if file is None else elf.is_loft(file)
