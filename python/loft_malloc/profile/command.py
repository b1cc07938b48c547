"""`loft profile`: from what the user asked for to what is shown and written."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from loft_malloc import output
from loft_malloc.errors import UserError
from loft_malloc.printable import one_line
from loft_malloc.profile import files, launching, made_code, sites, symbolise, top, tree
from loft_malloc.profile.launching import SUFFIX, Ran, Wanted
from loft_malloc.profile.model import Profile
from loft_malloc.profile.steps import Steps
from loft_malloc.profile.top import Sort
from loft_malloc.profile.tree import Tree

# So that nothing is cut off where nobody sees how wide the lines are.
WIDTH_IN_PIPE = 1000
# As many leaks as one screen has room for.
STACKS_OF_LEAKS = 3
# More other processes than these are counted.
MOST_NAMED = 5


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
    if shown.output is None and not os.access(Path.cwd(), os.W_OK):
        raise UserError("this folder cannot be written; name a file for the profile, with -o")
    with tempfile.TemporaryDirectory(prefix="loft-profile-") as folder:
        ran = launching.run(command, wanted, Path(folder))
        if not ran.files:
            raise UserError(_nothing(ran), ran.outcome.exit_code or 1)
        pid = _main_process(ran)
        with Steps() as steps:
            profile = _read(ran.files[pid], steps)
            made_code.name(profile, made_code.of_command(pid), ran.begun)
        kept = shown.output or Path(f"heap.{pid}{SUFFIX}")
        others = _keep_others(ran, pid, kept)
    remarks = [_remark_on_main(ran, pid), *others, f"written to {kept}"]
    title = f"{shlex.join(command)}, {wanted.title}"
    target = Target(Console(stderr=True), title, kept, str(shown.base))
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
    target = Target(Console(), path.name, shown.output, str(shown.base))
    show(profile, base, shown, target, [])
    return 0


def _read(path: Path, steps: Steps) -> Profile:
    steps.step(f"reading {path.name}")
    return files.read(path)


def _nothing(ran: Ran) -> str:
    return (
        f"the command left no profile ({ran.outcome}): it ended by _exit or by another signal than "
        "SIGTERM, or allocated too little for a sample; --bytes takes more of them"
    )


def _main_process(ran: Ran) -> int:
    """The command's own, else that of which there is most to see."""
    if ran.pid in ran.files:
        return ran.pid
    return max(ran.files, key=lambda pid: ran.files[pid].stat().st_size)


def _remark_on_main(ran: Ran, shown: int) -> str:
    if shown == ran.pid:
        return ""
    return f"the command's own process {ran.pid} left no profile; this is process {shown}'s"


def _keep_others(ran: Ran, main: int, beside: Path) -> list[str]:
    """As the library wrote them; whoever reads them gets the names."""
    stem = beside.name.removesuffix(SUFFIX) if beside.name.endswith(SUFFIX) else beside.stem
    stem = stem.removesuffix(f".{main}")
    kept = []
    for pid, path in ran.files.items():
        if pid != main:
            target = beside.with_name(f"{stem}.{pid}{SUFFIX}")
            with output.writing(target):
                shutil.move(path, target)
            kept.append(str(target))
    if not kept:
        return []
    more = len(kept) - MOST_NAMED
    names = ", ".join(kept[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    count = "another process" if len(kept) == 1 else f"{len(kept)} other processes"
    return [f"{count} left a profile, see loft profile --read FILE: {names}"]


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
            console.print(f"and {hidden} functions more", style="dim")
    for line in last:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
