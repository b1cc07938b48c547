"""The packages of Alpine: no apk is at hand, so what apk would look at is looked at here."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import zlib
from pathlib import Path

import pytest
from made_packages import VERSION, one, run
from package_base import ADDRESS

LIBC = Path("/usr/lib/x86_64-linux-musl/libc.so")
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  char* text = malloc(100000);
  strcpy(text, "hello");
  text = realloc(text, 10000000);
  puts(text);
  free(text);
}
"""


def parts(path: Path) -> list[bytes]:
    """The streams of gzip that lie one behind another."""
    found, rest = [], path.read_bytes()
    while rest:
        stream = zlib.decompressobj(wbits=31)
        stream.decompress(rest)
        found.append(rest[: len(rest) - len(stream.unused_data)])
        rest = stream.unused_data
    return found


def about(control: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(control, wbits=31))) as archive:
        file = archive.extractfile(".PKGINFO")
        assert file is not None
        text = file.read().decode()
    return dict(line.split(" = ", 1) for line in text.splitlines())


@pytest.mark.parametrize("name", ["libloft", "libloft-dev"])
def test_the_parts_fit_together(name: str) -> None:
    path = one(f"{name}-{VERSION}-r0.apk")
    control, data = parts(path)
    told = about(control)
    assert (told["pkgname"], told["pkgver"], told["arch"]) == (name, f"{VERSION}-r0", "x86_64")
    assert told["datahash"] == hashlib.sha256(data).hexdigest()
    # Read as one, as apk does: the first part has no end of its own.
    with tarfile.open(path, "r:gz") as archive:
        names = [member.name for member in archive.getmembers()]
    assert names[0] == ".PKGINFO" and len(names) > 3
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive.getmembers():
            if member.isdir():
                continue
            file = archive.extractfile(member) if member.isfile() else None
            content = file.read() if file else member.linkname.encode()
            checksum = member.pax_headers["APK-TOOLS.checksum.SHA1"]
            assert checksum == hashlib.sha1(content).hexdigest()


def test_the_recipe_knows_its_source() -> None:
    recipe = one("APKBUILD")
    check = '. ./APKBUILD && echo "$url" && echo "$sha512sums" | sha512sum -c'
    told = run("sh", "-c", f"cd '{recipe.parent}' && {check}").stdout
    assert told == f"{ADDRESS}\nloft-malloc-{VERSION}.tar.gz: OK\n"


def test_a_program_of_musl_runs_in_a_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    shutil.copy(LIBC, root / "lib" / "ld-musl-x86_64.so.1")
    with tarfile.open(one(f"libloft-{VERSION}-r0.apk"), "r:gz") as archive:
        archive.extractall(root, filter="data")
    (tmp_path / "program.c").write_text(PROGRAM)
    run("musl-gcc", "-o", root / "program", tmp_path / "program.c")
    # The loader itself: a variable in the environment would reach this machine's chroot as well.
    loader = ("/lib/ld-musl-x86_64.so.1", "--preload", "/usr/lib/libloft.so.0")
    enter = ("chroot",) if os.geteuid() == 0 else ("unshare", "-r", "chroot")
    ran = run(*enter, root, *loader, "/program", LOFT_STATS="text")
    assert ran.stdout == "hello\n" and "loft" in ran.stderr
