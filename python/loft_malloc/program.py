"""A command before it is run: what it will execute, and whether anything can be preloaded there."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loft_malloc import elf, embedded, places
from loft_malloc.errors import NOT_EXECUTABLE, NOT_FOUND, UserError

# A script's interpreter may be a script; the kernel follows as many.
MOST_INTERPRETERS = 5
# These execute their first word that is no option and sets no variable.
WRAPPERS = ("env", "nohup", "setsid")


@dataclass(frozen=True)
class User:
    """Whom the kernel takes us for when it decides about setuid programs."""

    uid: int
    gid: int

    @classmethod
    def current(cls) -> User:
        return cls(os.getuid(), os.getgid())


def find(name: str) -> Path:
    """The file that a shell would execute for this name."""
    if found := shutil.which(name):
        return Path(found)
    path = Path(name)
    if "/" not in name:
        raise UserError(f"there is no command {name!r} on the PATH", NOT_FOUND)
    if not path.exists():
        raise UserError(f"there is no file {name}", NOT_FOUND)
    if path.is_dir():
        raise UserError(f"{name} is a folder, not a command", NOT_EXECUTABLE)
    raise UserError(f"{name} is not executable; it may need chmod +x", NOT_EXECUTABLE)


def executed(command: list[str]) -> Path:
    """The file that a command comes to, behind those that only execute another."""
    path = find(command[0])
    while path.name in WRAPPERS and (command := _wrapped(command)):
        path = find(command[0])
    return path


def _wrapped(command: list[str]) -> list[str]:
    """The command that this one executes; empty if there is none of that name."""
    words = range(1, len(command))
    first = (i for i in words if not command[i].startswith("-") and "=" not in command[i])
    wrapped = command[next(first, len(command)) :]
    return wrapped if wrapped and shutil.which(wrapped[0]) else []


def chain(path: Path) -> Iterator[Path]:
    """The file, and if it is a script its interpreter, and so on to what is no script."""
    yield path
    for _ in range(MOST_INTERPRETERS):
        words = _interpreter_words(path)
        if not words:
            return
        path = Path(words[0])
        yield path
        if path.name == "env":
            if not (words := _wrapped(words)):
                return
            path = find(words[0])
            yield path


def last(path: Path) -> Path:
    """Whose process it is in the end: of the file, or of what interprets it."""
    return list(chain(path))[-1]


def _interpreter_words(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return []
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []


def obstacle(path: Path, user: User) -> str | None:
    """Why nothing can be preloaded into this program, in one line; None if something can."""
    for link in chain(path):
        if reason := _obstacle_in(link, user):
            of_script = "" if link == path else f", the interpreter of {path},"
            return f"{link}{of_script} {reason}"
    return None


def is_static_go(path: Path) -> bool:
    described = elf.read(path)
    is_static = described is not None and described.interpreter is None
    return is_static and any(each.allocator == embedded.GO for each in embedded.allocators(path))


def _obstacle_in(path: Path, user: User) -> str | None:
    described = elf.read(path)
    if described is None:
        return None
    ours = elf.read(places.library())
    if ours is not None and described.machine != ours.machine:
        return f"is a {described.machine} program, and loft is built for {ours.machine}"
    if is_static_go(path):
        return (
            "is a static Go program: Go's own allocator serves it, and only C code that cgo "
            "brings in would call malloc"
        )
    if described.interpreter is None:
        return "is statically linked: no allocator can be preloaded; link it with libloft.a instead"
    if granted := _privileges(path, user):
        return f"{granted}: the loader ignores LD_PRELOAD in privileged programs"
    return None


def _privileges(path: Path, user: User) -> str | None:
    """The kernel's rule: whoever gains something by executing the file is not to steer it."""
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        return None
    status = path.stat()
    if status.st_mode & stat.S_ISUID and status.st_uid != user.uid:
        return "is setuid"
    if status.st_mode & stat.S_ISGID and status.st_gid != user.gid:
        return "is setgid"
    if user.uid != 0 and _has_capabilities(path):
        return "has file capabilities"
    return None


def _has_capabilities(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def check(command: list[str]) -> None:
    """Raises what is wrong with running this command under an allocator."""
    for path in dict.fromkeys((find(command[0]), executed(command))):
        if reason := obstacle(path, User.current()):
            raise UserError(reason)
