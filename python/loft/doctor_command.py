"""`loft doctor`: what it found, line by line."""

import psutil
from rich.console import Console
from rich.text import Text

from loft import check_machine, check_program
from loft.errors import UserError
from loft.finding import Finding
from loft.machine import Machine
from loft.printable import printable

STYLES = {"ok": "green", "note": "yellow", "warning": "bold red"}
INDENT = " " * 9


def doctor(command: list[str], pid: int | None) -> int:
    machine = Machine() if pid is None else machine_of(pid)
    findings = examine(machine, command, pid)
    console = Console()
    for finding in findings:
        show(console, finding)
    blocked = [finding for finding in findings if finding.blocks]
    if blocked:
        console.print("loft does not work here as things are; see the warnings")
    return 1 if blocked else 0


def examine(machine: Machine, command: list[str], pid: int | None) -> list[Finding]:
    findings = [check_program.check_library(), *check_machine.check(machine)]
    findings += check_program.check_environment(machine)
    if command:
        findings += check_program.check_command(command, machine)
    if pid is not None:
        findings += check_program.check_process(machine)
    return findings


def machine_of(pid: int) -> Machine:
    """The machine as this process sees it: its limits, control group and environment."""
    try:
        return Machine(process=str(pid), environment=psutil.Process(pid).environ())
    except (psutil.NoSuchProcess, ValueError):
        raise UserError(f"--pid {pid}: no process has this number") from None
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
