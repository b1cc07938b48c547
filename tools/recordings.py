#!/usr/bin/env python3
"""Records the programs of bench/recordings.toml for the rows that replay them.

tools/recordings.py [NAME ...]       build/bench/NAME.plan, where it is missing or too old
"""

import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from loft_malloc import replay, trace_file
from loft_malloc.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
WRITTEN = ROOT / "bench" / "recordings.toml"
PARTS = ("loft-record.so", "loft-trace")
# How often a replay looks at its memory.
SAMPLES = 200


class Recording(BaseModel):
    """As it is written there."""

    model_config = ConfigDict(extra="forbid")

    command: str
    environment: dict[str, str]


def all_of_them(path: Path = WRITTEN) -> dict[str, Recording]:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Recording.model_validate(each) for name, each in told.items()}


def plan_of(name: str) -> Path:
    return BUILD / "bench" / f"{name}.plan"


def is_current(plan: Path) -> bool:
    sources = [WRITTEN, *(BUILD / part for part in PARTS)]
    return plan.exists() and plan.stat().st_mtime > max(each.stat().st_mtime for each in sources)


def make(recording: Recording, plan: Path) -> None:
    """Under its name only when it is complete."""
    command = shlex.split(recording.command.replace("{bench}", str(WRITTEN.parent)))
    plan.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=plan.parent, prefix="recording-") as name:
        folder = Path(name)
        packed, chunks, made = folder / "trace", folder / "chunks", folder / "plan"
        ran = subprocess.run(
            [sys.executable, "-m", "loft_malloc", "record", "-o", packed, "--", *command],
            env={**os.environ, **recording.environment},
            capture_output=True,
            text=True,
        )
        if ran.returncode:
            last = ran.stderr.strip().splitlines()[-1:] or ["no message"]
            raise UserError(f"{command[0]} could not be recorded: {last[0]}")
        trace = trace_file.Trace.read(packed, chunks, lambda done, of: None)
        process = replay.pick(trace, replay.processes(trace, chunks), None)
        number = str(process.number)
        replay.helper("loft-trace", trace, "plan", chunks, number, str(SAMPLES), made)
        packed.replace(plan.with_suffix(".zst"))
        made.replace(plan)


def main(names: list[str]) -> None:
    there = all_of_them()
    for name in names or there:
        if name not in there:
            raise UserError(f"no recording {name}; there are: {', '.join(there)}", 2)
        if not is_current(plan_of(name)):
            print(f"recording {name}", file=sys.stderr)
            make(there[name], plan_of(name))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"recordings: {error}")
