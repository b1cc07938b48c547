"""What the tables, the list of losses and the pictures make of a set of runs."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import bench_pictures
import pytest
from bench_beside import PATTERNS
from bench_data import header
from bench_pictures import draw_ratios
from bench_report import METRICS, metric_table
from bench_results import Results
from bench_rows import ROWS
from bench_tables import TARGETS, losses, tables
from program_costs import Costs, Read
from result_pages import CHOSEN, Record
from result_pages import page as short_page
from results import BESIDE, chosen, page, read_reasons, record_of
from variants import VARIANTS

from loft_malloc.tables import Table, as_markdown

Json = dict[str, Any]

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


def thrice(one: Json) -> list[Json]:
    """In three rounds that do not differ: without any nothing is said of a time."""
    return [one | {"round": number} for number in (1, 2, 3)]


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


def data(*rows: Json) -> Results:
    whole = {
        "header": header(),
        "allocators": NAMES,
        "peers": ["snmalloc", "jemalloc"],
        "rows": list(rows),
        "instructions": {},
    }
    return Results.model_validate(whole)


def found(made: list[Table], title: str) -> Table:
    return next(table for table in made if table.title == title)


def texts(table: Table, label: str) -> list[str]:
    return next([cell.text for cell in cells] for name, cells in table.rows if name == label)


SLOW = row(
    "slow", {"loft": thrice(run(50)), "snmalloc": thrice(run(100)), "jemalloc": thrice(run(80))}
)
LARGE = row("large", {"loft": [run(100, 4000)], "snmalloc": [run(80, 1000)]})
FAST = row("fast", {"glibc": [run(400)], "loft": [run(200)], "snmalloc": [run(100)]})


def test_ratios_are_to_the_best_peer() -> None:
    table = found(tables(data(SLOW, FAST)), "Throughput")
    shown = ["-", "0.50 ±0%", "1.00 ±0%", "0.80 ±0%", "snmalloc 100 /s"]
    assert texts(table, "slow") == shown
    # libc's is no peer.
    assert texts(table, "fast")[:3] == ["4.00", "2.00", "1.00"]


def test_spread_needs_three_rounds() -> None:
    def rounds(*speeds: float) -> list[Json]:
        return [run(speed) | {"round": i} for i, speed in enumerate(speeds)]

    three = row("three", {"loft": rounds(90, 100, 110), "snmalloc": rounds(100, 100, 100)})
    assert texts(found(tables(data(three)), "Throughput"), "three")[1] == "1.00 ±5%"


def verdict(table: Table, label: str, name: str = "loft") -> str:
    return table.lines()[label][name].verdict


def in_rounds(*speeds: float) -> Json:
    mine = [run(speed) | {"round": i} for i, speed in enumerate(speeds)]
    peers = [run(100) | {"round": i} for i in range(len(speeds))]
    return row("rounds", {"loft": mine, "snmalloc": peers})


@pytest.mark.parametrize(
    ("speeds", "said"),
    [
        # Twice the band is 0.11, and 0.045.
        ((79, 90, 101), "level"),
        ((85.5, 90, 94.5), "behind"),
        # 0.24, and 0.12.
        ((96, 120, 144), "level"),
        ((108, 120, 132), "ahead"),
        # Below what is called level, however quiet the rounds were.
        ((98, 98, 98), "level"),
        # No band.
        ((50, 50), "unknown"),
        ((50,), "unknown"),
    ],
)
def test_a_claim_about_time_is_twice_the_noise_band(speeds: tuple[float, ...], said: str) -> None:
    made = tables(data(in_rounds(*speeds)))
    for title in ("Throughput", "CPU time"):
        assert verdict(found(made, title), "rounds") == said
    assert len(losses(data(in_rounds(*speeds)))) == (said == "behind")


def test_a_mean_has_the_band_of_its_rows() -> None:
    noisy, quiet = in_rounds(79, 90, 101), in_rounds(90, 90, 90) | {"name": "quiet"}
    mean = "geometric mean, one thread"
    assert verdict(found(tables(data(quiet)), "Throughput"), mean) == "behind"
    # The mean of 6 % and nothing.
    both = found(tables(data(noisy, quiet)), "Throughput")
    assert verdict(both, mean) == "behind"
    # A row of one round counts with the wider band.
    once = in_rounds(90) | {"name": "once"}
    assert verdict(found(tables(data(noisy, once)), "Throughput"), mean) == "level"
    assert verdict(found(tables(data(once)), "Throughput"), mean) == "unknown"


def test_memory_needs_no_band() -> None:
    assert verdict(found(tables(data(LARGE)), "Peak memory"), "large") == "behind"


def test_faults_and_waits_stand_beside_time(tmp_path: Path) -> None:
    counted = {"faults": 20, "sleeps": 5}
    few = {"faults": 1, "sleeps": 0.00001}
    runs = {"loft": thrice(run(50, **counted)), "snmalloc": thrice(run(100, **few))}
    locks = {"locks_taken": 400, "locks_waited_for": 3}
    entry = row("larson, 2 threads", runs, statistics=locks)
    made = found(tables(data(entry)), "Faults and waits")
    assert [(label, [cell.text for cell in cells[1:3]]) for label, cells in made.rows] == [
        ("time, ns: larson, 2 threads", ["2e+07 ±0%", "1e+07 ±0%"]),
        ("page faults: larson, 2 threads", ["200", "10"]),
        ("sleeps: larson, 2 threads", ["50", "<0.001"]),
        ("locks taken: larson, 2 threads", ["4e+03", "-"]),
        ("locks waited for: larson, 2 threads", ["30", "-"]),
    ]
    assert [cells[1].verdict for _, cells in made.rows] == ["behind", *["none"] * 4]
    text = shown(data(entry))
    beside = text.partition("## Faults and waits beside time")[2].partition("## Where we lose")[0]
    assert "| larson, 2 threads: time, ns | **2e+07** ▼ | 1e+07 |" in beside
    assert "| larson, 2 threads: page faults | 200 | 10 |" in beside
    assert "| larson, 2 threads: locks found held | 30 | - |" in beside
    # Of runs that did not keep them there is no such table.
    old = row("larson, 2 threads", {"loft": thrice(run(50))}, statistics=locks)
    assert "Faults and waits" not in shown(data(old))


def test_rows_with_faults_and_waits_exist() -> None:
    for pattern in PATTERNS:
        assert any(fnmatchcase(each.name, pattern) for each in ROWS), pattern
    for line in CHOSEN[BESIDE]:
        assert any(fnmatchcase(line.partition(": ")[2], pattern) for pattern in PATTERNS), line


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
    text = page(data(SLOW, LARGE, FAST), read_reasons(why), tmp_path)
    assert "| large | Peak memory | 0.25 | It is large. |\n" in text
    assert "| slow | Throughput | 0.50 |  |\n" in text
    assert "No longer" not in text
    assert "\nNowhere.\n" in page(data(FAST), [], tmp_path)


def test_the_reasons_in_the_tree_can_be_read() -> None:
    for _, _, reason in read_reasons(Path(__file__).parents[2] / "bench" / "losses.toml"):
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
    lost = [loss.row for loss in losses(data(idle_row())) if loss.table == table.title]
    assert lost == [
        "idle return: over the survivors' pages",
        "idle return: at the end",
    ]
    (shown,) = bench_pictures.idle(data(idle_row()))
    held = (9000 - 1024) / 1024
    assert shown.lines["loft"] == [(-1.0, held), (0.0, held), (1.0, 4.0)]


def returned(*rss: float) -> Json:
    """A run with a sample every half second after it freed; a page of a MiB is the survivors'."""
    labels = ["start", "peak", "freed", "quiet", "quiet", "quiet"]
    times = (0, 1, 2, 2.5, 3, 3.5)
    taken = [
        {"label": label, "at": at, "rss_kib": kib, "lazy_free_kib": 0, "huge_kib": 0}
        for label, at, kib in zip(labels, times, rss, strict=True)
    ]
    return run(1, memory=taken, survivor_pages_kib=1024, table_kib=0)


def test_memory_that_comes_back() -> None:
    # Of 10 MiB on no survivor's page, all are back after 1.5 seconds, but after one 9.7, or 5.
    good = returned(1024, 12288, 12288, 12288, 2355.2, 2048)
    bad = returned(1024, 12288, 12288, 12288, 7168, 2048)
    idle = row("idle return", {"loft": [good], "snmalloc": [bad]}, kind="quiet")
    # What the target says is also asked of loft where every peer is worse.
    holes = row("holes of 256 B", {"loft": [returned(0, 0, 0, 0, 1434, 0)]}, kind="quiet")
    made = tables(data(idle, holes))
    table = found(made, "Memory that comes back")
    assert texts(table, "idle return: back within a second, %") == [
        "≥ 95",
        "-",
        "97.0",
        "50.0",
        "-",
    ]
    assert texts(table, "holes of 256 B: over the survivors' pages")[:3] == ["≤ 1.3", "-", "1.40"]
    lost = {loss.row: loss.gain for loss in losses(data(idle, holes)) if loss.table == table.title}
    assert lost == {"holes of 256 B: over the survivors' pages": pytest.approx(1.3 / 1.4, rel=1e-3)}


def test_targets_of_other_programs() -> None:
    def one(name: str, **figures: Any) -> Json:
        failures = {"snmalloc": "exit 1: malloc failed"}
        return row(name, {"loft": [run(1, **figures)]}, kind="own", failures=failures)

    threads = [
        {"label": "start", "at": 0.0, "rss_kib": 0},
        {"label": "freed", "at": 0.1, "rss_kib": 900},
        {"label": "quiet", "at": 1.1, "rss_kib": 500},
        {"label": "joined", "at": 1.2, "rss_kib": 100},
    ]
    for sample in threads:
        sample |= {"lazy_free_kib": 0, "huge_kib": 0}
    made = tables(
        data(
            one("reclaimer", peak_live_bytes=1000 * 1024)
            | {"runs": {"loft": [run(1, 1200, peak_live_bytes=1000 * 1024) | {"table_kib": 100}]}},
            one("sleeping producer", first_kib=1000, grown_kib=5),
            one("100 threads, every size", memory=threads),
            one("mappings", most_mappings=1200),
            one("trims", trim_instructions=[100, 100, 115], tick_instructions=[50, 50, 500]),
        )
    )
    table = found(made, "Memory that comes back")
    shown = {label: [cell.text for cell in cells] for label, cells in table.rows}
    verdicts = {label: cells[2].verdict for label, cells in table.rows}
    assert shown["reclaimer: peak over live"][2] == "1.10"
    assert shown["sleeping producer: used again, %"][2:4] == ["99.5", "failed"]
    # A hundred operations, which here are threads.
    assert shown["100 threads, every size: KiB each"][:3] == ["≤ 64", "-", "5"]
    assert shown["mappings: most lines"][2] == "1200"
    assert [label for label, verdict in verdicts.items() if verdict == "behind"] == [
        "mappings: most lines",
        "trims: idle tick, 1 TiB over 1 GiB",
    ]
    assert shown["trims: malloc_trim(0), 1 TiB over 1 GiB"][2] == "1.15"


def test_phases_compare_with_the_best_peer() -> None:
    def one(*resident: float) -> list[Json]:
        return [run(1, phases=[{"rss_kib": kib, "live_kib": 100} for kib in resident])]

    entry = row("phases", {"loft": one(120, 300), "snmalloc": one(130, 200)}, kind="own")
    table = found(tables(data(entry)), "Memory that comes back")
    assert texts(table, "phases: after 1") == ["best peer", "-", "1.20", "1.30", "-"]
    assert texts(table, "phases: after 2")[2:4] == ["3.00", "2.00"]
    assert [loss.row for loss in losses(data(entry))] == ["phases: after 2"]


def test_the_rows_of_the_targets_exist() -> None:
    names = {row.name for row in ROWS}
    assert {target.row for target in TARGETS} <= names
    assert {"phases", "long phases"} <= names


def test_latency() -> None:
    def one(factor: int) -> list[Json]:
        each = {q: factor * 10**i for i, q in enumerate(LATENCIES)}
        return thrice(run(1, malloc_ns=each, free_ns=each, clock_ns=nothing))

    nothing = {q: 19 + i for i, q in enumerate(LATENCIES)}
    entry = row("latency", {"loft": one(2), "snmalloc": one(1)}, kind="own")
    table = found(tables(data(entry)), "Latency")
    assert texts(table, "malloc p99.99") == ["-", "2000 ±0%", "1000 ±0%", "-"]
    assert texts(table, "nothing p99.99") == ["-", "22", "22", "-"]
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
    counted = {"batches_sent": 2, "batch_objects": 30, "batch_messages": 4}
    rows = [
        row("s: default", {"loft": [run(100)]}, group="s", kind="sweep", statistics=counted),
        row("s: 4K", {"loft": [run(50)]}, group="s", kind="sweep", command="LOFT_X=4K program"),
    ]
    table = found(tables(data(*rows)), "S")
    assert table.columns[-2:] == ["objects a message", "messages a thousand objects"]
    assert texts(table, "default")[1:] == ["1.00", "1.0", "15.0", "7.5", "133.3"]
    assert texts(table, "4K")[1:] == ["0.50", "1.0", "-", "-", "-"]
    (shown,) = bench_pictures.sweeps(data(*rows))
    assert shown.lines == {"loft": [(4096.0, 50 / 1e6)]}


def test_huge_pages_stand_in_the_sweep_that_has_them() -> None:
    phases = [{"rss_kib": 1, "live_kib": 1, "huge_kib": kib} for kib in (1024, 4096, 2048)]
    entry = row(
        "h: default",
        {"loft": [run(100, phases=phases)]},
        group="h",
        kind="sweep",
        counters={"loft": {"dTLB-load-misses": 5}},
    )
    table = found(tables(data(entry)), "H")
    assert table.columns[-2:] == ["most MiB in huge pages", "TLB load misses a thousand operations"]
    assert texts(table, "default")[-2:] == ["4.0", "50"]


def test_batch_caches_are_drawn_by_objects_a_message() -> None:
    def one(variant: str, objects: int) -> Json:
        counted = {"batches_sent": 1, "batch_objects": objects, "batch_messages": 1}
        runs = {"loft": [run(100)]}
        more = {"group": "c", "kind": "sweep", "variant": variant, "statistics": counted}
        return row(f"c: {variant}", runs, **more)

    rows = [one("2x8", 16), one("1x16", 10), one("2x4", 8), one("2x8-fuller", 9)]
    (shown,) = bench_pictures.sweeps(data(*rows))
    assert shown.lines == {"2 ways": [(16, 16), (8, 8)], "1 way": [(16, 10)], "fuller": [(16, 9)]}
    commands = page(data(*rows), [], Path("/nowhere"))
    assert "`program` under `build/variants/2x8-fuller.so`" in commands


def test_every_line_of_the_batch_caches_has_a_colour() -> None:
    for name in VARIANTS:
        line = name.partition("-")[2] or ("1 way" if name.startswith("1x") else "2 ways")
        assert line in bench_pictures.COLOURS


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
    assert any("something else ran" in remark for remark in data(entry).remarks())


def test_the_page_marks_losses_and_links_what_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "idle.svg").write_text("")
    text = page(data(SLOW, FAST), [], tmp_path)
    assert "**0.50 ±0%** ▼" in text
    assert "](images/idle.svg)" in text
    assert "results.svg" not in text
    assert "- slow: `program`, 2026-01-01 00:00 UTC, loft c1" in text
    assert "loft c1" in text


def last_dot(chart: str, name: str) -> float:
    """Where it stands from left to right, in the last row."""
    _, _, behind = chart.partition(f'<g id="{name}">')
    dots = re.findall(r'<use [^>]* x="([\d.]+)"', behind.partition('<g id="')[0])
    return float(dots[-1])


def costs(loft: int) -> Costs:
    return Costs(loft, None, 2 * loft, None, None, 100.0)


def recorded(every: Results, why: Path = Path("none.toml")) -> Record:
    found = {"jq": {name: costs(90 if name == "loft" else 100) for name in NAMES}}
    return record_of(every, Read("c1", found), why)


def shown(every: Results, why: Path = Path("none.toml")) -> str:
    return short_page(recorded(every, why))


def test_the_short_page_is_a_choice(tmp_path: Path) -> None:
    reasons = tmp_path / "losses.toml"
    reasons.write_text('[[loss]]\nrow = "*"\nreason = "A reason."\n')
    entry = row("xalan", SLOW["runs"], group="large objects, start and end")
    every = data(entry, SLOW, FAST)
    text = shown(every, reasons)
    assert "| throughput ↑, xalan, a real program | **0.50** ▼ |" in text
    assert "| slow |" not in text.partition("## Where we lose")[0]
    assert text.count("A reason.") == 1
    chart = draw_ratios(every, chosen(tables(every), "Throughput"), ["loft", *every.peers])
    assert ">xalan, a real program</text>" in chart
    assert last_dot(chart, "loft") < last_dot(chart, "jemalloc") < last_dot(chart, "snmalloc")


def test_a_row_that_shared_its_cpus_is_not_published(tmp_path: Path) -> None:
    shared = {"least_cpu_share": 0.5}
    runs = {name: [run(speed) | shared] for name, speed in (("loft", 1), ("snmalloc", 2))}
    entry = row("xalan", runs)
    table = found(tables(data(entry, FAST)), "Throughput")
    assert any("do not believe it" in label for label, _ in table.rows)
    assert texts(table, "geometric mean, one thread") == [
        *texts(table, "fast")[: len(NAMES)],
        "",
    ]
    text = shown(data(entry, FAST))
    assert "xalan" not in text
    assert "Nowhere." in text


@pytest.mark.parametrize("title", ["Throughput", "Peak memory"])
def test_markdown_has_as_many_cells_as_columns(title: str) -> None:
    lines = as_markdown(found(tables(data(SLOW, LARGE, FAST)), title))
    assert len({line.count("|") for line in lines}) == 1
