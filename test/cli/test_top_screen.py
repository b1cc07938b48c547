"""`loft top` in a terminal: keys, views, narrow screens, and a process that ends."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asked import Ask, Asked
from heaps import MIB, small
from support import LOFT
from terminal import Terminal

Watch = Callable[..., Terminal]


@pytest.fixture
def watch(build: Path) -> Iterator[Watch]:
    opened = []

    def start(process: Asked, *options: str, **how: int | str) -> Terminal:
        command = [str(LOFT), "top", process.pid, "--interval", "0.05", *options]
        opened.append(Terminal(command, **how))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def test_memory_is_drawn_by_its_parts(ask: Ask, watch: Watch) -> None:
    process = ask()
    terminal = watch(process)
    terminal.until(
        f"loft top  {process.title}",
        "heap 315",
        "■ free in slabs 98.9 MiB  31.4%",
        "3072  34.3 MiB",
        "██",
    )
    process.stats(resident_bytes=640 * MIB, live_bytes=500 * MIB)
    terminal.until("640 MiB┤", "q quit")


def test_rates_are_shown_once_counters_grow(ask: Ask, watch: Watch) -> None:
    process = ask()
    terminal = watch(process)
    terminal.until("classes")
    process.stats(refills=10**12)
    terminal.until("/s refills")


def test_it_quits_and_leaves_the_terminal_as_it_was(ask: Ask, watch: Watch) -> None:
    for key, code in (("q", 0), ("\x03", 128 + signal.SIGINT)):
        terminal = watch(ask())
        terminal.until("classes")
        terminal.press(key)
        assert terminal.end() == code
        # To the other screen, and back; the cursor is seen again.
        assert terminal.raw.count(b"\x1b[?1049h") == terminal.raw.count(b"\x1b[?1049l") == 1
        assert terminal.raw.rindex(b"\x1b[?25h") > terminal.raw.rindex(b"\x1b[?25l")
        assert b"Traceback" not in terminal.raw


def test_keys_change_the_order(ask: Ask, watch: Watch) -> None:
    terminal = watch(ask())
    terminal.until("by waste")
    terminal.press("s")
    terminal.until("by resident")
    terminal.press("ss")
    terminal.until("by free")
    terminal.press("S")
    terminal.until("by live")
    # Down a row, and up again by the other form of the key.
    terminal.press("\x1b[B")
    terminal.until(without=" 3072  34.3 MiB")
    terminal.press("\x1bOA")
    terminal.until(" 3072  34.3 MiB")


def test_a_pause_holds_what_is_shown(ask: Ask, watch: Watch) -> None:
    process = ask()
    terminal = watch(process)
    terminal.until("heap 315")
    terminal.press("p")
    terminal.until("paused")
    process.stats(resident_bytes=MIB)
    terminal.press("?")
    terminal.until("give unused memory back")
    terminal.press("?")
    terminal.until("q quit", "heap 315", without="give unused")
    terminal.press("p")
    terminal.until("heap 1.00", without="paused")


def test_a_purge_asks_first(ask: Ask, watch: Watch) -> None:
    process = ask()
    terminal = watch(process)
    terminal.until("classes")
    terminal.press("u")
    terminal.until("purge this process's unused memory? y/n")
    terminal.press("n")
    terminal.until("q quit")
    assert process.posted == []
    terminal.press("u")
    terminal.until("y/n")
    terminal.press("y")
    terminal.until("purged 3.00 MiB")
    assert process.posted == ["/purge ''"]


def test_heaps_by_what_is_free_in_their_slabs(ask: Ask, watch: Watch) -> None:
    terminal = watch(ask())
    terminal.until("classes")
    terminal.press("2")
    terminal.until(
        "by free inside",
        "heap 2     96.0 KiB   288 KiB      2             64\n"
        "heap 1     16.0 KiB   128 KiB      2             64\n",
    )


def test_stacks_by_their_growth(ask: Ask, watch: Watch) -> None:
    process = ask()
    terminal = watch(process)
    terminal.until("classes")
    terminal.press("3")
    terminal.until("grow < parse < main")
    grown = small()
    grown.stack("main;leak", [3, 3 * MIB, 3, 3 * MIB])
    grown.write(process.folder / "new.pb.gz").replace(process.folder / "heap.pb.gz")
    # Looked at again at once; else it is looked at each five seconds.
    terminal.press("3")
    text = terminal.until("leak < main", "+3.00 MiB")
    row = next(line for line in text.splitlines() if "leak < main" in line)
    assert row.split()[:2] == ["+3.00", "MiB"]
    terminal.press("r")
    terminal.until("leak < main", without="+3.00 MiB")


def test_without_a_profile_it_is_said_how_to_get_one(ask: Ask, watch: Watch) -> None:
    process = ask()
    process.refuse("heap.pb.gz", "503 there is no profile: the option profile is off")
    terminal = watch(process, columns=160)
    terminal.until("classes")
    terminal.press("3")
    terminal.until(f"loft profile {process.pid} --start switches it on")


def test_the_processs_end_is_said_and_the_last_reading_stays(ask: Ask, watch: Watch) -> None:
    process = ask()
    terminal = watch(process)
    terminal.until("classes")
    process.end()
    terminal.until(f"process {process.pid} has ended; this is the last reading", "heap 315")
    terminal.press("s")
    terminal.until("by resident")
    terminal.press("q")
    assert terminal.end() == 0


def test_a_process_that_answers_no_more_is_said(ask: Ask, watch: Watch) -> None:
    process = ask()
    terminal = watch(process)
    terminal.until("classes")
    (process.folder / "stuck").touch()
    terminal.until("the process may be stopped")
    # Keys are obeyed all the same.
    terminal.press("s")
    terminal.until("by resident")
    (process.folder / "stuck").unlink()
    terminal.until("q quit")


def test_a_narrow_head_has_no_half_of_anything(ask: Ask, watch: Watch) -> None:
    terminal = watch(ask(), columns=80)
    terminal.until("q quit", "resident (100%)")
    assert re.match(r"loft top  .* resident \(100%\)(  cpu \d+%)?(  137k objects)?$",
                    terminal.text().splitlines()[0].rstrip())  # fmt: skip


@pytest.mark.parametrize(("columns", "rows"), [(44, 20), (30, 9), (12, 4), (250, 70)])
def test_any_size_of_a_terminal(ask: Ask, watch: Watch, columns: int, rows: int) -> None:
    process = ask()
    terminal = watch(process, columns=columns, rows=rows)
    terminal.until(process.name)
    terminal.until("q quit")
    terminal.resize(90, 30)
    terminal.until("3072  34.3 MiB")
    terminal.press("q")
    assert terminal.end() == 0


def test_without_colours_parts_have_letters(ask: Ask, watch: Watch) -> None:
    terminal = watch(ask(), NO_COLOR="1")
    terminal.until("f free in slabs", "L")
    assert "█" not in terminal.text()
    assert b"\x1b[38" not in terminal.raw
