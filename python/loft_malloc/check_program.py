"""What of a command, or of a running process, matters to loft: above all, whose malloc it has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from loft_malloc import allocators, elf, embedded, linked, options, places, preload, program
from loft_malloc.finding import Finding, finding
from loft_malloc.machine import Machine

# How the kernel marks a file that is no longer in its folder.
DELETED = " (deleted)"
# The program, and the library that it mostly is.
PYTHON = re.compile(r"(lib)?python[0-9.]*t?(\.so\b.*)?$")


def check_library() -> Finding:
    return finding("library.found", places.library())


def check_environment(machine: Machine) -> Iterator[Finding]:
    for complaint in options.misspelt(machine.environment):
        yield finding("variable.misspelt", complaint)
    for entry in preload.entries(machine.environment.get("LD_PRELOAD", "")):
        file = allocators.preloaded(entry, machine.environment)
        if "/" in entry and not Path(entry).exists():
            yield finding("preload.missing", entry)
        elif elf.is_loft(file):
            yield finding("preload.loft", entry)
        elif elf.replaces_malloc(file):
            yield finding("preload.malloc", entry)
        else:
            yield finding("preload.other", entry)


def check_command(command: list[str], machine: Machine) -> Iterator[Finding]:
    path = program.executed(command)
    if reason := program.obstacle(path, program.User.current()):
        case = "program.go" if program.is_static_go(program.last(path)) else "program.obstacle"
        yield finding(case, path, reason=reason)
        return
    last = program.last(path)
    yield from _own_malloc(last)
    for library in linked.allocators(last):
        yield _linked(last, library)
    for library in embedded.libraries(last):
        yield from contained("linked library", library)
    if PYTHON.match(last.name) and "PYTHONMALLOC" not in machine.environment:
        yield finding("python.unset", "not set")


def _own_malloc(path: Path) -> Iterator[Finding]:
    if elf.is_loft(path):
        yield finding("program.loft", path)
    elif elf.defines_malloc(path):
        names = " and ".join(each.allocator for each in embedded.allocators(path))
        yield finding("program.malloc", path, names=names and f" ({names})")
    elif embedded.allocators(path):
        yield from contained("program", path)
    else:
        yield finding("program.usual", path)


def contained(what: str, file: Path, name: Path | None = None) -> Iterator[Finding]:
    """The allocators in a file, which a process may know by another name."""
    level = "warning" if what == "program" else "note"
    for each in embedded.allocators(file):
        pythons = PYTHON.match(file.name) and each.allocator == "mimalloc"
        case = "contained.python" if pythons else "contained.other"
        yield finding(case, name or file, what=what, level=level, allocator=each)


def _linked(program: Path, library: Path) -> Finding:
    if elf.is_loft(library):
        return finding("linked.loft", library)
    if name := embedded.taken_from(program, library):
        return finding("linked.called", library, name=name)
    return finding("linked.malloc", library)


def check_process(machine: Machine) -> Iterator[Finding]:
    mapped = _mapped(machine)
    process = machine.process
    serving = _serving(machine, mapped)
    lofts = {name for name, file in mapped.items() if _is_loft(name, file)}
    case = "loft" if serving in lofts else "shadowed" if lofts else "without"
    said = f"{serving or 'the C library'} serves malloc"
    yield finding(f"process.{case}", said, process=process)
    for name, file in mapped.items():
        if elf.replaces_malloc(file) and name not in lofts:
            if name != serving:
                yield finding("process.unused", name, process=process)
        elif file is not None:
            yield from contained(f"process {process}", file, name)


def _serving(machine: Machine, mapped: dict[Path, Path | None]) -> Path | None:
    """Whose malloc the loader has bound; None: the C library's.

    It looks into the program, into what is preloaded, and then into the libraries that each of them
    asks for, in that order. What a program opens while it runs comes after all of these.
    """
    read = {name: elf.read(file) for name, file in mapped.items()}
    by_name: dict[str, Path] = {}
    for name, described in read.items():
        plain = name.name.removesuffix(DELETED)
        for each in (plain, described.soname if described is not None else ""):
            by_name.setdefault(each, name)
    order = _order(machine, read, by_name)
    if not order:
        # Another user's: whatever brings a malloc.
        order = list(mapped)
    for name in order:
        described = read[name]
        if described is None:
            if _is_loft(name, None):
                return name
        elif "malloc" in described.exported or (elf.is_loft(mapped[name]) and not described.soname):
            return name
    return None


def _order(
    machine: Machine, read: dict[Path, elf.Elf | None], by_name: dict[str, Path]
) -> list[Path]:
    try:
        program = (machine.proc / machine.process / "exe").readlink()
    except OSError:
        return []
    preloaded = preload.entries(machine.environment.get("LD_PRELOAD", ""))
    # A symbolic link is mapped by the name of what it leads to.
    names = [os.path.realpath(each) if "/" in each else each for each in preloaded]
    found = [by_name.get(Path(each).name) for each in names]
    order = [name for name in (program, *found) if name in read]
    for name in order:
        described = read[name]
        needed = [by_name.get(each) for each in described.needed] if described is not None else []
        order += [each for each in dict.fromkeys(needed) if each is not None and each not in order]
    return order


def _mapped(machine: Machine) -> dict[Path, Path | None]:
    """The libraries of a process as it names them, and where each can be read."""
    spans: dict[Path, str] = {}
    for line in machine.of_process("maps").splitlines():
        if " /" in line:
            span, *_, name = line.split(maxsplit=5)
            spans.setdefault(Path(name), span)
    names = [name for name in sorted(spans) if not linked.is_libc(name)]
    return {name: _file(machine, spans[name], str(name)) for name in names}


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
