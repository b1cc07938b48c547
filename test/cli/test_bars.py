"""What may take longer than a second draws a bar, on a terminal, and leaves nothing of it there.

`loft compare` has its test beside the others of it. While a command that is recorded or profiled
runs, the terminal is the command's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from asked import Ask
from heaps import small
from support import LOFT, Loft
from terminal import Terminal

# Parts of a bar that is drawn.
BAR = "━".encode()


@pytest.fixture
def in_terminal(build: Path, tmp_path: Path) -> Iterator[InTerminal]:
    yield InTerminal(tmp_path)


class InTerminal:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def draws_a_bar(self, *words: str | Path) -> None:
        """And says what it says without one; elsewhere it draws none."""
        command = [str(LOFT), *map(str, words)]
        terminal = Terminal(command, columns=100, rows=60)
        try:
            assert terminal.end() == 0, terminal.text()
        finally:
            terminal.close()
        assert BAR in terminal.raw
        assert "━" not in terminal.text()
        ran = subprocess.run(command, capture_output=True)
        assert BAR not in ran.stdout + ran.stderr


def test_record_and_replay(in_terminal: InTerminal) -> None:
    trace = in_terminal.folder / "trace"
    in_terminal.draws_a_bar("record", "-o", trace, "--", "/bin/ls", "/")
    in_terminal.draws_a_bar("replay", trace, "--info")
    in_terminal.draws_a_bar("replay", trace, "--with", "glibc,loft", "--runs", "1")


def test_profile_and_leaks(in_terminal: InTerminal, loft: Loft) -> None:
    heap = in_terminal.folder / "heap.pb.gz"
    how = ("--bytes", "64", "--leaks", "-o", heap)
    in_terminal.draws_a_bar("profile", *how, "--", "/bin/ls", "/")
    in_terminal.draws_a_bar("profile", "--read", small().write(heap))


def test_of_a_process_that_runs(in_terminal: InTerminal, ask: Ask) -> None:
    process = ask()
    in_terminal.draws_a_bar("map", process.pid, "-o", in_terminal.folder / "map.html")
    in_terminal.draws_a_bar("profile", process.pid)
