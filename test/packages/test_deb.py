"""The packages of Debian: clean by lintian, installed, used and removed in a root of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_packages import LOADED, VERSION, debian, inside, lasting, made, one, run

NAMES = ("libloft0", "libloft-dev", "loft-malloc")


def test_lintian_has_nothing_to_say() -> None:
    changes = [one("*_source.changes"), one("*_amd64.changes")]
    # Root runs it here as in a container.
    done = run(
        *("lintian", "--allow-root", "--fail-on", "error,warning", "--no-tag-display-limit"),
        *changes,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_symbols_are_those_of_the_version() -> None:
    control = run("dpkg-deb", "--info", one("libloft0_*.deb"), "symbols").stdout
    assert control.startswith("libloft.so.0 libloft0 #MINVER#\n")
    assert " malloc@Base 0.2.0\n" in control


def test_the_library_alone_is_what_the_library_package_needs() -> None:
    depends = run("dpkg-deb", "--field", one("libloft0_*.deb"), "Depends").stdout.strip()
    assert depends.startswith("libc6 (>= 2.") and "," not in depends
    assert int(depends.partition("2.")[2].rstrip(")")) <= 28


@pytest.fixture(scope="module")
def installed() -> Iterator[tuple[Path, set[str]]]:
    """A root with the three packages, and what lay in it before."""
    root = debian()
    before = lasting(root)
    for name in NAMES:
        shutil.copy(one(f"{name}_*_amd64.deb"), root / "tmp" / f"{name}.deb")
    inside(root, "apt-get", "install", "-y", "/tmp/libloft0.deb")
    inside(root, "apt-get", "install", "-y", "/tmp/libloft-dev.deb", "/tmp/loft-malloc.deb")
    yield root, before
    inside(root, "apt-get", "purge", "-y", *NAMES, check=False)


def test_a_program_runs_with_the_library(installed: tuple[Path, set[str]]) -> None:
    root, _ = installed
    ran = inside(root, "env", "LD_PRELOAD=libloft.so.0", *LOADED)
    assert "/libloft.so.0" in ran.stdout


def test_the_command_runs_with_debians_libraries(installed: tuple[Path, set[str]]) -> None:
    root, _ = installed
    said = inside(root, "loft", "--version").stdout
    assert said.startswith(f"loft {VERSION} (/usr/lib/loft-malloc/loft_malloc/lib/libloft.so")
    ran = inside(root, "loft", "run", "--option", "owner=cpu", "--", *LOADED)
    assert "/libloft.so" in ran.stdout
    wrong = inside(root, "loft", "no-such", check=False)
    assert wrong.returncode == 2 and wrong.stderr.startswith("loft: ")
    compared = inside(root, "loft", "compare", "--runs", "2", "--", "sort", "/etc/passwd")
    assert "glibc" in compared.stdout
    few = inside(root, "loft", "compare", "--runs", "0", "--", "true", check=False)
    assert "'0' is not a whole number of at least 1" in few.stderr
    assert inside(root, "loft").stdout == inside(root, "loft", "--help").stdout


def test_debians_libraries_are_enough_for_names(
    installed: tuple[Path, set[str]], tmp_path: Path
) -> None:
    root, _ = installed
    source = tmp_path / "program.c"
    source.write_text(
        "#include <stdlib.h>\nchar* volatile kept;\n"
        "__attribute__((noinline)) void keep(void) { kept = malloc(8 << 20); kept[0] = 1; }\n"
        'int main(void) { keep(); asm volatile("" ::: "memory"); return 0; }\n'
    )
    run("gcc", "-g", "-O1", "-o", root / "tmp/keeps", source)
    assert "keep  program.c:3" in inside(root, "loft", "profile", "--", "/tmp/keeps").stderr


def test_a_program_is_compiled_with_the_development_files(
    installed: tuple[Path, set[str]], tmp_path: Path
) -> None:
    root, _ = installed
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(
        "#include <loft/loft.h>\n#include <stdio.h>\n"
        "int main(void) { puts(LOFT_VERSION_STRING); return loft_malloc(1) == NULL; }\n"
    )
    config = root / "usr/lib/x86_64-linux-gnu/pkgconfig"
    flags = run(
        *("pkg-config", "--cflags", "--libs", "loft"),
        PKG_CONFIG_LIBDIR=str(config),
        PKG_CONFIG_SYSROOT_DIR=str(root),
    ).stdout.split()
    run("gcc", "-o", program, source, *flags, f"-L{root}/usr/lib/x86_64-linux-gnu")
    shutil.copy(program, root / "tmp/program")
    assert inside(root, "/tmp/program").stdout == f"{VERSION}\n"


def test_a_purge_leaves_nothing(installed: tuple[Path, set[str]]) -> None:
    root, before = installed
    assert (root / "usr/lib/x86_64-linux-gnu/libloft.so.0").is_file()
    assert (root / "usr/share/man/man1/loft.1.gz").is_file() or not (
        root / "usr/share/man"
    ).exists()
    inside(root, "apt-get", "purge", "-y", *NAMES)
    assert lasting(root) - before == set()


def test_the_source_package_is_whole(tmp_path: Path) -> None:
    run("dpkg-source", "-x", one("*.dsc"), tmp_path / "source")
    assert (tmp_path / "source" / "debian" / "rules").is_file()
    assert (made() / f"loft-malloc_{VERSION}.orig.tar.gz").read_bytes() == (
        made() / f"loft-malloc-{VERSION}.tar.gz"
    ).read_bytes()
