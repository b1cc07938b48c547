"""The runner of the benchmarks keeps what it measured, and puts nothing together that differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bench
import bench_counters
import bench_machine
import bench_programs
import bench_rows
import pytest
import typer
from bench_data import header
from bench_programs import Failed
from bench_report import METRICS, Json, header_lines, metric_table
from bench_rows import Kind, Row
from rich.progress import Progress

ROW = Row("a row", bench_rows.ONE, 1, "program --count=1")
OTHER = Row("another", bench_rows.ONE, 1, "program --count=2")
NAMES: dict[str, Path | None] = {"loft": Path("loft.so"), "snmalloc": Path("snmalloc.so")}


def result(speed: float) -> Json:
    return {
        "operations": 100,
        "seconds": 100 / speed,
        "cpu_seconds": 100 / speed,
        "ops_per_second": speed,
        "peak_rss_kib": 1000,
        "threads": 1,
        "table_kib": 0,
        "cpus": [0],
        "migrated": False,
        "least_cpu_share": 1.0,
    }


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the programs; the list tells which library ran what, in order."""
    ran: list[str] = []

    def run(command: list[str], library: Path | None, extra: dict[str, str]) -> Json:
        if extra:
            ran.append(f"{extra}")
        ran.append(f"{library and library.stem} {command[-1]}")
        return result(10 if library == NAMES["loft"] else 20)

    monkeypatch.setattr(bench, "ROWS", (ROW, OTHER))
    monkeypatch.setattr(bench, "run_program", run)
    monkeypatch.setattr(bench, "loft_statistics", lambda row, library: {"heaps": 1})
    return ran


def measure(out: Path, rows: list[Row], rounds: int, *, keep: bool, mark: str = "c1") -> Json:
    with Progress(disable=True) as progress:
        store = bench.open_store(out, header(), list(NAMES), keep)
        store.order = [ROW.name, OTHER.name]
        bench.Measurement(store, rows, NAMES, rounds, [], float("inf"), mark).run(
            progress, progress.add_task("")
        )
    data: Json = json.loads(out.read_text())
    return data


def rounds(data: Json, row: int) -> dict[str, list[int]]:
    return {name: [r["round"] for r in runs] for name, runs in data["rows"][row]["runs"].items()}


def test_rounds_take_turns(tmp_path: Path, programs: list[str]) -> None:
    data = measure(tmp_path / "out.json", [ROW, OTHER], 2, keep=False)
    assert len(programs) == 8
    # Whole rounds, in which both allocators run a row one right after the other.
    assert [line.split()[1] for line in programs] == [
        *["--count=1"] * 2,
        *["--count=2"] * 2,
        *["--count=1"] * 2,
        *["--count=2"] * 2,
    ]
    # Nobody is always first.
    assert programs[0] != programs[4]
    assert rounds(data, 0) == {"loft": [1, 2], "snmalloc": [1, 2]}
    assert data["rows"][0]["statistics"] == {"heaps": 1}


def test_the_owner_is_set_for_its_contestant_alone(programs: list[str]) -> None:
    bench.run_valid(ROW, "loft", NAMES["loft"], 2)
    bench.run_valid(ROW, "loft core", NAMES["loft"], 2)
    assert programs == ["loft --count=1", "{'LOFT_OWNER': 'core'}", "loft --count=1"]


def test_an_interrupted_set_goes_on(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    working: Any = vars(bench)["run_program"]

    def stop(command: list[str], library: Path | None, extra: object) -> Any:
        if len(programs) == 2:
            raise KeyboardInterrupt
        return working(command, library, extra)

    monkeypatch.setattr(bench, "run_program", stop)
    with pytest.raises(KeyboardInterrupt):
        measure(out, [ROW, OTHER], 2, keep=False)
    assert rounds(json.loads(out.read_text()), 0) == {"loft": [1], "snmalloc": [1]}

    monkeypatch.setattr(bench, "run_program", working)
    data = measure(out, [ROW, OTHER], 2, keep=True)
    assert len(programs) == 8
    assert sorted(rounds(data, 1)["loft"]) == [1, 2]


def test_another_commit_or_command_is_measured_anew(tmp_path: Path, programs: list[str]) -> None:
    out = tmp_path / "out.json"
    measure(out, [ROW, OTHER], 1, keep=False)
    data = measure(out, [ROW], 1, keep=True, mark="c2")
    assert len(programs) == 6
    assert [row["commit"] for row in data["rows"]] == ["c2", "c1"]
    assert any("c1 (1 rows)" in line and "c2 (1 rows)" in line for line in header_lines(data))


def test_rows_that_are_gone_are_dropped(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    measure(out, [ROW, OTHER], 1, keep=False)
    monkeypatch.setattr(bench, "ROWS", (OTHER,))
    data = measure(out, [OTHER], 1, keep=True, mark="c2")
    assert [row["name"] for row in data["rows"]] == [OTHER.name]


def test_sets_of_two_machines_stay_apart(
    tmp_path: Path, programs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    measure(out, [ROW], 1, keep=False)
    with pytest.raises(typer.Exit):
        bench.open_store(out, header(kernel="7", versions={"snmalloc": "2"}), list(NAMES), True)
    said = capsys.readouterr().err
    assert "kernel: 6, now 7" in said
    assert "snmalloc: 1, now 2" in said
    assert bench_machine.differences(header(), header(versions={"jemalloc": "5"})) == []


def test_no_further_round_when_time_is_up(tmp_path: Path, programs: list[str]) -> None:
    out = tmp_path / "out.json"
    with Progress(disable=True) as progress:
        store = bench.open_store(out, header(), list(NAMES), False)
        store.order = [ROW.name, OTHER.name]
        bench.Measurement(store, [ROW, OTHER], NAMES, 3, [], 0.0, "c1").run(
            progress, progress.add_task("")
        )
    assert rounds(store.data, 0) == {"loft": [1], "snmalloc": [1]}
    assert rounds(store.data, 1) == {"loft": [1], "snmalloc": [1]}


def test_a_failure_is_shown_and_ends_nothing(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], library: Path | None, extra: object) -> Json:
        if library == NAMES["loft"] and command[-1] == "--count=1":
            raise Failed("exit 1: an object was overwritten")
        return result(10)

    monkeypatch.setattr(bench, "run_program", run)
    data = measure(tmp_path / "out.json", [ROW, OTHER], 2, keep=False)
    assert data["rows"][0]["failures"] == {"loft": "exit 1: an object was overwritten"}
    assert rounds(data, 1)["loft"] == [1, 2]
    table = metric_table(data, METRICS[0])
    assert table is not None
    assert table.rows[0][1][0].text == "failed"


def test_quiet_rows_and_rows_for_one(tmp_path: Path, programs: list[str]) -> None:
    quiet = Row("a row", bench_rows.ONE, 1, "A=1 program --count=1", kind=Kind.QUIET, once=True)
    sweep = Row("another", bench_rows.ONE, 1, "program --count=2", only=("loft",))
    data = measure(tmp_path / "out.json", [quiet, sweep], 2, keep=False)
    assert rounds(data, 0) == {"loft": [1], "snmalloc": [1]}
    assert rounds(data, 1) == {"loft": [1, 2]}
    assert quiet.environment == {"A": "1"}
    assert quiet.program == "program"
    assert quiet.arguments == ["--count=1"]


def test_a_variant_stands_for_loft(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def statistics(row: Row, library: Path) -> Json:
        asked.append(library)
        return {"heaps": 1}

    monkeypatch.setattr(bench, "loft_statistics", statistics)
    sweep = Row("a row", bench_rows.ONE, 1, "p --count=1", kind=Kind.SWEEP, variant="1x4")
    data = measure(tmp_path / "out.json", [sweep, OTHER], 1, keep=False)
    assert sorted(programs[:2]) == ["1x4 --count=1", "snmalloc --count=1"]
    assert sorted(programs[2:]) == ["loft --count=2", "snmalloc --count=2"]
    assert [path.name for path in asked] == ["1x4.so", "loft.so"]
    assert [row["variant"] for row in data["rows"]] == ["1x4", ""]


def test_a_variant_that_is_not_built_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Row("a row", bench_rows.ONE, 1, "program", kind=Kind.SWEEP, variant="1x4")
    monkeypatch.setattr(bench, "ROWS", (sweep,))
    monkeypatch.setattr(bench_programs, "BUILD", tmp_path)
    monkeypatch.setattr(bench_programs, "PROGRAMS", tmp_path)
    (tmp_path / "program").write_text("")
    with pytest.raises(typer.Exit):
        bench.choose_rows(bench.Effort.QUICK, "*")
    assert "not built: 1x4; build the targets" in capsys.readouterr().err


def test_reads_what_perf_counted() -> None:
    report = "# started\n\n1234,,instructions:u,100,100.00,,\n<not supported>,,cycles:u,0,,,\n"
    assert bench_counters.parse(report) == {"instructions": 1234.0}


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in bench_rows.ROWS]
    assert len(names) == len(set(names))
