#!/usr/bin/env python3
"""Measures the papers' figures again: each column under each allocator, in turns.

    tools/papers.py                        the default set, under ten minutes on two cores
    tools/papers.py full                   more columns, more figures, more rounds
    tools/papers.py snmalloc-5 fig4        these; the others stay as they were
    tools/papers.py --prepare snmalloc-5   builds what these need, and stops
    tools/papers.py --rounds 0             only the page and its pictures, from papers/papers.json

papers/figures.toml says what there is. An engine that is not built is left out; --engines names
more folders with engines. build/papers.json is written after each figure; the pictures of all go
to build/papers. If all of the default set is measured, what the page shows is kept in papers/:
papers.json, figures.md and pictures. Else the page is build/papers.md.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NoReturn

import misses
import typer
from bench_results import Run
from bench_run import BUILD, Failed, command_of, commit, copy_of, finish, first_match, make_header
from elftools.elf.elffile import ELFFile
from paper_figures import ONCE, ROOT, Catalogue, Figure, Kind, Point, catalogue, coverage
from paper_page import Measured, Papers, Sample, draw_all, keep, page, show, write_page
from rich.progress import Progress

from loft_malloc import launch
from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError

sys.path.append(str(ROOT / "test" / "programs"))
import programs
from paper_programs import PAPER_PROGRAMS

# Of the simulated machine, whose time says nothing.
SIMULATION_LIMIT_S = 600
# A run of which the room served less measures two systems.
LEAST_SERVED = 0.99
LEVELS = ("first", "last", "tlb", "second_tlb")
# What takes longer is not done again; past the budget, nothing is.
SLOW_S, BUDGET_S = 4.0, 480.0
# The callers' settings are not the measured programs'.
SETTINGS = ("LOFT_", "PAPER_", "SNMALLOC_", "BATCHIT", "PAGES_", "HOARD_", "A3ALLOC_", "NEXTGEN_")
# What C++'s library takes at its start, to throw exceptions when there is no memory: 71 KiB, in
# pages. A program in C, as the report's are, has none of it.
CXX_STORE_KIB = 72
# Libraries in build/ itself, and their targets.
BUILT = {"libloft": "loft_shared", "libloft-nextgen": "loft_nextgen"}
# What loft's statistics call what engines count.
LOFT_COUNTS = {"exchanges": "posts", "messages": "batch_messages", "forwarded": "forwards"}
LOFT_COUNTS |= {"locks": "locks_taken", "lock_waits": "locks_waited_for"}


def timed(point: Point, allocator: Allocator) -> Sample:
    asked = {"PAPER_COUNTS": "1", "LOFT_STATS": "json", **point.row.environment}
    done = finish(command_of(point.row), allocator, asked, point.limit_s)
    run = Run.model_validate_json(done.stdout)
    held = run.peak_rss_kib - run.table_kib
    sample = {
        "throughput": run.ops_per_second / 1e6,
        "nanoseconds": 1e9 / run.ops_per_second,
        "seconds": run.operations / run.ops_per_second,
        "peak_mib": held / 1024,
        "threads": run.threads,
        # Of a program that waits for another one it says nothing.
        "cpu_share": 1 if run.mode == "waiting" else run.least_cpu_share,
    }
    if run.peak_live_bytes:
        sample["over_queue"] = held * 1024 / run.peak_live_bytes
    lines = lines_of(done.stderr)
    sample |= of_room(lines, sample)
    # An engine's own line: the floors below it would have one, too.
    said = max(lines, key=lambda said: "frees_remote" in said, default={})
    if kib := said.pop("heap_kib", 0):
        sample["heap_kib"] = kib - CXX_STORE_KIB
        if run.peak_live_bytes:
            sample["heap_over_live"] = sample["heap_kib"] * 1024 / run.peak_live_bytes
    # Of one call, not of a thousand frees.
    sample |= {name: said.pop(name) for name in ("longest_look", "look_p999") if name in said}
    if run.malloc_ns:
        sample["malloc_p999"] = run.malloc_ns["p99.9"]
    return sample | counts(said)


def lines_of(text: str) -> list[dict[str, int]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def of_room(lines: list[dict[str, int]], sample: Sample) -> Sample:
    """Of NextGen-Malloc's engines: the calls that the room served, and the times for them."""
    served, unserved = (sum(said.get(name, 0) for said in lines) for name in ("served", "unserved"))
    if not served + unserved:
        return {}
    share = served / (served + unserved)
    if share < LEAST_SERVED:
        raise Failed(f"the room served {served} of {served + unserved} calls")
    times = {name: sample[name] / share for name in ("seconds", "nanoseconds") if name in sample}
    return {"served": 100 * share} | times


def counts(said: dict[str, int]) -> Sample:
    """For a thousand remote frees. loft's statistics have other names."""
    if "posts" in said:
        frees = said["batch_objects"] + said["objects_sent_singly"]
        said = {name: said[word] for name, word in LOFT_COUNTS.items()} | {"frees_remote": frees}
    said["swaps"] = said.get("swaps", 0) + said.get("swap_retries", 0)
    frees = said.pop("frees_remote", 0)
    return {name: 1000 * number / frees for name, number in said.items()} if frees else {}


def program(point: Point, allocator: Allocator) -> Sample:
    wanted = next(each for each in PAPER_PROGRAMS if each.name == point.command)
    with tempfile.TemporaryDirectory(prefix="loft-papers-") as folder:
        variables = programs.environment(Path(folder)) | {**allocator.variables, **wanted.env}
        library, script = str(allocator.library or ""), ["bash", "-c", programs.script(wanted)]
        job = launch.Job(script, library, point.limit_s, environment=variables, folder=Path(folder))
        done = launch.run(job)
    if done.complaint or done.usage is None:
        raise Failed(done.complaint or "no end")
    return {"seconds": done.usage.wall_s, "peak_mib": done.usage.peak_rss_kib / 1024}


def itself(point: Point) -> list[str]:
    """A program of bench/; of xalan, which starts another one, that one's own command."""
    command = command_of(point.row)
    if point.row.program != "xalan":
        return command
    finish(command, Allocator("glibc", None))
    base = f"{BUILD}/bench/xalan-{point.row.arguments[0].split('=')[1]}"
    return ["xalan", "-in", f"{base}.xml", "-xsl", f"{base}.xsl", "-out", "/dev/null"]


def whole(point: Point, allocator: Allocator) -> Sample:
    """From its start to its end. bench/xalan would have a room, too, on the same processor."""
    done = finish(itself(point), allocator, {"PAPER_COUNTS": "1"}, point.limit_s)
    if done.usage is None:
        raise Failed("no end")
    sample = {"seconds": done.usage.wall_s}
    return sample | of_room(lines_of(done.stderr), sample)


def missed(point: Point, allocator: Allocator) -> Sample:
    command = itself(point)
    caches, buffers = (misses.simulate(command, allocator, c) for c in (misses.CACHES, misses.TLBS))
    pairs = zip(LEVELS, [*misses.pairs(caches), *misses.pairs(buffers)], strict=True)
    sample: Sample = {"instructions": caches["Ir"] / 1e6}
    for level, (loads, stores) in pairs:
        sample |= {f"{level}_loads": loads / 1000, f"{level}_stores": stores / 1000}
    if allocator.library is None:
        said = finish(["valgrind", "--undef-value-errors=no", *command], allocator).stderr
        if found := re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees", said):
            sample["calls"] = sum(int(each.replace(",", "")) for each in found.groups())
    return sample


def simulated(point: Point, allocator: Allocator) -> Sample:
    """On the simulated machine of papers/simulation, whose programs have their engine in them."""
    engine = (allocator.library or Path()).name.split(".")[0].removeprefix("lib")
    command = [str(BUILD / "papers" / f"simulate-{engine}"), *point.row.arguments]
    itself = Allocator(allocator.name, None, allocator.variables)
    done = finish(command, itself, point.row.environment, SIMULATION_LIMIT_S)
    said = json.loads(done.stdout)
    frees, cycles = said["operations"], said["cycles"]
    counted = {name: n for name, n in said.items() if isinstance(n, int)}
    sample = counts(counted | {"frees_remote": frees}) | of_room([counted], {})
    rates = {"frees_a_kilocycle": 1000 * frees / cycles, "cycles": cycles * said["heaps"] / frees}
    return sample | rates


def size(_: Point, allocator: Allocator) -> Sample:
    with Path(allocator.library or "").open("rb") as file:
        text = next(s for s in ELFFile(file).iter_sections() if s.name == ".text")
        return {"text_kib": text["sh_size"] / 1024, "file_kib": file.seek(0, os.SEEK_END) / 1024}


SAMPLES = {
    Kind.TIMED: timed,
    Kind.WHOLE: whole,
    Kind.PROGRAM: program,
    Kind.MISSES: missed,
    Kind.SIMULATED: simulated,
    Kind.SIZE: size,
}


def refuse(reason: str) -> NoReturn:
    print(f"papers: {reason}", file=sys.stderr)
    raise typer.Exit(2)


def choose(book: Catalogue, words: list[str]) -> list[Figure]:
    full, asked = "full" in words, [word for word in words if word != "full"]
    for word in asked:
        if not any(figure.called(word) for figure in book.figures):
            refuse(f"no figure {word}; there are: {', '.join(f.name for f in book.figures)}")
    wanted = [figure for figure in book.figures if any(map(figure.called, asked or ["*"]))]
    return [figure for figure in wanted if asked or full or not figure.full_only]


def needs(book: Catalogue, figures: list[Figure], full: bool) -> list[list[str]]:
    """The commands that build what these figures run."""
    targets, more = {"loft_launch"}, set()
    for figure in figures:
        files = {book.allocators[name].file for name in figure.under} - {""}
        if any(file.startswith("peers/") for file in files):
            more.add("tools/peers.sh")
        if figure.kind is Kind.SIMULATED:
            targets |= {f"simulate-{Path(file).stem.removeprefix('lib')}" for file in files}
        for file in files:
            folder, name = Path(file).parent.name, Path(file).stem
            owns = {"papers": f"paper_{name}", "variants": f"variant_{name}"}
            if folder != "peers":
                targets.add(owns.get(folder) or BUILT[name])
        if figure.kind in (Kind.PROGRAM, Kind.MISSES):
            more.add("tools/setup.sh papers")
        for point in figure.points(full):
            if figure.kind in (Kind.TIMED, Kind.WHOLE, Kind.MISSES):
                targets.add(f"bench_{point.row.program}")
            if "xalan" in point.command:
                more.add("tools/setup.sh bench")
            if "espresso" in point.command:
                more.add("tools/espresso.sh")
    build = ["cmake", "--build", "--preset", "release", "--target", *sorted(targets)]
    return [*(command.split() for command in sorted(more, reverse=True)), build]


def lacking(book: Catalogue, data: Papers) -> list[str]:
    """The figures of the default set that are not measured, or not whole."""
    return [
        figure.name
        for figure in choose(book, [])
        if {point.x for point in figure.points(False)} - data.columns(figure).keys()
    ]


def contestants(book: Catalogue, folders: list[Path]) -> dict[str, Allocator]:
    """Those that are there, by their first folder."""
    there = {}
    for name, each in book.allocators.items():
        places = [folder / part for folder in folders for part in (each.file, Path(each.file).name)]
        library = next((place.resolve() for place in places if place.is_file()), None)
        if library or not each.file:
            there[name] = Allocator(name, library, each.set)
    return there


@dataclass
class Measurement:
    data: Papers
    out: Path
    there: dict[str, Allocator]
    full: bool
    budget: float
    mark: str = field(default_factory=commit)
    started: float = field(default_factory=time.monotonic)
    # What a figure's round took; commands that took long; what this round's said.
    cost: dict[str, float] = field(default_factory=dict)
    slow: set[tuple[str, str]] = field(default_factory=set)
    said: dict[tuple[Kind, str, str], Sample | str] = field(default_factory=dict)

    def sample(self, kind: Kind, point: Point, allocator: Allocator) -> Sample | str:
        """What failed is a text. Figures that look at the same runs share them."""
        key = (kind, point.command, allocator.name)
        if key not in self.said:
            before = time.monotonic()
            try:
                with nullcontext(allocator) if kind in ONCE else copy_of(allocator) as copy:
                    self.said[key] = SAMPLES[kind](point, copy)
            except (Failed, UserError, ValueError, OSError) as error:
                self.said[key] = str(error)
            if time.monotonic() - before > SLOW_S:
                self.slow.add(key[1:])
        return self.said[key]

    def round(self, number: int, figure: Figure) -> None:
        there = [self.there[name] for name in figure.under if name in self.there]
        turn = number % max(1, len(there))
        for point in figure.points(self.full):
            for allocator in there[turn:] + there[:turn]:
                cell = self.data.cell(figure.name, allocator.name, point.x)
                if cell is None:
                    of = {"figure": figure.name, "x": point.x, "allocator": allocator.name}
                    of |= {"command": point.command, "commit": self.mark}
                    cell = Measured.model_validate(of)
                    self.data.rows.append(cell)
                if cell.failure or (number > 1 and (point.command, allocator.name) in self.slow):
                    continue
                match self.sample(figure.kind, point, allocator):
                    case str() as failure:
                        cell.failure, cell.samples = failure, {}
                    case sample:
                        cell.samples[number] = sample

    def run(self, figures: list[Figure], rounds: int, progress: Progress) -> None:
        task = progress.add_task("", total=rounds * len(figures))
        for number in range(1, rounds + 1):
            self.said.clear()
            for figure in figures:
                progress.update(task, description=f"round {number}: {figure.name}")
                before = time.monotonic()
                left = self.started + self.budget - before - self.cost.get(figure.name, 0)
                # The first round is for everybody; later ones as far as the time goes.
                if number == 1 or (figure.kind not in ONCE and left > 0):
                    self.round(number, figure)
                    self.cost[figure.name] = time.monotonic() - before
                    self.write()
                progress.advance(task)

    def write(self) -> None:
        partial = self.out.with_suffix(".partial")
        partial.write_text(self.data.model_dump_json(indent=1, exclude_defaults=True) + "\n")
        partial.replace(self.out)


def main(
    words: Annotated[list[str] | None, typer.Argument(help="full, or figures")] = None,
    engines: Annotated[list[Path] | None, typer.Option(help="more folders with engines")] = None,
    rounds: Annotated[int, typer.Option(min=-1, help="-1: three, full five")] = -1,
    prepare: Annotated[bool, typer.Option(help="build what they need and stop")] = False,
    list_: Annotated[bool, typer.Option("--list", help="list the figures and stop")] = False,
    out: Annotated[Path, typer.Option(help="where the figures go")] = BUILD / "papers.json",
    docs: Annotated[Path, typer.Option(help="the page")] = ROOT / "papers" / "figures.md",
) -> None:
    """Measures the papers' figures again, and writes papers/figures.md."""
    book, given = catalogue(), words or []
    figures, full = choose(book, given), "full" in given
    if list_:
        print("\n".join(f"{figure.name:20} {figure.title}" for figure in figures))
        return
    for name in filter(lambda name: name.startswith(SETTINGS), list(os.environ)):
        del os.environ[name]
    if prepare:
        for command in needs(book, figures, full):
            if subprocess.run(command, cwd=ROOT).returncode:
                refuse(f"{' '.join(command)} failed")
        return
    record = docs.with_name("papers.json")
    if rounds == 0:
        write_page(Papers.model_validate_json(record.read_text()), book, docs)
        print(f"papers: {docs}, from {record}")
        return
    there = contestants(book, [BUILD, *(engines or [])])
    wanted = {name for figure in figures for name in figure.under}
    absent = [name for name in book.allocators if name in wanted - there.keys()]
    print(f"papers: not built: {', '.join(absent) or 'none'}", file=sys.stderr)
    header, rows = make_header(list(there), ""), list[Measured]()
    chosen = {figure.name for figure in figures}
    if out.exists() and len(chosen) < len(book.figures):
        old = Papers.model_validate_json(out.read_text())
        if different := old.header.differences(header):
            refuse(f"{out} is of another set: {'; '.join(different)}")
        rows = [row for row in old.rows if row.figure not in chosen]
        header.versions = old.header.versions | header.versions
        absent = [name for name in book.allocators if name in {*old.absent, *absent} - there.keys()]
    gigahertz = float(first_match("/proc/cpuinfo", r"^cpu MHz\s*:(.*)$") or 0) / 1000
    data = Papers(
        header=header, gigahertz=gigahertz, allocators=list(there), absent=absent, rows=rows
    )
    measurement = Measurement(data, out, there, full, float("inf") if full else BUDGET_S)
    with Progress(transient=True) as progress:
        measurement.run(figures, rounds if rounds >= 0 else 5 if full else 3, progress)
    measurement.write()
    draw_all(data, book.figures, book, out.parent / "papers")
    if missing := lacking(book, data):
        print(f"papers: {docs} stays: {len(missing)} figures of its set are not measured")
        docs = out.with_suffix(".md")
        docs.write_text(page(show(data, book), book, coverage(), whole=False), encoding="utf-8")
    else:
        keep(data, book, record)
        write_page(Papers.model_validate_json(record.read_text()), book, docs)
    for row in filter(lambda row: row.failure, data.rows):
        print(f"papers: {row.figure}, {row.x}, {row.allocator}: {row.failure}")
    took, cpu = time.monotonic() - measurement.started, sum(os.times()[2:4])
    print(f"papers: {took:.0f} s, of which the programs had a processor for {cpu:.0f}; {docs}")
    if any(row.failure for row in data.rows if row.allocator == "loft"):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
