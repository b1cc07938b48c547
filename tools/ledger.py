#!/usr/bin/env python3
"""The ledger: what loft costs, counted, so that nothing gets worse unseen.

    tools/ledger.py               counts, and shows it beside the last tag
    tools/ledger.py --check       counts, and fails where bench/ledger.toml is exceeded
    tools/ledger.py --update      writes what was counted; --reason=TEXT where something rose
    tools/ledger.py --context     counts glibc and the peers in build/peers, and writes that

The counts repeat exactly, on every x86-64 processor and however busy it is: no clock, no chance, no
address that the system draws. --night adds what takes long.
"""

import platform
import sys
from pathlib import Path
from typing import Annotated

import ledger_counts
import ledger_docs
import typer
from ledger_counts import BUILD, ROOT
from ledger_rows import Counts, Findings, Ledger, Row, compare, look_at_history, plain, update
from parts import git
from rich.console import Console
from rich.table import Table

from loft_malloc.errors import UserError

WRITTEN = ROOT / "bench" / "ledger.toml"
LIBRARY = BUILD / ledger_counts.LIBRARY
PEERS = ("mimalloc2", "mimalloc3", "snmalloc", "jemalloc", "tcmalloc", "tbbmalloc")
# Beside these in all that is counted; of the others their instructions are enough.
BESIDE = ("glibc", "mimalloc3")


def at(commit: str) -> Ledger | None:
    text = git("show", f"{commit}:bench/ledger.toml")
    return Ledger.parse(text) if text else None


def history() -> tuple[str, list[Ledger]]:
    """Since when, and the ledger as it was then and after each commit since."""
    commits = (git("log", "--format=%H", "--reverse", "--", "bench/ledger.toml") or "").split()
    tag = git("describe", "--tags", "--abbrev=0")
    if tag and at(tag) is not None:
        since = git("log", "--format=%H", "--reverse", f"{tag}..", "--", str(WRITTEN))
        commits = (since or "").split()
        return tag, [each for commit in (tag, *commits) if (each := at(commit)) is not None]
    found = [each for commit in commits if (each := at(commit)) is not None]
    return f"the ledger's first commit, {commits[0][:9]}" if commits else "never", found


def count(
    library: Path | None, ledger: Ledger, night: bool, said: Findings, all_of_it: bool = True
) -> Counts:
    """What this machine can count of an allocator, or of glibc's: all, or what is of every peer."""
    counts: Counts = {}
    for name, part in ledger_counts.parts().items():
        if (part.night and not night) or (part.own and library != LIBRARY):
            continue
        if not (all_of_it or part.of_every_peer):
            continue
        if why := part.why_not(ledger):
            said.skipped.append(f"{name}: {why}")
            continue
        with ledger_counts.place(library) as there:
            counted = part.count(there)
        for title, rows in counted.items():
            counts.setdefault(title, {}).update(rows)
    if ledger_counts.FAULTS not in counts:
        said.skipped.append(f"{ledger_counts.FAULTS}: {ledger_counts.NO_FAULTS}")
    return counts


def check_compiler(ledger: Ledger) -> None:
    here = ledger_counts.compiler()
    if here != ledger.compiler:
        raise UserError(f"the ledger is of {ledger.compiler}, and this was built by {here}", 1)


def check(ledger: Ledger, night: bool) -> None:
    check_compiler(ledger)
    findings = Findings()
    since, versions = history()
    look_at_history([*versions, ledger], findings)
    for page in ledger_docs.differences(ledger):
        findings.worse.append(f"{page.name} does not say what the ledger has")
    measured = count(LIBRARY, ledger, night, findings)
    compare(ledger, measured, findings)
    for each in findings.skipped:
        print(f"skipped: {each}")
    for each in findings.better:
        print(f"better: {each}; `make ledger UPDATE=1` writes it")
    for each in findings.worse:
        print(f"failed: {each}")
    rows = sum(map(len, measured.values()))
    print(f"ledger: {rows} counts, {len(findings.worse)} worse; rises since {since}")
    if findings.worse:
        raise UserError(
            "what rises is written with its reason: tools/ledger.py --update --reason", 1
        )


def write(ledger: Ledger, reason: str, night: bool) -> None:
    said = Findings()
    if LIBRARY.exists():
        ledger.compiler = ledger_counts.compiler()
    ledger.packages = ledger_counts.packages()
    if missing := [name for name, version in ledger.packages.items() if not version]:
        raise UserError(f"not installed: {', '.join(missing)}; tools/setup.sh test", 1)
    for title, group in ledger_counts.GROUPS.items():
        written = ledger.groups.setdefault(title, group)
        written.unit, written.within, written.night = group.unit, group.within, group.night
    rose = update(ledger, count(LIBRARY, ledger, night, said), reason)
    for each in [*said.skipped, *rose]:
        print(each)
    if rose and not reason:
        raise UserError("what rises needs a reason: --reason", 1)
    WRITTEN.write_text(ledger.text(), encoding="utf-8")
    ledger_docs.write(ledger)


def write_context(ledger: Ledger, night: bool) -> None:
    for name in ("glibc", *PEERS):
        library = None if name == "glibc" else BUILD / "peers" / f"{name}.so"
        if library is not None and not library.exists():
            print(f"{name} is not in build/peers; `make peers` builds it")
            continue
        counts = count(library, ledger, night, Findings(), all_of_it=name in BESIDE)
        for title, rows in counts.items():
            for row, value in rows.items():
                if (there := ledger.find(title, row)) is not None:
                    there.peers[name] = value
    WRITTEN.write_text(ledger.text(), encoding="utf-8")
    ledger_docs.write(ledger)


def change(row: Row, before: Row | None) -> str:
    if before is None:
        return "new"
    if row.value == before.value:
        return ""
    share = (row.value / before.value - 1) * 100 if before.value else 0
    return f"{plain(row.value - before.value)} ({share:+.1f} %)".replace("-0 ", "0 ")


def show(ledger: Ledger, measured: Counts) -> None:
    since, versions = history()
    before = next((each for each in versions if each.method == ledger.method), Ledger())
    console = Console(width=None if sys.stdout.isatty() else 160)
    for title, group in ledger.groups.items():
        table = Table(title=f"{title} ({group.unit})", title_justify="left", expand=False)
        table.add_column("")
        for column in ("now", "ledger", f"since {since}", "glibc", "mimalloc3"):
            table.add_column(column, justify="right")
        for name, row in group.rows.items():
            now = measured.get(title, {}).get(name)
            beside = [plain(row.peers[each]) if each in row.peers else "" for each in BESIDE]
            shown = "" if now is None else plain(now)
            table.add_row(
                name, shown, plain(row.value), change(row, before.find(title, name)), *beside
            )
        console.print(table)


def main(
    checks: Annotated[bool, typer.Option("--check")] = False,
    updates: Annotated[bool, typer.Option("--update")] = False,
    reason: Annotated[str, typer.Option("--reason")] = "",
    context: Annotated[bool, typer.Option("--context")] = False,
    night: Annotated[bool, typer.Option("--night")] = False,
) -> None:
    """Counts what loft costs, and compares it with bench/ledger.toml."""
    if platform.machine() != "x86_64":
        print("skipped: the ledger: its counts are of x86-64")
        return
    ledger = Ledger.parse(WRITTEN.read_text(encoding="utf-8")) if WRITTEN.exists() else Ledger()
    if checks:
        check(ledger, night)
    elif updates:
        write(ledger, reason, night)
    elif context:
        write_context(ledger, night)
    else:
        check_compiler(ledger)
        findings = Findings()
        show(ledger, count(LIBRARY, ledger, night, findings))
        print("\n".join(f"skipped: {each}" for each in findings.skipped))


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        sys.exit(f"ledger: {error}")
