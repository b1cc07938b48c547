"""The image: what its layout says is true, and what is in it runs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from made_packages import LOADED, VERSION, debian, inside, one, run

ROOT = Path(__file__).resolve().parent.parent.parent
DOCKERFILE = ROOT / "packaging" / "docker" / "Dockerfile"


@cache
def layout() -> dict[str, bytes]:
    with tarfile.open(one("*-image.tar")) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in files}  # type: ignore[union-attr]


def blob(about: dict[str, Any]) -> bytes:
    kind, digest = about["digest"].split(":")
    data = layout()[f"blobs/{kind}/{digest}"]
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (digest, about["size"])
    return data


def manifests() -> dict[str, dict[str, Any]]:
    (index,) = json.loads(layout()["index.json"])["manifests"]
    assert index["annotations"]["org.opencontainers.image.ref.name"] == f"loft-malloc:{VERSION}"
    listed = json.loads(blob(index))["manifests"]
    return {each["platform"]["architecture"]: json.loads(blob(each)) for each in listed}


def unpack(architecture: str, folder: Path) -> dict[str, Any]:
    """The files; returned is how the container starts."""
    manifest = manifests()[architecture]
    config: dict[str, Any] = json.loads(blob(manifest["config"]))
    assert config["architecture"] == architecture
    for layer, digest in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        with tarfile.open(fileobj=io.BytesIO(blob(layer)), mode="r:gz") as archive:
            archive.extractall(folder, filter="tar")
        plain = gzip.decompress(blob(layer))
        assert f"sha256:{hashlib.sha256(plain).hexdigest()}" == digest
    return dict(config["config"])


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_it_copies_its_libraries(architecture: str, tmp_path: Path) -> None:
    start = unpack(architecture, tmp_path / "image")
    command = [*start["Entrypoint"], *start["Cmd"]]
    assert command == ["/loft-copy", "/loft"]
    emulator = ["qemu-aarch64"] if architecture == "arm64" else []
    lib = tmp_path / "image" / "usr" / "local" / "lib"
    run(*emulator, tmp_path / "image" / "loft-copy", tmp_path / "copied", lib)
    copied = {path.name: path.read_bytes() for path in (tmp_path / "copied").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in lib.iterdir()}
    again = run(*emulator, tmp_path / "image" / "loft-copy", "/proc/no/such", lib, check=False)
    assert again.returncode == 1 and again.stderr.startswith("loft-copy: /proc/no/such cannot be")


def test_it_runs_by_itself_and_its_library_in_another(tmp_path: Path) -> None:
    root = debian()
    start = unpack("amd64", tmp_path / "image")
    # As a container runs it: there is nothing but the image.
    run("chroot", tmp_path / "image", *start["Entrypoint"], *start["Cmd"])
    library = (tmp_path / "image" / "loft" / "libloft.so").read_bytes()
    (root / "tmp" / "libloft.so").write_bytes(library)
    preload = "LD_PRELOAD=/tmp/libloft.so"
    ran = inside(root, "env", preload, *LOADED)
    assert "/tmp/libloft.so" in ran.stdout


def test_the_dockerfile_makes_the_same_image(tmp_path: Path) -> None:
    unpack("amd64", tmp_path)
    last = DOCKERFILE.read_text().rpartition("\nFROM scratch\n")[2]
    described = set(re.findall(r"^COPY --from=\w+ \S+ /(\S+)$", last, re.M))
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert described == there
    config = json.loads(blob(manifests()["amd64"]["config"]))["config"]
    for word, key in (("ENTRYPOINT", "Entrypoint"), ("CMD", "Cmd")):
        found = re.search(rf"^{word} (.*)$", last, re.M)
        assert found is not None and json.loads(found[1]) == config[key]
