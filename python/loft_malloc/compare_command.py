"""`loft compare`: from what the user asked for to what is printed and written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from loft_malloc import (
    comparison,
    elf,
    metrics,
    noise,
    outcome,
    output,
    report_data,
    report_text,
    verdict,
)
from loft_malloc.comparison import Comparison, Plan
from loft_malloc.errors import UserError
from loft_malloc.printable import printable

# A table of three columns and names; a pipe has no width of its own.
WIDTH_IN_PIPE = 120


@dataclass(frozen=True)
class Files:
    json: Path | None = None
    csv: Path | None = None
    html: Path | None = None
    stats: Path | None = None

    def check(self) -> None:
        output.check_all((self.json, self.csv, self.html, self.stats))


def compare(plan: Plan, files: Files) -> int:
    if plan.stats and not any(elf.is_loft(each.library) for each in plan.allocators):
        raise UserError("--stats: only loft has statistics; add it to --with")
    files.check()
    if plan.runs < noise.FEWEST_ROUNDS and len(plan.allocators) > 1:
        # Before the time is spent, and not only after.
        few = noise.why_nothing_is_told(len(plan.allocators), plan.runs)
        print(f"loft: {few}", file=sys.stderr, flush=True)
    measured = _measure(plan)
    endings, exit_code = outcome.judge({m.allocator.name: m.outcomes for m in measured.measured})
    rows = metrics.rows(measured)
    remarks = [printable(remark) for remark in (*measured.notes, *endings)]
    said = printable(verdict.sentence(measured, rows))
    # Whoever reads the terminal may go away in the middle (| head), and the files are to be there.
    failed = _write(files, measured, rows, said, remarks)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_IN_PIPE)
    report_text.show(console, measured, rows, said, remarks)
    if failed:
        raise UserError("; ".join(failed), 1)
    return exit_code


def _measure(plan: Plan) -> Comparison:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    # It is drawn between runs only: a thread that draws now and then would disturb them.
    with Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        disable=plan.show_output or not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None)
        done = 0

        def progress(what: str, left: int) -> None:
            nonlocal done
            bar.update(task, description=what, completed=done, total=done + left, refresh=True)
            done += 1

        return comparison.compare(plan, progress)


def _write(
    files: Files, measured: Comparison, rows: list[metrics.Row], said: str, remarks: list[str]
) -> list[str]:
    """What could not be written: that one disk is full is no reason to lose the rest."""
    failed = []
    writers: list[tuple[Path | None, Callable[[Path], None]]] = [
        (files.json, lambda path: report_data.write_json(path, measured, rows, said, remarks)),
        (files.csv, lambda path: report_data.write_csv(path, rows)),
        (files.stats, lambda path: report_data.write_stats(path, measured)),
        (files.html, lambda path: _write_page(path, measured, rows, said, remarks)),
    ]
    for path, write in writers:
        if path is None:
            continue
        try:
            write(path)
        except OSError as error:
            failed.append(f"{path} cannot be written: {error.strerror}")
    return failed


def _write_page(
    path: Path, measured: Comparison, rows: list[metrics.Row], said: str, remarks: list[str]
) -> None:
    with Console(stderr=True).status("drawing the page"):
        # Here, because loading what draws takes longer than most of the commands.
        from loft_malloc import report_html

        report_html.write(path, measured, rows, said, remarks)
