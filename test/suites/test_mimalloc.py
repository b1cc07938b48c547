"""mimalloc's stress test, which can be built for any malloc."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sources import Sources
from suite import Outcomes, compare, ending


@pytest.mark.long
@pytest.mark.parametrize(
    ("threads", "scale", "rounds"), [(2, 50, 50), (8, 25, 50), (32, 25, 50), (64, 10, 100)]
)
def test_stress(
    lib: Path, sources: Sources, tmp_path: Path, threads: int, scale: int, rounds: int
) -> None:
    source = sources.folder("mimalloc") / "test" / "test-stress.c"
    program = tmp_path / "stress"
    flags = ["-O1", "-w", "-fno-builtin", "-pthread", "-DUSE_STD_MALLOC"]
    subprocess.run(["gcc", *flags, source, "-o", program], check=True, timeout=120)

    def run(folder: Path, preload: Path | None) -> Outcomes:
        command: list[str | Path] = [program, str(threads), str(scale), str(rounds)]
        return {f"test-stress {threads}": ending(command, folder, preload, 600)}

    compare("mimalloc", run, lib, tmp_path)
