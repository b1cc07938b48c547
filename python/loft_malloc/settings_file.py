"""The file of settings for all processes of a system, read as the library reads it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from loft_malloc import options
from loft_malloc.errors import UserError

# src/files/trusted.h
LONGEST = 64 << 10
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass
class Settings:
    # Why the library ignores the file; nothing if it does not.
    refused: str = ""
    # By name, as the file gives them.
    values: dict[str, str] = field(default_factory=dict)
    # What of it is not accepted, with the number of its line.
    mistakes: list[str] = field(default_factory=list)


def read(path: Path, owner: int = 0) -> Settings | None:
    """None without such a file."""
    try:
        number = os.open(path, FLAGS)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        link = error.errno == errno.ELOOP
        return Settings("it is a symbolic link" if link else os.strerror(error.errno or 0).lower())
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if refused := _distrust(found, owner):
            return Settings(refused)
        return _taken(file.read(LONGEST).decode(errors="replace"))


def _distrust(found: os.stat_result, owner: int) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid != owner:
        return "root does not own it"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others can write to it, too"
    return "it is longer than 64 KiB" if found.st_size > LONGEST else ""


def _taken(text: str) -> Settings:
    settings = Settings()
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        setting = line.strip(" \t\r\v\f")
        if not setting or setting.startswith("#"):
            continue
        name, _, value = (part.strip(" \t\r\v\f") for part in setting.partition("="))
        try:
            options.checked(f"{name}={value}" if "=" in setting else setting)
        except UserError as error:
            settings.mistakes.append(f"line {number}: {error}")
            continue
        if settings.values.get(name, value) != value:
            settings.mistakes.append(f"line {number}: {name} contradicts line {lines[name]}")
        settings.values[name], lines[name] = value, number
    return settings
