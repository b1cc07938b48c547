"""What tools/setup.sh asks the system for on a machine that has no commands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import packages
import pytest


def asked(root: Path, folder: Path, *groups: str) -> set[str]:
    """The words of its last call of apt-get."""
    commands = folder / "bin"
    commands.mkdir()
    for name in ("mktemp", "rm", "tail"):
        (commands / name).symlink_to(str(shutil.which(name)))
    for name, does in (("id", "echo 0"), ("apt-get", f'echo "$@" > {folder}/asked')):
        (commands / name).write_text(f"#!/bin/sh\n{does}\n")
        (commands / name).chmod(0o755)
    subprocess.run(
        [root / "tools" / "setup.sh", *groups],
        env={"PATH": str(commands)},
        check=True,
        capture_output=True,
    )
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
