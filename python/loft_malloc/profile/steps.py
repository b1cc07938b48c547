"""What is being done with a profile, where that takes time and somebody watches."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from loft_malloc.printable import one_line


class Steps:
    """A line on stderr, if that is a terminal, which is gone at the end."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        self.bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self.task = self.bar.add_task("", total=None)

    def __enter__(self) -> Steps:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def step(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Without a total nobody knows how long it takes."""
        self.bar.update(self.task, description=one_line(what), completed=done, total=total)
