#!/usr/bin/env python3
"""Runs the programs of test/misuse under loft and its peers, and says what came of each mistake.

    tools/misuse.py                                   all cases, everywhere
    tools/misuse.py --with off,scudo 'double*'        some
    tools/misuse.py --update                          also writes test/misuse/outcomes.json and,
                                                      from it, docs/internals/misuse.md

Outcomes of a configuration that did not run stay as they are in the file.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from misuse_record import (
    OUTCOMES,
    PAGE,
    Outcomes,
    Record,
    as_text,
    merged,
    one_a_line,
    summary,
    versions,
)
from misuse_runs import (
    BUILD,
    CONFIGURATIONS,
    ROOT,
    Case,
    Configuration,
    cases_of,
    compiled,
    run_case,
)
from rich.console import Console
from rich.progress import Progress

from loft_malloc.errors import UserError
from loft_malloc.tables import for_terminal


def run_all(
    program: Path, cases: list[Case], configurations: list[Configuration], jobs: int
) -> Outcomes:
    work = [
        (case, configuration)
        for case in cases
        for configuration in configurations
        for _ in range(configuration.tries)
    ]
    words: dict[tuple[str, str], list[str]] = {}
    console = Console(stderr=True)
    with (
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = progress.add_task("misuse", total=len(work))
        ends = pool.map(lambda each: run_case(program, each[0].name, each[1]), work)
        for (case, configuration), end in zip(work, ends, strict=True):
            words.setdefault((case.name, configuration.name), []).append(end.word)
            progress.advance(task)
            if end.word in ("broken", "hung"):
                console.print(f"misuse: {case.name}, {configuration.name}: {end.word} {end.report}")
    outcomes: Outcomes = {}
    for (name, configuration_name), seen in words.items():
        outcomes.setdefault(name, {})[configuration_name] = as_text(seen)
    return outcomes


def chosen(names: str, there: list[Configuration]) -> list[Configuration]:
    if not names:
        return there
    by_name = {each.name: each for each in CONFIGURATIONS}
    for name in names.split(","):
        if name not in by_name:
            raise UserError(f"no configuration {name}; there are: {', '.join(by_name)}")
        if by_name[name] not in there:
            raise UserError(f"{name} is not built: make, make peers")
    return [by_name[name] for name in names.split(",")]


def main(
    patterns: Annotated[list[str] | None, typer.Argument(help="cases, as double-*")] = None,
    names: Annotated[str, typer.Option("--with", help="configurations, with commas")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="cases at once")] = os.cpu_count() or 1,
    update: Annotated[bool, typer.Option(help="write the outcomes and the page")] = False,
    reports: Annotated[bool, typer.Option(help="print what each process wrote")] = False,
) -> None:
    """What comes of each misuse of the heap, under loft and its peers."""
    try:
        there = [each for each in CONFIGURATIONS if each.is_there()]
        configurations = chosen(names, there)
        program = compiled(BUILD / "misuse")
        all_cases = cases_of(program)
        wanted = patterns or ["*"]
        cases = [c for c in all_cases if any(fnmatchcase(c.name, each) for each in wanted)]
        if not cases:
            raise UserError(f"no case is named {' or '.join(wanted)}")
        absent = [each.name for each in CONFIGURATIONS if each not in there]
        if absent and not names:
            print(f"misuse: not there: {', '.join(absent)}", file=sys.stderr)
        if reports:
            for case in cases:
                for each in configurations:
                    end = run_case(program, case.name, each)
                    print(f"{case.name}, {each.name}: {end.word} {end.report}")
            return
        outcomes = run_all(program, cases, configurations, jobs)
        console = Console()
        # A pipe has no width of which a table would have to keep.
        if not console.is_terminal:
            console = Console(width=200)
        console.print(for_terminal(one_a_line(cases, outcomes)))
        console.print()
        console.print(for_terminal(summary(cases, outcomes)))
        if update:
            old = Record.read()
            record = Record(
                all_cases,
                merged(old.outcomes, outcomes, all_cases),
                {**old.versions, **versions()},
            )
            OUTCOMES.write_text(record.as_json(), encoding="utf-8")
            PAGE.write_text(record.page(), encoding="utf-8")
            print(f"misuse: {OUTCOMES.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    except UserError as error:
        print(f"misuse: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
