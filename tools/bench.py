#!/usr/bin/env python3
"""Measures loft against the peers: every workload under every allocator, interleaved.

    tools/bench.py                       the default set, under ten minutes on two cores
    tools/bench.py full                  more rows and more runs
    tools/bench.py --rows 'malloc-test*' --with loft,snmalloc,mimalloc3 --runs 9

Elapsed times come from plain runs. Hardware counters, where the kernel offers them, come from a
separate pass under perf, which slows down programs that switch often. Everything is written to
build/bench.json, from which tools/results.py makes docs/results.md.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from bench_programs import (
    BUILD,
    PEERS,
    PEERS_DIR,
    PROGRAMS,
    ROOT,
    Failed,
    allocators,
    count_instructions,
    pick,
    run_program,
    show,
)
from bench_report import Json, header_lines, invalid, remarks, tables
from rich.console import Console
from rich.progress import Progress

EVENTS = ("instructions", "cycles", "cache-misses")
# A run in which busy threads shared a CPU is done again this often before it is left out.
RETRIES = 2


class Effort(StrEnum):
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Row:
    name: str
    group: str
    threads: int
    command: str
    full_only: bool = False


ONE = "one thread"
PASSING = "producer/consumer"
MANY = "several threads"
SYSTEM = "large objects, start and end"


def message_passing(n: int) -> Row:
    command = f"message_passing --producers={n} --consumers={n}"
    return Row(f"message passing {n}:{n}", PASSING, 2 * n, command)


def xmalloc(n: int, *, full_only: bool = False) -> Row:
    command = f"malloc_test --producers={n} --consumers={n} --min=64 --max=64 --messages=8000"
    return Row(f"xmalloc-test {n}:{n}", PASSING, 2 * n, command, full_only)


ROWS = (
    Row("hot loop 16..128 B", ONE, 1, "hot_loop"),
    Row("LIFO of 1000", ONE, 1, "batch_order --order=lifo"),
    Row("FIFO of 1000", ONE, 1, "batch_order --order=fifo"),
    Row(
        "random replacement, 1000 of 16..128 B",
        ONE,
        1,
        "random_replacement --slots=1000 --min=16 --max=128",
    ),
    Row("random replacement, 20 000 of 8..507 B", ONE, 1, "random_replacement"),
    Row("2 M built, shuffled, freed", ONE, 1, "build_shuffle_free"),
    Row("malloc-test 1:1", PASSING, 2, "malloc_test"),
    message_passing(1),
    message_passing(2),
    message_passing(4),
    message_passing(8),
    Row("strict alternation", PASSING, 2, "alternation"),
    xmalloc(1),
    xmalloc(2, full_only=True),
    xmalloc(4, full_only=True),
    xmalloc(100),
    Row("pipeline", PASSING, 2, "pipeline --count=5000000"),
    Row("pipeline, consumer reads", PASSING, 2, "pipeline --count=5000000 --read=1"),
    Row("pipeline, full", PASSING, 2, "pipeline --count=5000000 --consumer-pause=4"),
    Row("pipeline, empty", PASSING, 2, "pipeline --count=5000000 --producer-pause=4"),
    Row("symmetric exchange", MANY, 2, "symmetric_exchange"),
    Row("larson, 1 thread", MANY, 1, "larson --threads=1", True),
    Row("larson, 2 threads", MANY, 2, "larson"),
    Row("larson, 8 threads", MANY, 8, "larson --threads=8 --generations=5", True),
    Row("cache-scratch, 2 threads", MANY, 2, "cache_scratch"),
    Row("cache-thrash, 2 threads", MANY, 2, "cache_thrash"),
    Row("800 kB ping-pong", SYSTEM, 1, "ping_pong_large"),
    Row("realloc to 1 GiB", SYSTEM, 1, "realloc_vector"),
    Row("thread churn", SYSTEM, 1, "thread_churn"),
    Row("start-up", SYSTEM, 1, "startup"),
)


def command_of(row: Row) -> list[str]:
    program, *arguments = row.command.split()
    return [str(PROGRAMS / program), *arguments]


def run_valid(row: Row, library: Path | None, cores: int) -> Json:
    result = run_program(command_of(row), library)
    for _ in range(RETRIES):
        if not invalid({"threads": row.threads}, result, cores):
            break
        result = run_program(command_of(row), library)
    return result


def counters_available() -> str | None:
    """None if perf can count; else why it cannot."""
    if shutil.which("perf") is None:
        return "perf is not installed"
    events = ",".join(f"{event}:u" for event in EVENTS)
    done = subprocess.run(
        ["perf", "stat", "-x", ",", "-e", events, "true"], capture_output=True, text=True
    )
    if done.returncode != 0:
        return "perf is not allowed to count"
    if "<not supported>" in done.stderr:
        return "this (virtual) machine has no hardware counters"
    return None


def count_events(row: Row, library: Path | None) -> dict[str, float]:
    events = ",".join(f"{event}:u" for event in EVENTS)
    report = BUILD / "bench.perf"
    preload = [] if library is None else [f"LD_PRELOAD={library}"]
    perf = ["perf", "stat", "-x", ",", "-o", str(report), "-e", events]
    run_program([*perf, "--", "env", *preload, *command_of(row)], None)
    counted = {}
    for line in report.read_text().splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[0].isdigit():
            counted[fields[2].split(":")[0]] = float(fields[0])
    report.unlink()
    return counted


def first_match(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return found.group(1).strip().strip('"') if found else "unknown"


def versions(names: list[str]) -> dict[str, str]:
    known: dict[str, str] = {"glibc": platform.libc_ver()[1]}
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--tags"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    known["loft"] = described.stdout.strip() or "of unknown commit"
    path = PEERS_DIR / "versions.json"
    if path.exists():
        known |= json.loads(path.read_text())
    return {name: known.get(name, "of unknown version") for name in names}


def make_header(names: list[str], repeats: int, counters: str | None) -> Json:
    memory = int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")) / 1024 / 1024
    virtual = "hypervisor" in first_match("/proc/cpuinfo", r"^flags\s*:(.*)$").split()
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:(.*)$"),
        "cores": len(os.sched_getaffinity(0)),
        "virtual": " of a virtual machine" if virtual else "",
        "memory_gib": memory,
        "system": first_match("/etc/os-release", r"^PRETTY_NAME=(.*)$"),
        "kernel": platform.release(),
        "repeats": repeats,
        "versions": versions(names),
        "counters": "perf stat, user mode, in a separate pass"
        if counters is None
        else f"none, {counters}; elapsed and CPU time only",
        "cpus_used": "",
    }


def measure(
    rows: list[Row], chosen: dict[str, Path | None], repeats: int, *, counting: bool
) -> list[Json]:
    cores = len(os.sched_getaffinity(0))
    results: list[Json] = []
    passes = 1 + repeats + counting
    with Progress(transient=True) as progress:
        task = progress.add_task("", total=len(rows) * len(chosen) * passes)
        for row in rows:
            runs: dict[str, list[Json]] = {name: [] for name in chosen}
            failures: dict[str, str] = {}

            def attempt(name: str, number: int, row: Row, runs: dict[str, list[Json]]) -> None:
                library = chosen[name]
                if number <= repeats:
                    result = run_valid(row, library, cores)
                    if number > 0:
                        runs[name].append({"round": number, **result})
                elif runs[name] and row.name != "start-up":
                    # The counters belong to the workload, not to one of its runs.
                    counted = count_events(row, library)
                    for run in runs[name]:
                        run["counters"] = counted

            # Round 0 warms up: page cache, frequency, what the kernel keeps of other programs.
            for number in range(passes):
                for name in chosen:
                    progress.update(task, description=f"{row.name}: {name}")
                    if name not in failures:
                        try:
                            attempt(name, number, row, runs)
                        except Failed as error:
                            failures[name] = str(error)
                            runs[name] = []
                    progress.advance(task)
            results.append(
                {
                    "name": row.name,
                    "group": row.group,
                    "threads": row.threads,
                    "command": row.command,
                    "runs": runs,
                    "failures": failures,
                }
            )
    return results


def main(
    effort: Annotated[
        Effort, typer.Argument(help="the default set, or the long one")
    ] = Effort.QUICK,
    rows: Annotated[str, typer.Option(help="patterns of row names, comma-separated")] = "*",
    with_: Annotated[str, typer.Option("--with", help="patterns of allocator names")] = "*",
    runs: Annotated[int, typer.Option(min=0, help="interleaved runs; 0: three, full nine")] = 0,
    out: Annotated[Path, typer.Option(help="where the JSON goes")] = BUILD / "bench.json",
    list_: Annotated[bool, typer.Option("--list", help="list the rows and stop")] = False,
) -> None:
    """Measures loft against the peers."""
    console = Console(width=None if sys.stdout.isatty() else 200, soft_wrap=False)
    candidates = [row for row in ROWS if effort is Effort.FULL or rows != "*" or not row.full_only]
    if list_:
        for row in ROWS:
            console.print(f"{row.name:42} {row.command}")
        return
    wanted = pick([row.name for row in candidates], rows, "row")
    chosen_rows = [row for row in candidates if row.name in wanted]
    there = allocators()
    names = pick(list(there), with_, "allocator")
    chosen = {name: there[name] for name in names}
    missing = sorted(
        {row.command.split()[0] for row in chosen_rows if not Path(command_of(row)[0]).exists()}
    )
    if missing:
        print(f"bench: not built: {', '.join(missing)}; run make bench", file=sys.stderr)
        raise typer.Exit(2)

    repeats = runs or (9 if effort is Effort.FULL else 3)
    no_counters = counters_available()
    data: Json = {
        "header": make_header(names, repeats, no_counters),
        "allocators": names,
        "peers": [name for name in PEERS if name in chosen],
        "rows": measure(chosen_rows, chosen, repeats, counting=no_counters is None),
        "instructions": {},
    }
    for name, library in chosen.items():
        counted = count_instructions(library)
        if counted is not None:
            data["instructions"][name] = counted
    used = {
        cpu
        for row in data["rows"]
        for each in row["runs"].values()
        for run in each
        for cpu in run["cpus"]
    }
    data["header"]["cpus_used"] = ", ".join(map(str, sorted(used)))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(data, indent=1) + "\n")

    for line in header_lines(data):
        console.print(line)
    for table in tables(data):
        show(console, table)
    for remark in remarks(data):
        console.print(f"note: {remark}")
    if any(row["failures"] for row in data["rows"]):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
