"""jemalloc's integration tests of the standard functions, with a small test framework in place of
jemalloc's own, which its build would generate."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sources import Sources
from suite import HERE, Outcomes, compare, ending

# The others are about functions and statistics that only jemalloc has.
TESTS = ("aligned_alloc", "posix_memalign")


@pytest.mark.long
@pytest.mark.parametrize("name", TESTS)
def test_integration(lib: Path, sources: Sources, tmp_path: Path, name: str) -> None:
    source = sources.folder("jemalloc") / "test" / "integration" / f"{name}.c"
    framework = tmp_path / "include" / "test"
    framework.mkdir(parents=True)
    (framework / "jemalloc_test.h").symlink_to(HERE / "shims" / "jemalloc_test.h")
    program = tmp_path / name
    flags = ["-O1", "-w", "-fno-builtin", "-pthread", f"-I{framework.parent}"]
    subprocess.run(["gcc", *flags, source, "-o", program], check=True, timeout=120)

    def run(folder: Path, preload: Path | None) -> Outcomes:
        return {name: ending([program], folder, preload, 600)}

    compare("jemalloc", run, lib, tmp_path)
