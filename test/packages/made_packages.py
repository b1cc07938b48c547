"""What tests of distributions' packages share: the packages, made once, and a root of Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import packages
import pytest
from package_base import loft_version

VERSION = loft_version()
# The command's own libraries: the root has them, so that nothing is fetched when it is installed.
DEPENDENCIES = (
    "python3-jinja2,python3-psutil,python3-pyelftools,python3-rich,python3-typer,python3-zstandard"
)
# A program that says which loft is in it.
LOADED = ("grep", "libloft", "/proc/self/maps")
SKIPPED = {"proc", "sys", "dev", "tmp", "run"}


def run(*command: str | Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )
    assert not check or done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done


@cache
def folder() -> Path:
    """Which ends with the tests, by end()."""
    return Path(tempfile.mkdtemp(prefix="loft-packages-"))


def end() -> None:
    """Of a session. Once that is over, a worker may be ended before a gigabyte is gone."""
    if folder.cache_info().currsize:
        shutil.rmtree(folder(), ignore_errors=True)


@cache
def made() -> Path:
    """Where every package is; LOFT_PACKAGES names a folder that `make packages` has filled."""
    if "LOFT_PACKAGES" in os.environ:
        return Path(os.environ["LOFT_PACKAGES"]).resolve()
    out = folder() / "packages"
    packages.make(list(packages.FORMATS), out)
    return out


@cache
def made_elsewhere() -> Path:
    """Some of them once more, built in another place."""
    out = folder() / "another-place" / "of-another-length"
    packages.make(["source", "tar", "deb"], out)
    return out


def one(pattern: str) -> Path:
    (found,) = made().glob(pattern)
    return found


def sources() -> list[str]:
    """The mirrors of this machine's own Debian."""
    form = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = run(
        *("apt-get", "indextargets", "--format", form, "Created-By: Packages", "Origin: Debian"),
        check=False,
    ).stdout
    return list(dict.fromkeys(listed.splitlines()))


@cache
def debian_base() -> Path | str:
    """A small Debian in a folder; or why there is none."""
    root = folder() / "debian"
    about = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    options = []
    for name in ("Acquire::http::Proxy", "Acquire::https::Proxy"):
        proxy = run("apt-config", "shell", "it", name).stdout.partition("=")[2].strip(" '\n")
        options += [f'--aptopt={name} "{proxy}"'] if proxy else []
    done = run(
        # It mounts /proc and /sys in there, which is nobody else's business, whenever it ends.
        *("unshare", "--mount", "mmdebstrap", "--mode=root", "--variant=apt", "--quiet", *options),
        *(f"--include={DEPENDENCIES}", about["VERSION_CODENAME"], str(root), *sources()),
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(root, ignore_errors=True)
        last = done.stderr.strip().splitlines() or ["it says nothing"]
        return f"mmdebstrap makes no root here, its mirror is missing: {last[-1]}"
    return root


def debian() -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root makes a root of Debian")
    base = debian_base()
    if isinstance(base, str):
        pytest.fail(f"infrastructure: {base}")
    return base


def inside(root: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """With nothing of this machine's environment, and no way to its processes."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    clean = ("env", "-i", f"PATH={path}", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
    # In a space of mounts of its own: /proc is gone from the root with the command.
    start = 'mount -t proc proc "$1/proc" && exec chroot "$@"'
    return run("unshare", "--mount", "sh", "-c", start, "-", root, *clean, *command, check=check)


def files(root: Path) -> Iterator[str]:
    """What lies in a root, without what a system writes as it goes."""
    for top, folders, names in os.walk(root):
        here = Path(top).relative_to(root)
        if here == Path():
            folders[:] = [name for name in folders if name not in SKIPPED]
        yield from (str(here / name) for name in (*folders, *names))


def lasting(root: Path) -> set[str]:
    """As files(), less the books of the package manager."""
    books = (
        "var/lib/dpkg",
        "var/lib/apt",
        "var/cache",
        "var/log",
        "etc/ld.so.cache",
        "var/lib/rpm",
    )
    return {
        name for name in files(root) if not name.startswith(books) and "__pycache__" not in name
    }
