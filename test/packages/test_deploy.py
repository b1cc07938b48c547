"""What docs/containers.md tells others to write, done by hand in a root of Debian."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_packages import LOADED, VERSION, debian, inside, one, run
from test_image import unpack

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "containers.md").read_text()


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S)
    assert found is not None
    return found[1]


def test_the_drop_in_is_one_that_systemd_takes(tmp_path: Path) -> None:
    units = tmp_path / "units"
    drop_in = units / "program.service.d"
    drop_in.mkdir(parents=True)
    (units / "program.service").write_text(
        "[Unit]\nDescription=A program\nDefaultDependencies=no\n[Service]\nExecStart=/bin/true\n"
    )
    (drop_in / "loft.conf").write_text(block("ini"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", units / "program.service"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{units}:"},
    )
    ours = [line for line in done.stderr.splitlines() if "loft.conf" in line or "program" in line]
    assert ours == []
    (drop_in / "loft.conf").write_text("[Service]\nEnvironmint=LD_PRELOAD=libloft.so.0\n")
    wrong = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", units / "program.service"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{units}:"},
    )
    assert "Environmint" in wrong.stderr


def test_the_lines_of_systemd_reach_a_program() -> None:
    root = debian()
    variables = re.findall(r"^Environment=(.*)$", block("ini"), re.M)
    assert len(variables) == 2
    shutil.copy(one("libloft0_*_amd64.deb"), root / "tmp" / "libloft0.deb")
    inside(root, "dpkg", "--install", "/tmp/libloft0.deb")
    try:
        ran = inside(root, "env", *variables, *LOADED)
    finally:
        inside(root, "dpkg", "--purge", "libloft0")
    assert "/libloft.so" in ran.stdout


def test_the_pod_starts_its_program_under_loft(tmp_path: Path) -> None:
    root = debian()
    pod: dict[str, Any] = yaml.safe_load(block("yaml"))["spec"]
    (first,), (second,) = pod["initContainers"], pod["containers"]
    assert first["image"] == f"loft-malloc:{VERSION}"
    assert set(re.findall(r"loft-malloc:([\d.]+)", PAGE)) == {VERSION}
    volumes = {volume["name"] for volume in pod["volumes"]}
    (from_,), (to,) = first["volumeMounts"], second["volumeMounts"]
    assert from_["name"] in volumes and from_["name"] == to["name"]
    # The first container, with what it leaves in the volume.
    start = unpack("amd64", tmp_path / "image")
    run("chroot", tmp_path / "image", *start["Entrypoint"], *first["args"])
    volume = tmp_path / "image" / from_["mountPath"].lstrip("/")
    # The second, with the volume in its place.
    shutil.copytree(volume, root / to["mountPath"].lstrip("/"))
    try:
        variables = [f"{each['name']}={each['value']}" for each in second["env"]]
        ran = inside(root, "env", *variables, *second["command"])
    finally:
        shutil.rmtree(root / to["mountPath"].lstrip("/"))
    assert "/libloft.so" in ran.stdout


def test_a_tarball_is_unpacked_below_usr_local() -> None:
    root = debian()
    page = (ROOT / "docs" / "install.md").read_text()
    found = re.search(r"`tar -xzf \S+/FILE (-C /usr/local --strip-components 1)`", page)
    assert found is not None
    name = f"loft-malloc-{VERSION}-linux-x86_64.tar.gz"
    shutil.copy(one(name), root / "tmp" / name)
    before = set((root / "usr/local").rglob("*"))
    inside(root, "tar", "-xzf", f"/tmp/{name}", *found[1].split())
    try:
        preload = "LD_PRELOAD=/usr/local/lib/libloft.so"
        ran = inside(root, "env", preload, *LOADED)
        flags = run(
            *("pkg-config", "--variable=includedir", "loft"),
            PKG_CONFIG_PATH=str(root / "usr/local/lib/pkgconfig"),
        ).stdout.strip()
    finally:
        for path in sorted(set((root / "usr/local").rglob("*")) - before, reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert "/libloft.so" in ran.stdout
    assert Path(flags).resolve() == (root / "usr/local/include").resolve()


@pytest.mark.parametrize("page", ["docs/containers.md", "docs/internals/releases.md"])
def test_what_the_pages_name_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    for name in re.findall(r"`((?:packaging|tools|test)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name
