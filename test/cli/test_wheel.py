"""What `pip install .` installs: a wheel with the library, which works without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from asked import slabs
from heaps import small
from limits import HANGS_S
from support import ROOT

PARTS = (
    "libloft.so",
    "libloft-bounds.so",
    "loft-hold.so",
    "loft-launch",
    "loft-record.so",
    "loft-replay",
    "loft-tell.so",
    "loft-trace",
)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        list(command),
        env={**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the backend that is installed here, and no other: the test needs no network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    run(*pip, "--no-build-isolation", "--check-build-dependencies", "-w", folder, ROOT)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_library_and_little_else(wheel: Path) -> None:
    assert "-py3-none-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    package = ROOT / "python" / "loft_malloc"
    modules = {f"loft_malloc/{path.relative_to(package)}" for path in package.rglob("*.*")}
    modules = {name for name in modules if "__pycache__" not in name}
    parts = {f"loft_malloc/lib/{name}" for name in PARTS}
    assert {name for name in names if ".dist-info/" not in name} == modules | parts


def test_the_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run(*pip, "install", "--no-deps", wheel)
    # The libraries that it needs are those of this environment; its checkout is not found there,
    # because what a .pth file names is not searched for more of them.
    folder = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (folder / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    loft = tmp_path / "venv" / "bin" / "loft"
    assert str(folder / "loft_malloc" / "lib" / "libloft.so") in run(loft, "--version").stdout
    run(loft, "run", "--", "true")
    maps = run(loft, "run", "--", "cat", "/proc/self/maps").stdout
    assert str(folder / "loft_malloc" / "lib" / "libloft.so") in maps
    page = tmp_path / "page.html"
    run(loft, "compare", "--runs", "1", "--with", "glibc,loft", "--html", page, "--", "true")
    assert "<svg" in page.read_text()
    run(loft, "profile", "--read", small().write(tmp_path / "heap.pb.gz"), "--html", page)
    assert "<svg" in page.read_text()
    told = tmp_path / "slabs.json"
    told.write_text(json.dumps(slabs()))
    run(loft, "map", "--read", told, "-o", page, "--png", tmp_path / "map.png")
    assert "<canvas" in page.read_text()
    trace = tmp_path / "trace.zst"
    run(loft, "record", "-o", trace, "--", "cat", "/dev/null")
    assert "calls of 1 thread" in run(loft, "replay", "--runs", "1", "--with", "loft", trace).stdout
    module = run(python, "-m", "loft_malloc", "run", "--", "cat", "/proc/self/maps").stdout
    assert str(folder / "loft_malloc" / "lib" / "libloft.so") in module
