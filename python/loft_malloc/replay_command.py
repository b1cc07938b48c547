"""`loft replay`: from what the user asked for to what is printed and written."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from loft_malloc import metrics, noise, places, replay
from loft_malloc.allocators import Allocator
from loft_malloc.compare_command import WIDTH_IN_PIPE, Files
from loft_malloc.noise import Summary
from loft_malloc.printable import printable
from loft_malloc.replay import Process, Replayed, Run
from loft_malloc.tables import Cell, Table, for_terminal
from loft_malloc.trace_file import Trace

# Points of the table of fragmentation over time.
POINTS = 10


@dataclass(frozen=True)
class Request:
    path: Path
    allocators: list[Allocator]
    process: int | None
    runs: int
    # None: as replay.window() says.
    window: int | None
    touch: str
    samples: int
    timeout_s: float | None
    counted: bool
    json_file: Path | None


def bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    # It is drawn between runs only: a thread that draws now and then would disturb them.
    return Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        disable=not console.is_terminal,
    )


@contextmanager
def saying(what: str) -> Iterator[None]:
    """While something goes on whose end nobody can tell."""
    with bar(Console(stderr=True)) as drawn:
        drawn.add_task(what, total=None)
        drawn.refresh()
        yield


def read(path: Path, chunks: Path) -> Trace:
    with bar(Console(stderr=True)) as drawn:
        task = drawn.add_task(f"reading {path.name}", total=None)
        return Trace.read(
            path,
            chunks,
            lambda done, of: drawn.update(task, completed=done, total=of, refresh=True),
        )


def _processes(trace: Trace, chunks: Path) -> list[Process]:
    with saying("counting the calls"):
        return replay.processes(trace, chunks)


def shown(words: list[str], most: int = 100) -> str:
    """A command on one line, cut where it is long."""
    text = " ".join(printable(shlex.join(words)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def output() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH_IN_PIPE)


def show_calls(path: Path, process: int | None) -> int:
    with tempfile.TemporaryDirectory(prefix="loft-replay-") as folder:
        chunks = Path(folder) / "chunks"
        trace = read(path, chunks)
        picked = replay.pick(trace, _processes(trace, chunks), process)
        sys.stdout.flush()
        replay.helper("loft-trace", trace, "calls", chunks, str(picked.number), show=True)
    return 0


def show_info(path: Path, process: int | None, json_file: Path | None) -> int:
    Files(json_file).check()
    with tempfile.TemporaryDirectory(prefix="loft-replay-") as folder:
        chunks = Path(folder) / "chunks"
        trace = read(path, chunks)
        there = _processes(trace, chunks)
        picked = replay.pick(trace, there, process)
        plan = Path(folder) / "plan"
        told = _told(trace, chunks, picked, 0, plan)
        size = path.stat().st_size / max(1, sum(each.calls for each in there))
    console = output()
    console.print(escape(shown(trace.header.get("command", []))), style="bold", soft_wrap=True)
    table = Table(["process", "pid", "from", "calls", "threads", "time", "command"])
    for each in there:
        began = "exec" if each.parent is None else f"fork of {each.parent}"
        texts = [
            str(each.pid), began, str(each.calls), str(each.threads), metrics.seconds(each.seconds),
            shown(each.words, 60),
        ]  # fmt: skip
        table.add(f"{each.number}{' *' if each == picked else ''}", *texts)
    console.print(for_terminal(table))
    lines = [f"{size:.2f} bytes a call in {path}", f"process {picked.number}:"]
    lines += [f"  {name}: {count}" for name, count in told["by_call"].items()]
    lines += [
        f"  sizes: {_sizes(told['by_size'])}",
        f"  most alive: {metrics.kibibytes(told['peak_bytes'] / 1024)} in "
        f"{told['peak_objects']} objects, after {told['peak_ticket'] / told['tickets']:.0%}"
        if told["tickets"]
        else "  nothing was ever alive",
        f"  alive at the end: {metrics.kibibytes(told['left_bytes'] / 1024)} in "
        f"{told['left_objects']} objects",
        f"  freed or moved by another thread: {told['handed']} objects",
    ]
    for line in lines + _remarks(trace, told):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if json_file is not None:
        told = {"header": trace.header, "footer": trace.footer, "process": told}
        told["processes"] = [asdict(each) for each in there]
        json_file.write_text(json.dumps(told, indent=1) + "\n")
    return 0


def _sizes(by_size: list[int]) -> str:
    """By powers of two, those that hold a hundredth of all or more."""
    total = sum(by_size)
    parts = []
    for power, count in enumerate(by_size):
        if total and count / total >= 0.01:
            below = 2**power
            text = f"{below} B" if below < 1024 else metrics.kibibytes(below / 1024)
            parts.append(f"{count / total:.0%} below {text}")
    return ", ".join(parts) or "none"


def _told(trace: Trace, chunks: Path, process: Process, samples: int, plan: Path) -> dict[str, Any]:
    words = ("plan", chunks, str(process.number), str(samples), plan)
    with saying("ordering the calls"):
        told: dict[str, Any] = json.loads(replay.helper("loft-trace", trace, *words))
    return told


def _remarks(trace: Trace, told: dict[str, Any]) -> list[str]:
    said = []
    if ended := trace.footer.get("code"):
        said.append(f"the recorded command failed: {trace.footer.get('outcome', ended)}")
    counted = {
        "lost": "calls in signal handlers, lost because there were too many at a time",
        "foreign": "frees of objects from before the recording, left out",
        "twice": "objects freed by calls that were not recorded",
    }
    return said + [f"{text}: {told[key]}" for key, text in counted.items() if told[key]]


def run(request: Request) -> int:
    Files(request.json_file).check()
    if request.counted:
        replay.check_counter()
    with tempfile.TemporaryDirectory(prefix="loft-replay-") as folder:
        chunks = Path(folder) / "chunks"
        trace = read(request.path, chunks)
        process = replay.pick(trace, _processes(trace, chunks), request.process)
        file = Path(folder) / "plan"
        told = _told(trace, chunks, process, request.samples, file)
        chunks.unlink()
        asked = request.window
        window = replay.window(told["tickets"]) if asked is None else asked
        plan = replay.Plan(
            file,
            request.allocators,
            request.runs,
            window,
            request.touch,
            request.timeout_s,
            request.counted,
        )
        replayed, notes = _measure(plan)
    remarks = [*_remarks(trace, told), *notes, *_complaints(replayed)]
    summaries = _summaries(replayed)
    if request.json_file is not None:
        _write(request.json_file, trace, told, replayed, summaries, remarks)
    _show(output(), process, told, replayed, summaries, remarks, request.runs, window)
    good = all(each.usable and not _broken(each) for each in replayed)
    return 0 if good else 1


def _measure(plan: replay.Plan) -> tuple[list[Replayed], list[str]]:
    with bar(Console(stderr=True)) as drawn:
        task = drawn.add_task("", total=None)
        done = 0

        def progress(what: str, left: int) -> None:
            nonlocal done
            drawn.update(task, description=what, completed=done, total=done + left, refresh=True)
            done += 1

        return replay.replay(plan, progress)


def _broken(each: Replayed) -> bool:
    return any(run.damaged + run.dirty + run.unaligned for run in each.runs)


def _complaints(replayed: list[Replayed]) -> list[str]:
    said = []
    for each in replayed:
        if each.failure:
            said.append(f"under {each.allocator.name}: {each.failure}")
        for complaint in each.runs[0].complaints if each.runs else []:
            said.append(f"under {each.allocator.name}: {complaint}")
    return said


COLUMNS = [
    ("seconds", "wall time", metrics.seconds),
    ("cpu", "CPU time", metrics.seconds),
    ("peak_kib", "peak memory", metrics.kibibytes),
    ("ratio_at_peak", "peak / live", lambda value: f"{value:.2f}"),
    ("left_kib", "memory at end", metrics.kibibytes),
    ("faults", "faults", metrics.number),
]


def _summaries(replayed: list[Replayed]) -> dict[str, dict[str, Summary]]:
    usable = [each for each in replayed if each.usable and each.runs]
    made = {}
    for key, _, _ in COLUMNS:
        values = {e.allocator.name: [float(getattr(r, key)) for r in e.runs] for e in usable}
        if values:
            made[key] = noise.summarise(values, judged=True)
    return made


def _show(
    console: Console,
    process: Process,
    told: dict[str, Any],
    replayed: list[Replayed],
    summaries: dict[str, dict[str, Summary]],
    remarks: list[str],
    runs: int,
    window: int,
) -> None:
    rounds = "one round" if runs == 1 else f"{runs} interleaved rounds"
    order = "in the recorded order" if window == 0 else f"window {window}"
    calls = replayed[0].runs[0].calls if replayed[0].runs else told["calls"]
    threads = f"{process.threads} thread{'s' * (process.threads != 1)}"
    head = f"{shown(process.words)}: {calls} calls of {threads}, {order}, {rounds}"
    console.print(escape(head), style="bold", soft_wrap=True)
    if summaries:
        console.print(for_terminal(_costs(replayed, summaries)))
        console.print()
        console.print("memory / live, by share of the calls made", style="bold")
        console.print(for_terminal(_over_time(replayed)))
        console.print()
        for line in _conclusions(summaries, runs):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for line in remarks:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _conclusions(summaries: dict[str, dict[str, Summary]], runs: int) -> list[str]:
    said = [noise.conclusion(summaries[key], runs) for key, _, _ in COLUMNS]
    # That there were too few rounds, or one allocator, is said of all alike.
    if len(set(said)) == 1 and runs < noise.FEWEST_ROUNDS:
        return said[:1]
    return [f"{title}: {text}" for (_, title, _), text in zip(COLUMNS, said)]


def _costs(replayed: list[Replayed], summaries: dict[str, dict[str, Summary]]) -> Table:
    numbers = [each.instructions for each in replayed if each.usable]
    counted = [number for number in numbers if number is not None]
    titles = [title for _, title, _ in COLUMNS] + ["instructions"] * bool(counted)
    made = Table(["allocator", *titles])
    for each in replayed:
        if not each.usable or not each.runs:
            continue
        cells = []
        for key, _, form in COLUMNS:
            summary = summaries[key][each.allocator.name]
            spread = "" if summary.spread is None else f" ±{summary.spread * 100:.0f}%"
            ratio = "" if summary.ratio is None else f" {summary.ratio:.2f}x"
            plain = key == "ratio_at_peak"
            text = form(summary.median) + ("" if plain else spread + ratio)
            cells.append(Cell(text, summary.verdict))
        if counted and each.instructions is not None:
            # To the last one: the least change is one.
            text = f"{each.instructions:,}".replace(",", " ")
            cells.append(Cell(f"{text} {each.instructions / min(counted):.4f}x"))
        elif counted:
            cells.append(Cell("-"))
        made.rows.append((each.allocator.name, cells))
    return made


def _over_time(replayed: list[Replayed]) -> Table:
    usable = [each for each in replayed if each.usable and each.runs]
    samples = usable[0].runs[-1].samples
    count = min(POINTS, len(samples))
    chosen = [(i + 1) * len(samples) // count - 1 for i in range(count)]
    last = samples[-1].ticket if samples else 1
    made = Table(["allocator", *(f"{samples[i].ticket / last:.0%}" for i in chosen)])
    made.add("live", *(metrics.kibibytes(samples[i].live_bytes / 1024) for i in chosen))
    for each in usable:
        made.add(each.allocator.name, *(_ratio(each.runs[-1], i) for i in chosen))
    return made


def _ratio(run: Run, index: int) -> str:
    ratio = run.samples[index].ratio
    return "-" if ratio is None else f"{ratio:.2f}"


def _write(
    path: Path,
    trace: Trace,
    told: dict[str, Any],
    replayed: list[Replayed],
    summaries: dict[str, dict[str, Summary]],
    remarks: list[str],
) -> None:
    written = {
        "loft": places.version(),
        "trace": trace.header,
        "process": told,
        "allocators": [
            {
                "name": each.allocator.name,
                "library": None if each.allocator.library is None else str(each.allocator.library),
                "failure": each.failure,
                "summary": {
                    key: asdict(of_all[each.allocator.name])
                    for key, of_all in summaries.items()
                    if each.allocator.name in of_all
                },
                "runs": [asdict(one) for one in each.runs],
                "instructions": each.instructions,
            }
            for each in replayed
        ],
        "remarks": remarks,
    }
    path.write_text(json.dumps(written, indent=1) + "\n")
