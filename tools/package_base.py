"""What the scripts that make packages share: the version, the moment, archives of equal bytes."""

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from limits import HANGS_S

ROOT = Path(__file__).resolve().parent.parent
NAME = "loft-malloc"
# What has to give an address gives this name: loft has no page yet.
ADDRESS = f"urn:loft:{NAME}"
SUMMARY = "A memory allocator that sends freed objects home by message"
DESCRIPTION = (
    "loft is a drop-in malloc for programs in which one thread allocates and another frees."
)
MACHINES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


class PackageError(Exception):
    pass


class Entry(NamedTuple):
    """A file, a folder (no bytes, a name that ends in /) or a symbolic link in an archive."""

    name: str
    data: bytes = b""
    mode: int = 0o644
    link: str = ""


def loft_version() -> str:
    """The version lives in the public header alone."""
    header = (ROOT / "include" / "loft" / "loft.h").read_text()
    parts = re.findall(r"^#define LOFT_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", header, re.M)
    return ".".join(parts)


def epoch() -> int:
    """The moment that all files of a release bear: that of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given.isdigit():
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return int(found.stdout) if found.returncode == 0 else 0


def environment(moment: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOFT_")}
    for name in ("CFLAGS", "CXXFLAGS", "LDFLAGS", "LD_PRELOAD", "MAKEFLAGS", "DESTDIR"):
        kept.pop(name, None)
    return {**kept, "SOURCE_DATE_EPOCH": str(moment), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def run(
    *command: str | Path, folder: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a command prints is shown only if it fails."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=HANGS_S * 4
        )
    except FileNotFoundError:
        raise PackageError(f"{command[0]} is not there; make packages installs it") from None
    except subprocess.TimeoutExpired:
        raise PackageError(f"{command[0]} did not end") from None
    if done.returncode != 0:
        print(done.stdout[-6000:], done.stderr[-6000:], sep="\n", file=sys.stderr)
        raise PackageError(f"{' '.join(map(str, command[:4]))} failed, see above")
    return done


def entries_of(folder: Path, prefix: str = "") -> list[Entry]:
    """Everything below the folder, with plain modes, sorted."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = prefix + path.relative_to(folder).as_posix()
        if path.is_symlink():
            found.append(Entry(name, link=str(path.readlink())))
        elif path.is_dir():
            found.append(Entry(name + "/", mode=0o755))
        else:
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            found.append(Entry(name, path.read_bytes(), mode))
    return found


def header_of(entry: Entry, moment: int) -> tarfile.TarInfo:
    about = tarfile.TarInfo(entry.name.rstrip("/"))
    about.mtime, about.mode, about.size = moment, entry.mode, len(entry.data)
    about.uname = about.gname = "root"
    if entry.link:
        about.type, about.linkname, about.mode = tarfile.SYMTYPE, entry.link, 0o777
    elif entry.name.endswith("/"):
        about.type = tarfile.DIRTYPE
    return about


def tar_of(entries: Iterable[Entry], moment: int) -> bytes:
    """Of equal entries, equal bytes: no owner, no order and no moment of the machine's own."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in entries:
            archive.addfile(header_of(entry, moment), io.BytesIO(entry.data))
    return packed.getvalue()


def compressed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def fresh(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def filled(template: Path, **values: str) -> str:
    text = template.read_text()
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", value)
    return text
