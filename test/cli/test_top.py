"""`loft top` into a pipe: what it prints, and how that follows from what a process told."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
from asked import STATS, Ask
from support import Loft, one_line

from loft_malloc.live import chart, lines
from loft_malloc.live.lines import Column
from loft_malloc.live.parts import PARTS
from loft_malloc.live.reading import Reading, Usage, cpu_share, parsed, rates

MIB = 1 << 20
# No terminal waits for so short a time, and nothing depends on it.
AT_ONCE = ("--interval", "0.05")


def reading(at_s: float = 0.0, usage: Usage | None = None, **values: int) -> Reading:
    return parsed({"loft": "0.1.0", "resident_bytes": 0, **values}, at_s, usage)


def test_one_frame_as_text(ask: Ask, loft: Loft) -> None:
    process = ask()
    ran = loft("top", process.pid, "--once", *AT_ONCE)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0].startswith(f"loft top  {process.title}  heap 315")
    # Whether it is malloc at all: of all that the process has.
    assert re.search(r"  heap 315 (MiB )?of [0-9.]+ MiB resident \(100%\)  cpu ", lines[0])
    assert lines[0].endswith("  137k objects  1 thread")
    assert [line.split() for line in lines[2:5]] == [
        ["L", "live", "198", "MiB", "62.9%"],
        ["r", "rounding", "16.7", "MiB", "5.3%"],
        ["f", "free", "in", "slabs", "98.9", "MiB", "31.4%"],
    ]
    assert "- not resident  -672 KiB  -0.2%" in lines
    table = lines[lines.index("classes by waste") + 1 :]
    assert table[0].split()[:4] == ["class", "waste", "resident", "live"]
    assert table[1].split()[:3] == ["3072", "34.3", "MiB"]
    assert not any("\x1b" in line for line in lines)


def test_a_pipe_alone_is_enough_to_print_once(ask: Ask, loft: Loft) -> None:
    ran = loft("top", ask().pid, *AT_ONCE)
    assert "classes by waste" in ran.stdout


def test_sorted_by_another_column(ask: Ask, loft: Loft) -> None:
    process = ask()
    ran = loft("top", process.pid, "--once", "--sort", "live", *AT_ONCE)
    table = ran.stdout.split("classes by live\n")[1].splitlines()
    assert [row.split()[0] for row in table[1:4]] == ["3072", "2560", "2048"]
    ran = loft("top", process.pid, "--sort", "size")
    assert "--sort size: expected waste, resident, live," in one_line(ran.stderr)


def test_one_reading_as_json(ask: Ask, loft: Loft) -> None:
    process = ask()
    told = json.loads(loft("top", process.pid, "--json", *AT_ONCE).stdout)
    stats = json.loads(STATS)
    assert told["schema"] == 1 and told["pid"] == int(process.pid) and told["name"] == process.name
    assert told["resident_bytes"] == stats["resident_bytes"]
    assert told["process_resident_bytes"] > MIB
    assert sum(told["parts"].values()) - told["untouched_bytes"] == stats["resident_bytes"]
    assert {"refills", "messages sent", "faults"} <= set(told["rates_per_s"])
    assert len(told["classes"]) == len(stats["classes"])


def test_the_processes_that_can_be_asked_are_listed(ask: Ask, loft: Loft) -> None:
    small, large = ask(), ask()
    small.stats(resident_bytes=MIB)
    ran = loft("top")
    assert ran.returncode == 0
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert rows[0] == ["PID", "heap", "process", "live", "program", "socket"]
    pids = [row[0] for row in rows]
    # Other processes of this machine may have one, too.
    assert pids.index(large.pid) < pids.index(small.pid)
    assert rows[pids.index(small.pid)][1:3] == ["1.00", "MiB"]
    told = json.loads(loft("top", "--json").stdout)["processes"]
    assert {int(small.pid), int(large.pid)} <= {each["pid"] for each in told}


def test_sockets_of_processes_that_are_gone_are_removed(loft: Loft, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    dead = tmp_path / f"loft.{gone.pid}"
    kept = {
        "another program's": tmp_path / f"other.{gone.pid}",
        "not named by a process": tmp_path / "loft.sock",
        "named by one that runs": tmp_path / f"loft.{os.getpid()}",
        "no socket": tmp_path / f"loft.text.{gone.pid}",
        "listened on": tmp_path / f"loft.listens.{gone.pid}",
    }
    kept["no socket"].touch()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(kept.pop("listened on")))
        listening.listen()
        for path in (dead, *kept.values()):
            if not path.exists():
                with socket.socket(socket.AF_UNIX) as left:
                    left.bind(str(path))
        ran = loft("top", "--json", LOFT_SOCKET=f"{tmp_path}/loft.%p")
        assert f"loft: removed {dead}, whose process is gone" in ran.stderr.splitlines()
    assert not dead.exists()
    assert len(list(tmp_path.iterdir())) == len(kept) + 1


def test_errors_are_one_line(ask: Ask, loft: Loft) -> None:
    process = ask()
    process.tell("stats.json", "{}")
    said = one_line(loft("top", process.pid).stderr)
    assert (
        said
        == "loft: the process does not answer with statistics of loft: there is no resident_bytes"
    )
    process.tell("stats.json", "no JSON")
    assert "does not answer /stats.json with JSON" in one_line(loft("top", process.pid).stderr)
    for interval in ("0", "nan", "1e9"):
        said = one_line(loft("top", process.pid, "--interval", interval).stderr)
        assert "a number of seconds from 0.05 to 3600" in said
    assert "PID" in one_line(loft("top", "abc").stderr)


def test_the_parts_are_as_high_as_what_is_resident() -> None:
    now = parsed(json.loads(STATS), 0)
    assert sum(now.parts()) == now.resident
    # Memory that was never touched is taken from what is live first.
    assert now.parts()[0] == now["live_bytes"] - now["untouched_bytes"]
    odd = reading(
        resident_bytes=5, live_bytes=2, rounding_bytes=4, cached_bytes=3, untouched_bytes=4
    )
    assert odd.parts()[:4] == [0, 2, 0, 3]


def test_the_fields_are_those_of_the_library() -> None:
    stats = json.loads(STATS)
    assert {part.field for part in PARTS} <= set(stats)
    assert {part.of_class for part in PARTS if part.of_class} <= set(stats["classes"][0])
    total = sum(stats[part.field] for part in PARTS) - stats["untouched_bytes"]
    assert total == stats["resident_bytes"]


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (34 * MIB, "heap 8.00 of 34.0 MiB resident (24%)"),
        (3 << 30, "heap 8.00 MiB of 3.00 GiB resident (0%)"),
        # Read a little later.
        (7 * MIB, "heap 8.00 of 7.00 MiB resident (100%)"),
        (0, "heap 8.00 MiB resident"),
    ],
)
def test_the_heap_is_a_part_of_the_process(whole: int, said: str) -> None:
    assert reading(usage=Usage(0, 0, 0, whole), resident_bytes=8 * MIB).heap == said


def test_rates_are_differences_of_counters() -> None:
    before = reading(1.0, Usage(10, 1, 0.5), refills=100, posts=50, flushes=7)
    now = reading(3.0, Usage(30, 1, 1.5), refills=300, posts=40, drains=8)
    found = {each.title: each.per_s for each in rates(before, now)}
    # What has fallen counts nothing, and what is new has no past.
    assert found == {"refills": 100, "posts": 0, "faults": 10, "major faults": 0}
    assert cpu_share(before, now) == 0.5
    assert rates(None, now) == [] and rates(now, now) == [] and cpu_share(None, now) is None


def test_what_a_later_version_tells_besides_is_left_out() -> None:
    now = parsed({"resident_bytes": 1, "new": {"a": 1}, "flag": True, "classes": [3, {}]}, 0)
    assert now.values == {"resident_bytes": 1} and now["missing"] == 0
    assert [row.title for row in now.classes] == ["large"]


def test_a_chart_of_parts() -> None:
    values = [[0] * len(PARTS), [MIB] + [0] * 10, [2 * MIB, 0, 2 * MIB] + [0] * 8]
    drawn = [line.plain for line in chart.strip(values, 14, 4, coloured=False)]
    assert drawn == [
        " 4.00 MiB┤   f",
        "         │   f",
        "         │   L",
        "      0 B┤  LL",
    ]
    coloured = chart.strip(values, 13, 4, coloured=True)
    assert [line.plain[-2:] for line in coloured] == [" █", " █", " █", "██"]
    # More readings than columns: the newest stay.
    assert [line.plain[-1] for line in chart.strip(values, 11, 4, coloured=False)] == list("ffLL")


def test_a_part_that_is_no_character_high_is_drawn_as_a_part_of_one() -> None:
    values = [[3 * MIB // 2, MIB] + [0] * 9]
    high, low = chart.strip(values, 11, 2, coloured=True)
    # Of 2.5 MiB each row is a half: all of the lower is the first part, and two eighths above.
    assert (high.plain[-1], low.plain[-1]) == ("▂", "█")
    assert str(high.spans[-1].style) == f"{PARTS[0].colour} on {PARTS[1].colour}"


def test_columns_give_way_and_the_last_is_cut() -> None:
    columns = [Column("a"), Column("much", 2), Column("some", 1), Column("stack", right=False)]
    rows = [["1", "22", "333", "main < work"], ["4", "5", "6", "x"]]

    def at(width: int) -> list[str]:
        return [line.plain for line in lines.grid(columns, rows, width)]

    assert at(80) == [
        "a  much  some  stack",
        "1    22   333  main < work",
        "4     5     6  x",
    ]
    assert at(22) == ["a  some  stack", "1   333  main < work", "4     6  x"]
    assert at(10) == ["a  stack", "1  main <…", "4  x"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.25, "0.2"), (7, "7"), (999, "999"), (1234, "1.23k"), (5.6e7, "56.0M")],
)
def test_quantities_have_three_digits(value: float, shown: str) -> None:
    assert lines.quantity(value) == shown


def test_answers_are_where_they_are_said_to_be() -> None:
    recorded = Path(__file__).parent / "answers" / "stats.json"
    assert json.loads(recorded.read_text())["loft"]
