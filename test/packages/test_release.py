"""A release: one version, equal bytes, a bill of materials, an interface that keeps."""

from __future__ import annotations

import hashlib
import re
import tarfile
from pathlib import Path

import abi
import make_release
import packages
import pytest
import sbom
from made_packages import VERSION, made, made_elsewhere, one, run
from package_base import PackageError
from release import build_release
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

ROOT = Path(__file__).resolve().parent.parent.parent


def test_two_builds_in_two_places_are_equal() -> None:
    names = sorted(path.name for path in made_elsewhere().iterdir() if path.is_file())
    assert len([name for name in names if name.endswith((".deb", ".tar.gz"))]) >= 7
    different = [
        name
        for name in names
        # What was built where is what a .buildinfo is for.
        if not name.endswith((".buildinfo", ".changes"))
        and hashlib.sha256((made() / name).read_bytes()).digest()
        != hashlib.sha256((made_elsewhere() / name).read_bytes()).digest()
    ]
    assert different == []


def test_nothing_says_where_it_was_built() -> None:
    folder = f"loft-malloc-{VERSION}-linux-x86_64"
    with tarfile.open(one(f"{folder}.tar.gz")) as archive:
        for member in archive.getmembers():
            assert (member.uid, member.gid, member.uname) == (0, 0, "root")
            if member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                assert str(made()).encode() not in file.read(), member.name


def test_the_version_is_one_number() -> None:
    header = (ROOT / "include" / "loft" / "loft.h").read_text()
    text = re.search(r'^#define LOFT_VERSION_STRING "([^"]+)"', header, re.M)
    assert text is not None and text[1] == VERSION
    assert (
        run("dpkg-deb", "--field", one("libloft0_*.deb"), "Version").stdout
        == f"{VERSION}-{packages.DEBIAN_REVISION}\n"
    )
    assert f"\npkgver={VERSION}\n" in one("APKBUILD").read_text()
    with tarfile.open(one(f"loft-malloc-{VERSION}-linux-aarch64.tar.gz")) as archive:
        file = archive.extractfile(f"loft-malloc-{VERSION}-linux-aarch64/lib/pkgconfig/loft.pc")
        assert file is not None
        assert f"\nVersion: {VERSION}\n" in file.read().decode()
    library = (made() / "work").rglob("libloft.so.*")
    major = VERSION.split(".")[0]
    assert {path.name for path in library} == {f"libloft.so.{major}"}
    # Nobody else writes the number down.
    for name in ("debian", "rpm", "alpine", "docker", "conan", "meson", "vcpkg"):
        for path in (ROOT / "packaging" / name).rglob("*"):
            if path.is_file() and "loft_version" not in (said := path.read_text()):
                assert not re.search(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])", said), path


def test_a_release_needs_an_entry_in_the_changelog() -> None:
    text = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-01\n\n- one\n\n"
    text += "## [1.2.2]\n\n- two\n"
    assert make_release.entry_of(text, "1.2.3") == "- one\n"
    assert make_release.entry_of(text, "1.2.2") == "- two\n"
    assert make_release.entry_of(text, "Unreleased", "1.2.3") == "- one\n"
    for version in ("Unreleased", "1.2.4", "1.2"):
        with pytest.raises(PackageError, match=re.escape(f"no entry for {version}")):
            make_release.entry_of(text, version)


def test_the_bill_of_materials_is_valid(tmp_path: Path) -> None:
    files = [path for path in made().iterdir() if path.is_file()]
    path = tmp_path / "loft.spdx.json"
    path.write_bytes(sbom.bill(files, VERSION, 1_700_000_000))
    document = parse_file(str(path))
    assert validate_full_spdx_document(document) == []
    assert {file.name for file in document.files} == {f"./{path.name}" for path in files}
    assert sbom.bill(files, VERSION, 1_700_000_000) == path.read_bytes()


def test_the_interface_is_the_last_ones() -> None:
    library = build_release("loft_shared") / "libloft.so"
    assert abi.differences(library) == [], "see docs/internals/releases.md"


def test_a_change_of_the_interface_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = tmp_path / "loft.h"
    text = abi.HEADER.read_text()
    changed, count = re.subn(r"(typedef struct loft_stats_t \{)", r"\1 char first;", text)
    assert count == 1
    header.write_text(changed)
    monkeypatch.setattr(abi, "HEADER", header)
    found = "\n".join(abi.type_differences(abi.describe_types(tmp_path)))
    assert "offset" in found or "size" in found
    header.write_text(text.replace("loft_calloc", "loft_other"))
    found = "\n".join(abi.type_differences(abi.describe_types(tmp_path)))
    assert "loft_calloc" in found


def test_the_source_builds_without_a_network(tmp_path: Path) -> None:
    run("tar", "-xzf", one(f"loft-malloc-{VERSION}.tar.gz"), "-C", tmp_path)
    source = tmp_path / f"loft-malloc-{VERSION}"
    # The library itself was built from it; what is looked at is that CMake fetches nothing.
    command = ("cmake", "--preset", "package", "--log-level=WARNING")
    run("unshare", "--net", "sh", "-c", f"cd '{source}' && {' '.join(command)}")
    assert (source / "build" / "package" / "build.ninja").is_file()
