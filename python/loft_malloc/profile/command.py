"""`loft profile`: from what the user asked for to what is shown and written."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from loft_malloc import output
from loft_malloc.errors import UserError
from loft_malloc.printable import counted, one_line
from loft_malloc.profile import (
    files,
    launching,
    made_code,
    missing_names,
    sites,
    symbolise,
    top,
    tree,
)
from loft_malloc.profile.launching import SUFFIX, Ran, Wanted
from loft_malloc.profile.model import ALLOCATED, Profile
from loft_malloc.profile.steps import Steps
from loft_malloc.profile.top import Sort
from loft_malloc.profile.tree import Tree

# So that nothing is cut off where nobody sees how wide the lines are.
WIDTH_IN_PIPE = 1000
# As many leaks as one screen has room for.
STACKS_OF_LEAKS = 3
# More other processes than these are counted.
MOST_NAMED = 5
# Of a command line, as much as a line has room for.
MOST_COMMAND = 100
# Of a build that starts thousands, those with most stacks; reading all would take minutes.
MOST_READ = 100


@dataclass(frozen=True)
class Shown:
    """What is to become of a profile."""

    most: int
    sort: Sort
    output: Path | None = None
    html: Path | None = None
    base: Path | None = None
    # How many stacks follow the list of functions; None: as many as what is shown calls for.
    stacks: int | None = None

    def check(self) -> None:
        if self.stacks and self.base is not None:
            raise UserError("--stacks shows one profile: leave out --base")
        output.check_all((self.output, self.html))


@dataclass(frozen=True)
class Target:
    console: Console
    title: str
    # Where the profile is written with its names.
    output: Path | None
    # What the base of a comparison is called.
    against: str = ""


def run(command: list[str], wanted: Wanted, shown: Shown) -> int:
    """The exit code is the command's. What it writes is its own, hence all of this on stderr."""
    # What takes no time to find wrong, before what may take hours.
    base = None if shown.base is None else files.read(shown.base)
    shown.check()
    with tempfile.TemporaryDirectory(prefix="loft-profile-") as folder:
        ran = launching.run(command, wanted, Path(folder))
        if not ran.files:
            raise UserError(_nothing(ran), ran.outcome.exit_code or 1)
        with Steps() as steps:
            profiles = _read_all(ran, steps)
            pid = next(iter(profiles))
            profile = profiles[pid]
            made_code.name(profile, made_code.of_command(pid), ran.begun)
        kept = {} if shown.output is None else _keep_others(ran, pid, shown.output)
    mine = shlex.join(command)
    who = mine if pid == ran.pid else f"{_called(profile, pid)} (process {pid} of {_cut(mine)})"
    remarks = _others(profiles, len(ran.files), kept)
    if ran.pid not in ran.files:
        remarks.append(f"the command's own process, {ran.pid}, left no profile")
    if shown.output is not None:
        remarks.append(f"written to {shown.output}")
    elif shown.html is None:
        remarks.append("-o FILE keeps the profile, --html FILE draws it as a flame graph")
    target = Target(Console(stderr=True), f"{who}, {wanted.title}", shown.output, str(shown.base))
    if wanted.at in ("on", "peak") and base is None:
        look_at_allocated(profile)
    if shown.stacks is None and wanted.at == "leaks" and base is None:
        shown = replace(shown, stacks=STACKS_OF_LEAKS)
    show(profile, base, shown, target, [each for each in remarks if each])
    return ran.outcome.exit_code


def read(path: Path, shown: Shown) -> int:
    with Steps() as steps:
        base = None if shown.base is None else _read(shown.base, steps)
        profile = _read(path, steps)
    # What is missing is said before anything is written.
    shown.check()
    title = ", ".join([path.name, *map(_cut, profile.comments[:1])])
    target = Target(Console(), title, shown.output, str(shown.base))
    if base is None:
        look_at_allocated(profile)
    show(profile, base, shown, target, [])
    return 0


def look_at_allocated(profile: Profile) -> None:
    """Where nothing is in use, an empty list would help nobody."""
    allocated = profile.index(ALLOCATED)
    if allocated is not None and profile.total(allocated) > profile.total(profile.main_index) == 0:
        profile.shown_type = ALLOCATED


def _read(path: Path, steps: Steps) -> Profile:
    steps.step(f"reading {path.name}")
    return files.read(path)


def _nothing(ran: Ran) -> str:
    return (
        f"the command left no profile ({ran.outcome}): it ended by _exit or by a signal other than "
        "SIGTERM, or allocated too little for a sample; --bytes takes more of them"
    )


def _read_all(ran: Ran, steps: Steps) -> dict[int, Profile]:
    """That of each process, the one that holds most first. One that is damaged is left out where
    there are others."""
    ordered = sorted(ran.files, key=lambda pid: -ran.files[pid].stat().st_size)
    found, damaged = {}, None
    for pid in ordered[:MOST_READ]:
        try:
            found[pid] = _read(ran.files[pid], steps)
        except UserError as error:
            damaged = error
    if damaged is not None and not found:
        raise damaged

    def held(pid: int) -> tuple[int, int, bool]:
        profile = found[pid]
        allocated = profile.index(ALLOCATED)
        return (
            profile.total(profile.main_index),
            0 if allocated is None else profile.total(allocated),
            pid == ran.pid,
        )

    return {pid: found[pid] for pid in sorted(found, key=held, reverse=True)}


def _called(profile: Profile, pid: int) -> str:
    return _cut(profile.comments[0]) if profile.comments else f"process {pid}"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_COMMAND else f"{text[: MOST_COMMAND - 1]}…"


def _others(profiles: dict[int, Profile], processes: int, kept: dict[int, Path]) -> list[str]:
    """What the other processes hold, a line each."""
    _, *others = profiles
    if not others:
        return []
    rest = "the other" if processes == 2 else "the others"
    lines = [f"this is the largest of {processes} processes; {rest}:"]
    for pid in others[:MOST_NAMED]:
        profile = profiles[pid]
        size = top.amount(profile.total(profile.main_index), "bytes")
        file = f", written to {kept[pid]}" if pid in kept else ""
        lines.append(f"{size:>10}  {_called(profile, pid)}{file}")
    if (more := processes - 1 - MOST_NAMED) > 0:
        lines.append(f"and {counted(more, 'more process', 'more processes')}")
    return lines


def _keep_others(ran: Ran, main: int, beside: Path) -> dict[int, Path]:
    """As the library wrote them; whoever reads them gets the names."""
    stem = beside.name.removesuffix(SUFFIX) if beside.name.endswith(SUFFIX) else beside.stem
    stem = stem.removesuffix(f".{main}")
    kept = {}
    for pid, path in ran.files.items():
        if pid != main:
            target = beside.with_name(f"{stem}.{pid}{SUFFIX}")
            with output.writing(target):
                shutil.move(path, target)
            kept[pid] = target
    return kept


def show(
    profile: Profile, base: Profile | None, shown: Shown, target: Target, said: list[str]
) -> None:
    title = target.title if base is None else f"{target.title}, against {target.against}"
    title = one_line(title)
    with Steps() as steps:
        remarks = _name(profile, steps)
        if target.output is not None:
            steps.step(f"writing {target.output.name}")
            with output.writing(target.output):
                files.write(target.output, profile)
        remarks += _name(base, steps) if base is not None else []
        remarks += missing_names.hint(profile)
        if profile.shown_type:
            remarks.append("nothing is in use, so the list shows what was allocated")
        remarks = [one_line(each) for each in (*remarks, *said)]
        steps.step("adding up")
        made = tree.build(profile, base)
        if shown.html is not None:
            # Here, because loading what draws takes longer than reading a small profile.
            from loft_malloc.profile import page

            steps.step(f"drawing {shown.html.name}")
            with output.writing(shown.html):
                page.write(shown.html, made, title, remarks, _sampled(profile))
            remarks.append(f"drawn in {shown.html}")
        stacks = [] if not shown.stacks else [*sites.lines(profile, shown.stacks), ""]
    _print(target.console, made, shown, title, stacks + remarks)


def _name(profile: Profile, steps: Steps) -> list[str]:
    def progress(done: int, total: int, name: str) -> None:
        steps.step(f"names of {name}", done, total)

    return symbolise.symbolise(profile, progress)


def _sampled(profile: Profile) -> str:
    if profile.period <= 0:
        return ""
    return f"sampled every {top.amount(profile.period, profile.period_kind.unit)}"


def _print(console: Console, made: Tree, shown: Shown, title: str, last: list[str]) -> None:
    if not console.is_terminal:
        console.width = WIDTH_IN_PIPE
    console.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
    for line in top.summary(made):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if held := top.ordered(made, shown.sort):
        console.print(top.table(made, shown.sort, shown.most))
        hidden = len(held) - shown.most
        if hidden > 0:
            console.print(f"and {counted(hidden, 'more function')}", style="dim")
    for line in last:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
