"""Other people's sources, in the build folder: Debian's source packages, fetched by apt, and what
Rust crates bring, fetched by cargo.

The machine's own lists are left as they are: the indexes of sources are kept in the build folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "build" / "suites"
SYSTEM = Path("/etc/apt")
LIMIT_S = 300
BUILD_LIMIT_S = 3600


@contextmanager
def _alone() -> Iterator[None]:
    """Tests run in several processes that share the folder. The second finds what is made."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Sources:
    def __init__(self) -> None:
        self._updated = False

    @_alone()
    def folder(self, package: str) -> Path:
        """Where the package's source lies, unpacked and without Debian's changes applied twice."""
        folder = FOLDER / package
        if folder.is_dir():
            return folder
        self._update()
        part = FOLDER / f"{package}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        self._apt("source", "--download-only", package, folder=part)
        (described,) = part.glob("*.dsc")
        _run(["dpkg-source", "--no-check", "--extract", described.name, "tree"], part)
        (part / "tree").rename(folder)
        shutil.rmtree(part)
        return folder

    def built(self, package: str, *commands: list[str]) -> Path:
        """A copy of the package's source in which these commands have been run, once for all."""
        folder = FOLDER / f"{package}-built"
        # What is built may hold the folder's name, so it is made where it stays.
        done = folder / ".built"
        source = self.folder(package)  # before the lock, which it takes itself
        with _alone():
            if not done.exists() or done.read_text() != repr(commands):
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(source, folder, symlinks=True)
                for command in commands:
                    _run(command, folder, BUILD_LIMIT_S)
                done.write_text(repr(commands))
        return folder

    @_alone()
    def crate(self, name: str, version: str) -> Path:
        """Where the sources of the crate lie, in that version and no newer one."""
        folder = FOLDER / f"{name}-{version}"
        if folder.is_dir():
            return folder
        part = FOLDER / f"{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        # A package that depends on nothing else.
        (part / "src").mkdir(parents=True)
        (part / "src" / "lib.rs").touch()
        (part / "Cargo.toml").write_text(
            '[package]\nname = "suites"\nversion = "0.0.0"\nedition = "2021"\n'
            f'[dependencies]\n{name} = "={version}"\n[workspace]\n'
        )
        _run(["cargo", "vendor", "--quiet", "vendor"], part)
        (part / "vendor" / name).rename(folder)
        shutil.rmtree(part)
        return folder

    def _update(self) -> None:
        if self._updated:
            return
        for name in ("lists/partial", "cache/archives/partial"):
            (FOLDER / name).mkdir(parents=True, exist_ok=True)
        (FOLDER / "debian.sources").write_text(_sources())
        self._apt("update", folder=FOLDER)
        self._updated = True

    def _apt(self, *words: str, folder: Path) -> None:
        settings = {
            "Dir::Etc::sourcelist": FOLDER / "debian.sources",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": FOLDER / "lists",
            "Dir::Cache": FOLDER / "cache",
        }
        options = [f"-o{name}={value}" for name, value in settings.items()]
        _run(["apt-get", "-q", *options, *words], folder)


def _run(command: list[str], folder: Path, limit_s: int = LIMIT_S) -> None:
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
    )
    if ran.returncode != 0:
        raise RuntimeError(f"in {folder}, {' '.join(command)}: {ran.stderr[-3000:]}")


def _sources() -> str:
    """Where the machine has its packages from, as places of sources."""
    modern = SYSTEM / "sources.list.d" / "debian.sources"
    if modern.exists():
        return re.sub(r"^Types:.*$", "Types: deb-src", modern.read_text(), flags=re.MULTILINE)
    lines = (SYSTEM / "sources.list").read_text().splitlines()
    found = [re.match(r"deb (?:\[(.*?)\] )?(\S+) (\S+) (.*)", line) for line in lines]
    return "\n".join(
        f"Types: deb-src\nURIs: {match[2]}\nSuites: {match[3]}\nComponents: {match[4]}\n"
        for match in found
        if match is not None
    )
