"""What the tables, the list of losses and the pictures make of a set of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bench_pictures
import pytest
from bench_data import header
from bench_report import METRICS, Json, Table, metric_table, remarks
from bench_tables import losses, tables
from results import loss_lines, markdown_table, page, read_reasons

NAMES = ["glibc", "loft", "snmalloc", "jemalloc"]
LATENCIES = ("p50", "p99", "p99.9", "p99.99", "p99.999", "max")


def run(speed: float, peak: float = 1000, **more: Any) -> Json:
    return {
        "round": 1,
        "operations": 100,
        "seconds": 100 / speed,
        "cpu_seconds": 100 / speed,
        "ops_per_second": speed,
        "peak_rss_kib": peak,
        "table_kib": 0,
        "threads": 1,
        "cpus": [0],
        "migrated": False,
        "least_cpu_share": 1.0,
        **more,
    }


def row(name: str, runs: dict[str, list[Json]], **more: Any) -> Json:
    return {
        "name": name,
        "group": "one thread",
        "threads": 1,
        "kind": "timed",
        "command": "program",
        "date": "2026-01-01 00:00 UTC",
        "commit": "c1",
        "runs": runs,
        "failures": {},
        **more,
    }


def data(*rows: Json) -> Json:
    return {
        "header": header(),
        "allocators": NAMES,
        "peers": ["snmalloc", "jemalloc"],
        "rows": list(rows),
        "instructions": {},
    }


def found(made: list[Table], title: str) -> Table:
    return next(table for table in made if table.title == title)


def texts(table: Table, label: str) -> list[str]:
    return next([cell.text for cell in cells] for name, cells in table.rows if name == label)


SLOW = row("slow", {"loft": [run(50)], "snmalloc": [run(100)], "jemalloc": [run(80)]})
LARGE = row("large", {"loft": [run(100, 4000)], "snmalloc": [run(80, 1000)]})
FAST = row("fast", {"glibc": [run(400)], "loft": [run(200)], "snmalloc": [run(100)]})


def test_ratios_are_to_the_best_peer() -> None:
    table = found(tables(data(SLOW, FAST)), "Throughput")
    assert texts(table, "slow") == ["-", "0.50", "1.00", "0.80", "snmalloc 100 /s"]
    # libc's is no peer.
    assert texts(table, "fast")[:3] == ["4.00", "2.00", "1.00"]


def test_spread_needs_three_rounds() -> None:
    def rounds(*speeds: float) -> list[Json]:
        return [run(speed) | {"round": i} for i, speed in enumerate(speeds)]

    three = row("three", {"loft": rounds(90, 100, 110), "snmalloc": rounds(100, 100, 100)})
    assert texts(found(tables(data(three)), "Throughput"), "three")[1] == "1.00 ±5%"


def test_losses_are_sorted_and_have_their_reasons(tmp_path: Path) -> None:
    why = tmp_path / "losses.toml"
    why.write_text(
        '[[loss]]\nrow = "la*"\ntable = "Peak memory"\nreason = "It is large."\n'
        '[[loss]]\nrow = "fast"\nreason = "No longer."\n'
    )
    every = losses(data(SLOW, LARGE, FAST))
    assert [(loss.row, loss.table, loss.gain) for loss in every] == [
        ("large", "Peak memory", 0.25),
        ("slow", "Throughput", 0.5),
    ]
    lines = loss_lines(data(SLOW, LARGE, FAST), read_reasons(why))
    assert "| large | Peak memory | 0.25 | It is large. |" in lines
    assert "| slow | Throughput | 0.50 |  |" in lines
    assert not any("No longer" in line for line in lines)
    assert "Nowhere." in loss_lines(data(FAST), [])


def test_the_reasons_in_the_tree_can_be_read() -> None:
    for _, _, reason in read_reasons(Path(__file__).parents[2] / "docs" / "losses.toml"):
        assert reason


def test_memory_per_live_byte_leaves_tables_out() -> None:
    live = 16 << 20
    big = row(
        "big",
        {
            "loft": [run(1, 24 << 10, peak_live_bytes=live) | {"table_kib": 4 << 10}],
            "snmalloc": [run(1, 20 << 10, peak_live_bytes=live) | {"table_kib": 4 << 10}],
        },
    )
    table = found(tables(data(big, SLOW)), "Memory per live byte")
    assert [label for label, _ in table.rows if not label.startswith("geo")] == ["big"]
    assert texts(table, "big")[1] == "1.25"


def samples(*rss: float) -> list[Json]:
    labels = ["start", "peak", "freed", "quiet"]
    return [
        {"label": label, "at": float(i), "rss_kib": kib, "lazy_free_kib": 1024, "huge_kib": 0}
        for i, (label, kib) in enumerate(zip(labels, rss, strict=True))
    ]


def idle_row() -> Json:
    def one(*rss: float) -> list[Json]:
        return [run(1, memory=samples(*rss), survivor_pages_kib=1024, table_kib=1024)]

    runs = {"loft": one(0, 9000, 9000, 5120), "snmalloc": one(0, 9000, 9000, 3072)}
    return row("idle return", runs, kind="quiet")


def test_memory_at_rest() -> None:
    table = found(tables(data(idle_row())), "Memory at rest")
    assert texts(table, "idle return: at the end") == ["-", "5.0", "3.0", "-"]
    assert texts(table, "idle return: over the survivors' pages")[1:3] == ["4.00", "2.00"]
    assert texts(table, "idle return: LazyFree")[1] == "1.0"
    # Its elapsed time means nothing.
    assert metric_table(data(idle_row()), METRICS[0]) is None
    assert [loss.row for loss in losses(data(idle_row()))] == [
        "idle return: over the survivors' pages",
        "idle return: at the end",
    ]
    (shown,) = bench_pictures.idle(data(idle_row()))
    held = (9000 - 1024) / 1024
    assert shown.lines["loft"] == [(-1.0, held), (0.0, held), (1.0, 4.0)]


def test_latency() -> None:
    def one(factor: int) -> list[Json]:
        each = {q: factor * 10**i for i, q in enumerate(LATENCIES)}
        return [run(1, malloc_ns=each, free_ns=each, clock_ns={"p50": 19})]

    entry = row("latency", {"loft": one(2), "snmalloc": one(1)}, kind="own")
    table = found(tables(data(entry)), "Latency")
    assert texts(table, "malloc p99.99") == ["-", "2000", "1000", "-"]
    assert "19 ns" in table.note
    assert len(losses(data(entry))) == 2 * len(LATENCIES)
    assert [shown.title for shown in bench_pictures.latency(data(entry))] == ["malloc", "free"]


def test_speed_from_the_start() -> None:
    # Half as fast in the first twentieth as later.
    marks = [2.0, *[2.0 + i for i in range(1, 20)]]
    entry = row("malloc-test, from the start", {"loft": [run(1, marks=marks)]}, kind="own")
    table = found(tables(data(entry)), "From the start")
    assert texts(table, "ratio")[1] == "0.50"
    assert bench_pictures.start(data(entry))[0].lines["loft"][-1][0] == marks[-1]


def test_sweeps_compare_with_the_default() -> None:
    counted = {"batches_sent": 2, "batch_objects": 30}
    rows = [
        row("s: default", {"loft": [run(100)]}, group="s", kind="sweep", statistics=counted),
        row("s: 4K", {"loft": [run(50)]}, group="s", kind="sweep", command="LOFT_X=4K program"),
    ]
    table = found(tables(data(*rows)), "S")
    assert texts(table, "default")[1:] == ["1.00", "1.0", "15"]
    assert texts(table, "4K")[1] == "0.50"
    (shown,) = bench_pictures.sweeps(data(*rows))
    assert shown.lines == {"loft": [(4096.0, 50 / 1e6)]}


def test_misses_come_from_the_row() -> None:
    entry = FAST | {
        "counters": {"loft": {"dTLB-load-misses": 10}, "snmalloc": {"dTLB-load-misses": 5}}
    }
    table = found(tables(data(entry)), "TLB load misses")
    assert texts(table, "fast")[1:3] == ["2.00", "1.00"]


def test_scaling_needs_more_than_one_count() -> None:
    rows = [
        row(f"larson, {n} thread{'s' if n > 1 else ''}", {"loft": [run(100 * n)]}, threads=n)
        for n in (1, 2)
    ]
    (shown,) = bench_pictures.scaling(data(*rows))
    assert shown.lines["loft"] == [(1.0, 1e-4), (2.0, 2e-4)]
    assert bench_pictures.scaling(data(rows[0])) == []


def test_rows_with_too_many_threads_say_so() -> None:
    entry = row("crowd", {"loft": [run(1)], "snmalloc": [run(1)]}, threads=8)
    table = found(tables(data(entry)), "Throughput")
    assert table.rows[0][0] == "crowd (more threads than the 2 CPUs)"


def test_a_busy_machine_is_remarked_upon() -> None:
    entry = row("busy", {"loft": [run(1) | {"least_cpu_share": 0.5}]})
    assert any("something else ran" in remark for remark in remarks(data(entry)))


def test_the_page_marks_losses_and_links_what_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "idle.svg").write_text("")
    text = page(data(SLOW, FAST), [], tmp_path)
    assert "**0.50** ▼" in text
    assert "](images/idle.svg)" in text
    assert "results.svg" not in text
    assert "- slow: `program`, 2026-01-01 00:00 UTC, loft c1" in text
    assert "loft c1" in text


@pytest.mark.parametrize("title", ["Throughput", "Peak memory"])
def test_markdown_has_as_many_cells_as_columns(title: str) -> None:
    lines = markdown_table(found(tables(data(SLOW, LARGE, FAST)), title))
    grid = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in grid}) == 1
