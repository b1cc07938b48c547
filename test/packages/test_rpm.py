"""The rpm packages, in a root with a database of their own."""

from __future__ import annotations

from pathlib import Path

from made_packages import LOADED, VERSION, debian, inside, lasting, one, run

NAMES = ("libloft", "libloft-devel", "loft-malloc")
# Folders of Fedora's own packages, which no package on top of them has.
FEDORAS = {"usr/lib64", "usr/lib64/cmake", "usr/lib64/pkgconfig", "usr/share/licenses"}


def rpm(root: Path, *words: str | Path) -> str:
    return run("rpm", "--root", root, "--dbpath", "/var/lib/rpm", *words).stdout


def test_what_they_say_of_themselves() -> None:
    library = one(f"libloft-{VERSION}-*.x86_64.rpm")
    form = "%{NAME} %{VERSION} %{LICENSE} %{BUILDHOST}"
    assert run("rpm", "-qp", "--qf", form, library).stdout == f"libloft {VERSION} MIT loft"
    needs = run("rpm", "-qp", "--requires", library).stdout
    versions = [line for line in needs.splitlines() if "(GLIBC_2." in line]
    numbers = [int(line.partition("(GLIBC_2.")[2].split(")")[0].split(".")[0]) for line in versions]
    assert numbers and max(numbers) <= 28
    provides = run("rpm", "-qp", "--provides", library).stdout
    assert "libloft.so.0()(64bit)" in provides


def test_installed_used_and_removed() -> None:
    root = debian()
    before = lasting(root)
    files = [one(f"{name}-{VERSION}-*.x86_64.rpm") for name in NAMES]
    # The base is Debian's, of which rpm knows nothing.
    rpm(root, "--install", "--nodeps", *files)
    assert sorted(rpm(root, "-qa", "--qf", "%{NAME}\n").split()) == sorted(NAMES)
    rpm(root, "--verify", "--nodeps", *NAMES)
    # By its path: Debian's loader does not look into lib64.
    ran = inside(root, "env", "LD_PRELOAD=/usr/lib64/libloft.so.0", *LOADED)
    assert "/usr/lib64/libloft.so.0" in ran.stdout
    said = inside(root, "loft", "--version").stdout
    assert said.startswith(f"loft {VERSION} (")
    rpm(root, "--erase", *NAMES)
    assert lasting(root) - before - FEDORAS == set()
