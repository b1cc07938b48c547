"""`loft doctor`: what it found, line by line."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

import psutil
from rich.console import Console
from rich.text import Text

from loft_malloc import check_machine, check_program, host, places
from loft_malloc.errors import UserError
from loft_malloc.finding import Finding
from loft_malloc.machine import Machine
from loft_malloc.printable import printable

# Most urgent first.
ORDER = ("warning", "note", "ok")
STYLES = {"ok": "green", "note": "yellow", "warning": "bold red"}
# The version of the form that --json prints: it counts up when a field goes or changes its meaning.
SCHEMA = 1
INDENT = " " * 9


def doctor(command: list[str], pid: int | None, *, as_json: bool = False) -> int:
    machine = Machine() if pid is None else machine_of(pid)
    # A large program is searched for the allocators that it may contain.
    with Console(stderr=True).status("checking"):
        findings = examine(machine, command, pid)
    works = not any(finding.blocks for finding in findings)
    if as_json:
        print(json.dumps(described(command, pid, findings, works), indent=1))
    else:
        console = Console()
        for finding in sorted(findings, key=lambda each: ORDER.index(each.level)):
            show(console, finding)
        if not works:
            console.print("loft does not work here; see the warnings")
    return 0 if works else 1


def described(
    command: list[str], pid: int | None, findings: list[Finding], works: bool
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "loft": places.version(),
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": asdict(host.this()),
        "command": command,
        "pid": pid,
        "works": works,
        "findings": [asdict(finding) for finding in findings],
    }


def examine(machine: Machine, command: list[str], pid: int | None) -> list[Finding]:
    findings = list(check_program.check_process(machine)) if pid is not None else []
    if command:
        findings += check_program.check_command(command, machine)
    findings += check_program.check_environment(machine)
    return [*findings, check_program.check_library(), *check_machine.check(machine)]


def machine_of(pid: int) -> Machine:
    """The machine as this process sees it: its limits, control group and environment."""
    try:
        return Machine(process=str(pid), environment=psutil.Process(pid).environ())
    except (psutil.NoSuchProcess, ValueError):
        raise UserError(f"--pid {pid}: there is no such process") from None
    except psutil.AccessDenied:
        said = f"--pid {pid}: belongs to another user; run loft doctor as that user"
        raise UserError(said) from None


def show(console: Console, finding: Finding) -> None:
    line = Text(f"{finding.level:{len(INDENT)}}", style=STYLES[finding.level])
    line.append(f"{finding.what}: ", style="bold")
    line.append(printable(finding.value), style="default not bold")
    console.print(line, soft_wrap=True)
    console.print(Text(f"{INDENT}{printable(finding.why)}", style="dim"), soft_wrap=True)
    if finding.do:
        console.print(Text(f"{INDENT}do: {finding.do}"), soft_wrap=True)
