"""Runs other people's tests under libc's malloc and under loft, and compares how each test ended.

A test that ends otherwise under loft is a failure, or is in explained.toml with the reason.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from programs import environment, session

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The whole suites, which take hours, in place of the short cut.
LONG = os.environ.get("SUITES") == "long"
NO_END = "no end in time"

# How each test ended, by its name.
Outcomes = Mapping[str, str]


def ending(
    command: list[str | Path], folder: Path, preload: Path | None, timeout: int, **variables: str
) -> str:
    """Runs one command in a new folder, where `output` then holds what it wrote."""
    folder.mkdir(parents=True)
    env = environment(folder) | variables
    if preload is not None:
        env["LD_PRELOAD"] = str(preload)
    with (
        (folder / "output").open("wb") as output,
        session(command, folder, env, stdout=output, stderr=output) as process,
    ):
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return NO_END
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def written(folder: Path) -> str:
    """What the command that ran there wrote."""
    return (folder / "output").read_text(errors="replace")


def explained(suite: str) -> dict[str, str]:
    """How tests end under loft that are known to end otherwise, by name."""
    entries = tomllib.loads((HERE / "explained.toml").read_text())["difference"]
    for entry in entries:
        assert entry["reason"], entry
    return {entry["test"]: entry["under_loft"] for entry in entries if entry["suite"] == suite}


def differences(suite: str, under_libc: Outcomes, under_loft: Outcomes) -> list[str]:
    """What nobody has explained, in words."""
    known = explained(suite)
    return [
        f"{suite}: {test}: {ours} under loft, {theirs} under libc"
        for test in sorted({*under_libc, *under_loft})
        if (theirs := under_libc.get(test, "not run")) != (ours := under_loft.get(test, "not run"))
        and known.get(test) != ours
    ]


def compare(suite: str, run: Callable[[Path, Path | None], Outcomes], lib: Path, tmp: Path) -> None:
    """Runs it under each and fails on what differs. `run` gets a new folder and the library.

    What others' tests measure may depend on the moment, so a difference has to show twice, unless
    it is a process that a signal ended or that never ended: those are never put down to chance.
    """
    under_libc = run(tmp / "libc", None)
    assert under_libc, "no test ran"
    found = differences(suite, under_libc, run(tmp / "loft", lib))
    if found and not any(NO_END in line or ": SIG" in line for line in found):
        first = found
        again = differences(suite, run(tmp / "libc-again", None), run(tmp / "loft-again", lib))
        found = [line for line in first if line in again]
        for line in set(first) - set(found):
            warnings.warn(f"shown once of twice: {line}", stacklevel=2)
    assert not found, "\n".join([*found, *tails(tmp)])


def tails(tmp: Path) -> list[str]:
    """The ends of what the runs under loft wrote."""
    outputs = sorted(tmp.glob("loft*/**/output"))
    return [f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in outputs]
