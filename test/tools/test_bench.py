"""The runner of the benchmarks keeps what it measured, and puts nothing together that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import bench
import bench_rows
import bench_run
import pytest
import typer
from bench_data import header
from bench_report import METRICS, metric_table
from bench_results import Kind, Results, Run
from bench_rows import Row
from bench_run import Failed
from limits import HANGS_S
from release import build_release
from rich.progress import Progress

from loft_malloc import allocators, launch
from loft_malloc.allocators import Allocator
from loft_malloc.outcome import Outcome

ROW = Row("a row", "one thread", 1, "program --count=1")
OTHER = Row("another", "one thread", 1, "program --count=2")
NAMES = ["loft", "snmalloc"]
CHOSEN = [Allocator(name, Path(f"{name}.so")) for name in NAMES]


def result(speed: float) -> Run:
    told = {
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
    return Run.model_validate(told)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the programs; the list tells which library ran what, in order."""
    ran: list[str] = []

    def run(row: Row, allocator: Allocator) -> Run:
        ran.append(f"{allocator.library and allocator.library.stem} {row.arguments[-1]}")
        return result(10 if allocator.name == "loft" else 20)

    monkeypatch.setattr(bench, "ROWS", (ROW, OTHER))
    monkeypatch.setattr(bench, "run_row", run)
    monkeypatch.setattr(bench, "loft_statistics", lambda row, library: {"heaps": 1})
    return ran


def measure(out: Path, rows: list[Row], rounds: int, *, keep: bool, mark: str = "c1") -> Results:
    with Progress(disable=True) as progress:
        store = bench.open_store(out, header(), NAMES, keep)
        bench.Measurement(store, rows, CHOSEN, rounds, [], float("inf"), mark).run(
            progress, progress.add_task("")
        )
    return Results.read(out)


def rounds(data: Results, row: int) -> dict[str, list[int]]:
    return {name: [run.round for run in runs] for name, runs in data.rows[row].runs.items()}


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
    assert data.rows[0].statistics == {"heaps": 1}


@pytest.mark.parametrize(("name", "owner"), [("loft", None), ("loft cpu", "cpu")])
def test_the_owner_is_set_for_its_contestant_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, owner: str | None
) -> None:
    (tmp_path / "libloft.so").write_text("")
    allocator = next(each for each in allocators.built(tmp_path) if each.name == name)
    jobs: list[launch.Job] = []

    def run(job: launch.Job) -> launch.Result:
        jobs.append(job)
        return launch.Result(Outcome("exit", 0), None, launch.Counts(), 0)

    monkeypatch.setattr(launch, "run", run)
    monkeypatch.setenv("LOFT_OWNER", "shared")
    bench_run.finish(["program"], allocator, {"LOFT_THP": "never"})
    assert jobs[0].environment.get("LOFT_OWNER") == owner
    assert jobs[0].environment["LOFT_THP"] == "never"
    assert jobs[0].preload == str(tmp_path / "libloft.so")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo lost >&2; exit 1", "exit code 1: lost"),
        ("kill -SEGV $$", "ended by SIGSEGV: no message"),
        ("echo nothing", "no result line, but 'nothing"),
        ("sleep 1000", "no end after 0.1 s"),
    ],
)
def test_what_went_wrong_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    build_release("loft_launch")
    monkeypatch.setattr(bench_run, "BUILD", tmp_path)
    monkeypatch.setattr(bench_run, "PROGRAM_TIMEOUT_S", 0.1 if "sleep" in script else HANGS_S)
    program = tmp_path / "bench" / "program"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(Failed, match=said):
        bench_run.run_row(Row("a row", "one thread", 1, "program"), Allocator("glibc", None))


def test_faults_and_sleeps_of_every_run_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_release("loft_launch")
    monkeypatch.setattr(bench_run, "BUILD", tmp_path)
    program = tmp_path / "bench" / "program"
    program.parent.mkdir()
    # It waits for a child, and so gives its processor away.
    program.write_text(f"#!/bin/sh\n/bin/true\necho '{result(10).model_dump_json()}'\n")
    program.chmod(0o755)
    run = bench_run.run_row(Row("a row", "one thread", 1, "program"), Allocator("glibc", None))
    assert run.faults is not None
    assert run.faults > 10
    assert run.sleeps is not None
    assert run.sleeps >= 1


def test_an_interrupted_set_goes_on(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    working: Any = vars(bench)["run_row"]

    def stop(row: Row, allocator: Allocator) -> Any:
        if len(programs) == 2:
            raise KeyboardInterrupt
        return working(row, allocator)

    monkeypatch.setattr(bench, "run_row", stop)
    with pytest.raises(KeyboardInterrupt):
        measure(out, [ROW, OTHER], 2, keep=False)
    assert rounds(Results.read(out), 0) == {"loft": [1], "snmalloc": [1]}

    monkeypatch.setattr(bench, "run_row", working)
    data = measure(out, [ROW, OTHER], 2, keep=True)
    assert len(programs) == 8
    assert sorted(rounds(data, 1)["loft"]) == [1, 2]


def test_another_commit_or_command_is_measured_anew(tmp_path: Path, programs: list[str]) -> None:
    out = tmp_path / "out.json"
    measure(out, [ROW, OTHER], 1, keep=False)
    data = measure(out, [ROW], 1, keep=True, mark="c2")
    assert len(programs) == 6
    assert [row.commit for row in data.rows] == ["c2", "c1"]
    assert any("c1 (1 rows)" in line and "c2 (1 rows)" in line for line in data.header_lines())


def test_rows_that_are_gone_are_dropped(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    measure(out, [ROW, OTHER], 1, keep=False)
    monkeypatch.setattr(bench, "ROWS", (OTHER,))
    data = measure(out, [OTHER], 1, keep=True, mark="c2")
    assert [row.name for row in data.rows] == [OTHER.name]


def test_sets_of_two_machines_stay_apart(
    tmp_path: Path, programs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    measure(out, [ROW], 1, keep=False)
    with pytest.raises(typer.Exit):
        bench.open_store(out, header(kernel="7", versions={"snmalloc": "2"}), NAMES, True)
    said = capsys.readouterr().err
    assert "kernel: 6, now 7" in said
    assert "snmalloc: 1, now 2" in said
    assert header().differences(header(versions={"jemalloc": "5"})) == []


def test_no_further_round_when_time_is_up(tmp_path: Path, programs: list[str]) -> None:
    out = tmp_path / "out.json"
    with Progress(disable=True) as progress:
        store = bench.open_store(out, header(), NAMES, False)
        bench.Measurement(store, [ROW, OTHER], CHOSEN, 3, [], 0.0, "c1").run(
            progress, progress.add_task("")
        )
    assert rounds(store.data, 0) == {"loft": [1], "snmalloc": [1]}
    assert rounds(store.data, 1) == {"loft": [1], "snmalloc": [1]}


def test_a_failure_is_shown_and_ends_nothing(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(row: Row, allocator: Allocator) -> Run:
        if allocator.name == "loft" and row == ROW:
            raise Failed("exit 1: an object was overwritten")
        return result(10)

    monkeypatch.setattr(bench, "run_row", run)
    data = measure(tmp_path / "out.json", [ROW, OTHER], 2, keep=False)
    assert data.rows[0].failures == {"loft": "exit 1: an object was overwritten"}
    assert rounds(data, 1)["loft"] == [1, 2]
    table = metric_table(data, METRICS[0])
    assert table is not None
    assert table.rows[0][1][0].text == "failed"


def test_quiet_rows_and_rows_for_one(tmp_path: Path, programs: list[str]) -> None:
    quiet = Row("a row", "one thread", 1, "A=1 program --count=1", kind=Kind.QUIET, rounds=1)
    sweep = Row("another", "one thread", 1, "program --count=2", only=("loft",))
    data = measure(tmp_path / "out.json", [quiet, sweep], 2, keep=False)
    assert rounds(data, 0) == {"loft": [1], "snmalloc": [1]}
    assert rounds(data, 1) == {"loft": [1, 2]}
    assert quiet.environment == {"A": "1"}
    assert quiet.program == "program"
    assert quiet.arguments == ["--count=1"]


def test_a_variant_stands_for_loft(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path | None] = []

    def statistics(row: Row, loft: Allocator) -> dict[str, int]:
        asked.append(loft.library)
        return {"heaps": 1}

    monkeypatch.setattr(bench, "loft_statistics", statistics)
    sweep = Row("a row", "one thread", 1, "p --count=1", kind=Kind.SWEEP, variant="1x4")
    data = measure(tmp_path / "out.json", [sweep, OTHER], 1, keep=False)
    assert sorted(programs[:2]) == ["1x4 --count=1", "snmalloc --count=1"]
    assert sorted(programs[2:]) == ["loft --count=2", "snmalloc --count=2"]
    assert [path and path.name for path in asked] == ["1x4.so", "loft.so"]
    assert [row.variant for row in data.rows] == ["1x4", ""]


def test_a_row_has_settings_for_each_allocator(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def run_row(row: Row, allocator: Allocator) -> Run:
        asked[allocator.name] = allocator.variables
        return result(10)

    monkeypatch.setattr(bench, "run_row", run_row)
    monkeypatch.setitem(bench_rows.SETTINGS, "sleeps", {"loft": {"A": "1"}, "jemalloc": {"B": "2"}})
    measure(tmp_path / "out.json", [replace(ROW, settings="sleeps")], 1, keep=False)
    assert asked == {"loft": {"A": "1"}, "snmalloc": {}}


@pytest.mark.parametrize(("kind", "warm"), [(Kind.TIMED, 1), (Kind.QUIET, 0)])
def test_memory_is_warm_before_what_is_timed(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, warm: int
) -> None:
    done: list[str] = []
    told = launch.Result(
        Outcome("exit", 0), None, launch.Counts(), 0, result(10).model_dump_json(), ""
    )
    monkeypatch.setattr(bench_run, "warm_memory", lambda: done.append("warm"))

    def finish(*_: object) -> launch.Result:
        done.append("ran")
        return told

    monkeypatch.setattr(bench_run, "finish", finish)
    bench_run.run_row(replace(ROW, kind=kind), Allocator("glibc", None))
    assert done == ["warm"] * warm + ["ran"]


def test_the_rows_settings_are_written() -> None:
    assert {row.settings for row in bench_rows.ROWS} - {""} == bench_rows.SETTINGS.keys()


def test_a_variant_that_is_not_built_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Row("a row", "one thread", 1, "program", kind=Kind.SWEEP, variant="1x4")
    monkeypatch.setattr(bench, "ROWS", (sweep,))
    for module in (bench, bench_run):
        monkeypatch.setattr(module, "BUILD", tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "loft-launch").write_text("")
    (tmp_path / "bench" / "program").write_text("")
    with pytest.raises(typer.Exit):
        bench.choose_rows("quick", "*")
    assert "not built: 1x4; build the targets" in capsys.readouterr().err


def test_reads_what_perf_counted() -> None:
    report = "# started\n\n1234,,instructions:u,100,100.00,,\n<not supported>,,cycles:u,0,,,\n"
    assert bench_run.parse(report) == {"instructions": 1234.0}


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in bench_rows.ROWS]
    assert len(names) == len(set(names))
