#!/usr/bin/env python3
"""Prints how many instructions malloc and free take under each allocator, counted one by one.

Works where perf has no counters: bench/count_instructions.cc single-steps them with ptrace.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from bench_programs import allocators, count_instructions, pick, show
from bench_report import Json
from bench_tables import instruction_table
from rich.console import Console


def main(
    with_: Annotated[str, typer.Option("--with", help="patterns of allocator names")] = "*",
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table")] = False,
) -> None:
    """Counts the instructions of malloc and free under each allocator."""
    console = Console(soft_wrap=True)
    there = allocators()
    names = pick(list(there), with_, "allocator")
    counted: dict[str, Json] = {}
    for name in names:
        result = count_instructions(there[name])
        if result is None:
            Console(stderr=True).print(f"count_instructions: it failed under {name}")
        else:
            counted[name] = result
    if as_json:
        print(json.dumps(counted, indent=1))
        return
    table = instruction_table({"allocators": names, "instructions": counted})
    if table is not None:
        show(console, table)


if __name__ == "__main__":
    typer.run(main)
