"""What the measuring scripts share: the allocators that are there, running programs under them."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import typer
from bench_report import Json, Table
from bench_rows import Row, variant_path
from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PROGRAMS = BUILD / "bench"
PEERS_DIR = BUILD / "peers"
PEERS = ("mimalloc2", "mimalloc3", "snmalloc", "jemalloc", "tcmalloc", "tbbmalloc")
OWNERS = {"loft core": "core", "loft keeper": "keeper"}
PROGRAM_TIMEOUT_S = 180


class Failed(Exception):
    """A program under an allocator crashed, hung or found an error; the text says which."""


def allocators() -> dict[str, Path | None]:
    """Name and library of every allocator that is there; glibc needs none."""
    found: dict[str, Path | None] = {"glibc": None}
    # loft under each value of its option `owner`: the same library.
    candidates = dict.fromkeys(("loft", *OWNERS), BUILD / "libloft.so")
    candidates |= {name: PEERS_DIR / f"{name}.so" for name in (*PEERS, "prototype")}
    found |= {name: path for name, path in candidates.items() if path.exists()}
    return found


def environment_of(name: str) -> dict[str, str]:
    """What an allocator needs to have set."""
    return {"LOFT_OWNER": OWNERS[name]} if name in OWNERS else {}


def variant_library(row: Row) -> Path:
    return BUILD / variant_path(row.variant)


def command_of(row: Row) -> list[str]:
    return [str(PROGRAMS / row.program), *row.arguments]


def finish(
    command: list[str], library: Path | None, extra: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "LOFT_"))}
    if library is not None:
        environment["LD_PRELOAD"] = str(library)
    environment |= extra or {}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {PROGRAM_TIMEOUT_S} s") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Failed(f"exit {done.returncode}: {last[0]}")
    return done


@contextmanager
def copy_of(library: Path | None) -> Iterator[Path | None]:
    """A new copy beside the library. Where the page cache happens to hold its code can be worth
    more than anything measured here, and is to be another luck in each run."""
    if library is None:
        yield None
        return
    with NamedTemporaryFile(dir=library.parent, prefix=f"{library.stem}.", suffix=".so") as copy:
        copy.write(library.read_bytes())
        copy.flush()
        yield Path(copy.name)


def run_program(
    command: list[str], library: Path | None, extra: dict[str, str] | None = None
) -> Json:
    """One run's result line; `extra` is added to the environment."""
    with copy_of(library) as copy:
        done = finish(command, copy, extra)
    try:
        result: Json = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise Failed(f"no result line, but {done.stdout[:80]!r}") from None
    return result


def loft_statistics(row: Row, library: Path) -> Json:
    """What loft says of its own work in a run of the row."""
    done = finish(command_of(row), library, {"LOFT_STATS": "json"} | row.environment)
    # Programs that start others have a line from each: the one that did most is meant.
    said: list[Json] = [json.loads(x) for x in done.stderr.splitlines() if x.startswith("{")]
    if not said:
        raise Failed("no statistics on standard error")
    return max(said, key=lambda each: int(each["refills"]) + int(each["large_allocations"]))


def count_instructions(
    library: Path | None, remote_frees: int = 4096, extra: dict[str, str] | None = None
) -> Json | None:
    try:
        command = [str(PROGRAMS / "count_instructions"), f"--remote={remote_frees}"]
        return run_program(command, library, extra)
    except Failed:
        return None


def show(console: Console, table: Table) -> None:
    styles = {"ahead": "green", "level": "", "behind": "red", "none": "dim"}
    console.print(f"\n[bold]{table.title}[/bold]. {table.note}")
    shown = RichTable(*table.columns)
    for label, cells in table.rows:
        # Losses are marked for loft; the others are there to compare with.
        painted = [
            f"[{style}]{cell.text}[/{style}]"
            if (style := styles[cell.verdict]) and column == "loft"
            else cell.text
            for column, cell in zip(table.columns[1:], cells, strict=True)
        ]
        shown.add_row(label, *painted)
    console.print(shown)


def pick(names: list[str], wanted: str, what: str) -> list[str]:
    patterns = [pattern.strip() for pattern in wanted.split(",")]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            print(f"bench: no {what} {pattern}; there are: {'; '.join(names)}", file=sys.stderr)
            raise typer.Exit(2)
    return [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
