#!/usr/bin/env python3
"""Builds targets of the preset `release`, for checks and tests that may run side by side."""

import fcntl
import subprocess
import sys
from pathlib import Path

from limits import HANGS_S

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def build_release(*targets: str) -> Path:
    """The build folder, with these targets in it. Waits until nobody else builds there."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            ["cmake", "--preset", "release"],
            ["cmake", "--build", "--preset", "release", "--target", *targets],
        ):
            subprocess.run(command, cwd=ROOT, check=True, timeout=HANGS_S)
    return BUILD


if __name__ == "__main__":
    try:
        build_release(*sys.argv[1:])
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.exit(f"release: {error}")
