"""What `loft profile` says of names that are missing: which package or setting brings them."""

from __future__ import annotations

from pathlib import Path

import pytest

from loft_malloc.profile import missing_names
from loft_malloc.profile.model import Frame, Kind, Location, Mapping, Profile, Sample


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    return folder


def tool(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def unnamed(*names: str) -> Profile:
    """Of the first file most addresses."""
    samples = []
    for number, name in enumerate(names):
        mapping = Mapping(number << 32, (number << 32) + 4096, 0, name)
        for place in range(len(names) - number):
            samples.append(Sample([Location(mapping.start + 16 * place, mapping)], [64]))
    return Profile([Kind("inuse_space", "bytes")], samples)


def test_the_package_and_the_server_are_named(tools: Path) -> None:
    tool(tools / "dpkg-query", 'case $2 in */libb*) exit 1;; esac; echo "libthing0:amd64: $2"')
    profile = unnamed("/usr/lib/liba.so.1", "/opt/libb.so")
    (line,) = missing_names.hint(profile)
    assert line.startswith(
        "no function names for liba.so.1, libb.so: "
        "install the -dbgsym or -dbg package of libthing0, or set DEBUGINFOD_URLS=https://"
    )
    assert line.endswith(" and install debuginfod")


def test_only_what_is_missing_is_asked_for(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tools / "rpm", "printf thing:")
    profile = unnamed(*(f"/usr/lib/lib{name}.so" for name in "abcde"))
    tool(tools / "debuginfod-find", "exit 1")
    assert "and install" not in missing_names.hint(profile)[0]
    monkeypatch.setenv("DEBUGINFOD_URLS", "https://here")
    assert missing_names.hint(profile) == [
        "no function names for liba.so, libb.so, libc.so, 2 more: debuginfo-install thing"
    ]


def test_a_program_of_the_users_own(tools: Path) -> None:
    assert missing_names.hint(unnamed("/srv/program")) == [
        "no function names for program: build with debug information (-g), and do not strip it"
    ]
    named = unnamed("/srv/program")
    named.samples[0].locations[0].frames = [Frame("main")]
    assert missing_names.hint(named) == []
