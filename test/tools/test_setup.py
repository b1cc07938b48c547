"""What tools/setup.sh asks the system for on a machine that has no commands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import packages
import pytest


def set_up(
    root: Path, folder: Path, apt_get: str, *groups: str
) -> subprocess.CompletedProcess[str]:
    commands = folder / "bin"
    commands.mkdir()
    for name in ("grep", "mktemp", "rm", "tail"):
        (commands / name).symlink_to(str(shutil.which(name)))
    for name, does in (
        ("id", "echo 0"),
        ("sleep", f"echo >> {folder}/waits"),
        ("apt-get", apt_get),
    ):
        (commands / name).write_text(f"#!/bin/sh\n{does}\n")
        (commands / name).chmod(0o755)
    return subprocess.run(
        [root / "tools" / "setup.sh", *groups],
        env={"PATH": str(commands)},
        check=False,
        capture_output=True,
        text=True,
    )


def asked(root: Path, folder: Path, *groups: str) -> set[str]:
    """The words of its last call of apt-get."""
    assert set_up(root, folder, f'echo "$@" > {folder}/asked', *groups).returncode == 0
    return set((folder / "asked").read_text().split())


@pytest.mark.parametrize("name", packages.FORMATS)
def test_each_format_of_package_has_a_group(root: Path, tmp_path: Path, name: str) -> None:
    wanted = asked(root, tmp_path, name)
    assert {"git", "python3"} <= wanted
    # What tests need, nobody needs who wants a package.
    assert not wanted & {"clang-19", "redis-server", "lintian", "qemu-user"}
    assert ("debhelper" in wanted, "rpm" in wanted) == (name == "deb", name == "rpm")


def test_groups_add_up(root: Path, tmp_path: Path) -> None:
    wanted = asked(root, tmp_path, "deb", "rpm", "image")
    assert {"debhelper", "rpm", "musl-tools", "g++"} <= wanted


def test_who_holds_the_lists_is_waited_for(root: Path, tmp_path: Path) -> None:
    held = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"
    taken = f'echo x >> {tmp_path}/calls; [ -e {tmp_path}/waits ] || {{ echo "{held}"; exit 100; }}'
    assert set_up(root, tmp_path, taken, "build").returncode == 0
    # A call that found the lists held, and after the wait one that updates and one that installs.
    assert (tmp_path / "calls").read_text() == "x\n" * 3


@pytest.mark.parametrize("says", ["E: lists/lock", "E: no network"])
def test_nobody_is_waited_for_without_end(root: Path, tmp_path: Path, says: str) -> None:
    done = set_up(root, tmp_path, f'echo "{says}"; exit 100', "build")
    assert done.returncode == 1
    assert "apt-get could not install" in done.stderr
    waits = tmp_path / "waits"
    assert len(waits.read_text()) == 59 if "lock" in says else not waits.exists()
