"""The papers' figures: what is written of them holds together, and what is measured is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paper_figures
import paper_page
import papers
import pytest
from bench_data import header
from bench_run import Failed
from paper_checks import Shown, Verdict, as_table, judge
from paper_figures import FIRST, Catalogue, Check, Figure, Form, Kind, Metric, Point
from paper_page import Measured, Papers, Sample, keep, model, page, show, tables, write_page
from paper_programs import PAPER_PROGRAMS
from pydantic import ValidationError
from rich.progress import Progress

from loft_malloc import launch
from loft_malloc.allocators import Allocator
from loft_malloc.outcome import Outcome
from loft_malloc.tables import as_markdown

ROOT = Path(__file__).resolve().parents[2]
BOOK = paper_figures.catalogue()
NAMES = [figure.name for figure in BOOK.figures]


CHECK = {"says": "alike", "of": ["loft", "2"], "to": ["engine", "2"], "least": 1}


def small(**changed: object) -> Catalogue:
    """A catalogue of one figure of two columns."""
    figure = {
        "name": "paper-5",
        "paper": "A paper",
        "at": "3, figure 5",
        "title": "throughput over threads",
        "x": "threads",
        "run": "program --threads={x} --half={half} --share={share}",
        "work": 100,
        "values": [2, 8],
        "under": ["engines"],
        "metrics": ["throughput"],
        "against": {"loft": "loft-unbatched"},
        "claims": {"to others": 1.5},
        "checks": [
            {
                "says": "batches carry it",
                "of": ["loft", "2"],
                "to": ["loft-unbatched", "2"],
                "least": 1.5,
            }
        ],
        "reading": "Because of batches.",
    }
    throughput = {"label": "million a second", "more_is_better": True, "timed": True}
    told = {
        "metrics": {"throughput": throughput},
        "allocators": {name: {"file": f"{name}.so"} for name in (*sorted(FIRST), "engine")},
        "groups": {"engines": ["engine"]},
        "figures": [figure | changed],
        "missing": [{"what": "a cluster", "why": "there is none"}],
    }
    return Catalogue.model_validate(told)


def measured(book: Catalogue, *rows: Measured) -> Papers:
    return Papers(
        header=header(),
        gigahertz=1.0,
        allocators=list(book.allocators),
        absent=["hoard"],
        rows=list(rows),
    )


def row(allocator: str, x: str, *speeds: float, failure: str = "", threads: int = 2) -> Measured:
    samples: dict[int, Sample] = {
        number: {"throughput": speed, "threads": threads, "cpu_share": 0.5}
        for number, speed in enumerate(speeds, 1)
    }
    told = {"figure": "paper-5", "x": x, "allocator": allocator, "command": "program"}
    return Measured.model_validate(told | {"commit": "c1", "samples": samples, "failure": failure})


def test_the_written_tables_are_valid() -> None:
    assert len(NAMES) == len(set(NAMES))
    for figure in BOOK.figures:
        # loft, and loft without its mechanism, come first in every table.
        assert figure.under[:2] == ["loft", "loft-unbatched"]
        assert list(figure.points(full=True))
        assert figure.checks, figure.name
    texts = paper_figures.coverage()
    assert {item.form for items in texts.values() for item in items} == set(Form)


@pytest.mark.parametrize("figure", BOOK.figures, ids=NAMES)
def test_every_command_names_a_program(figure: Figure) -> None:
    there = {path.stem for path in (ROOT / "bench").glob("*.cc")}
    if figure.kind is Kind.PROGRAM:
        there = {each.name for each in PAPER_PROGRAMS}
    if figure.kind is Kind.SIMULATED:
        there = {path.stem for path in (ROOT / "papers" / "simulation").glob("*.cc")}
    for point in figure.points(full=True):
        assert figure.kind is Kind.SIZE or point.row.program in there
        assert "{" not in point.command


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"under": ["nobody"]}, "no allocator nobody"),
        ({"against": {"loft": "nobody"}}, "no allocator nobody"),
        ({"metrics": ["beauty"]}, "no metric beauty"),
        ({"values": []}, "either runs or values"),
        ({"colour": "red"}, "Extra inputs"),
        ({"checks": [CHECK | {"most": 0.5}]}, "no band"),
        ({"checks": [CHECK | {"of": ["nobody", "2"]}]}, "no cell nobody, 2"),
        ({"checks": [CHECK | {"to": ["loft", "3"]}]}, "no cell loft, 3"),
        ({"checks": [CHECK | {"metric": "beauty"}]}, "no metric beauty"),
        ({"reading": "Does not agree here."}, "'agree' is for its checks"),
        ({"reading": "Open: too few processors."}, "'Open' is for its checks"),
    ],
)
def test_what_does_not_hold_together_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        small(**changed)


def test_an_item_has_a_place_or_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "coverage.toml"
    path.write_text('[["A text"]]\nat = "1"\nwhat = "a queue"\nform = "out of scope"\n')
    with pytest.raises(ValidationError, match="where, or why not"):
        paper_figures.coverage(path)


def test_columns_fill_the_command() -> None:
    figure = small(full=[16]).figures[0]
    assert [point.command for point in figure.points(False)] == [
        "program --threads=2 --half=1 --share=50",
        "program --threads=8 --half=4 --share=12",
    ]
    assert [point.x for point in figure.points(True)] == ["2", "8", "16"]


def test_figures_are_chosen_by_name_pattern_and_number() -> None:
    assert [figure.name for figure in papers.choose(BOOK, ["fig5"])] == ["snmalloc-5", "batchit-5"]
    assert [figure.name for figure in papers.choose(BOOK, ["snmalloc-7*"])] == [
        "snmalloc-7a",
        "snmalloc-7b",
    ]
    assert len(papers.choose(BOOK, ["full"])) == len(NAMES) > len(papers.choose(BOOK, []))


def test_an_unknown_figure_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "papers.py", "snmalloc-99"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == f"papers: no figure snmalloc-99; there are: {', '.join(NAMES)}\n"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces what runs; the list tells what was asked for."""
    asked: list[str] = []

    def sample(point: Point, allocator: Allocator) -> Sample:
        asked.append(f"{allocator.name} {point.x}")
        if allocator.name == "engine" and point.x == "8":
            raise Failed("ended by SIGSEGV: no message")
        return {"throughput": 10.0 if allocator.name == "loft" else 5.0, "threads": float(point.x)}

    monkeypatch.setitem(papers.SAMPLES, Kind.TIMED, sample)
    return asked


def test_rounds_take_turns_and_failures_are_not_repeated(tmp_path: Path, ran: list[str]) -> None:
    book = small()
    there = {name: Allocator(name, None) for name in book.allocators}
    data = measured(book)
    run = papers.Measurement(data, tmp_path / "papers.json", there, False, float("inf"), "c1")
    with Progress(disable=True) as progress:
        run.run(book.figures, 2, progress)
    assert ran[:6] == [f"{n} {x}" for x in "28" for n in ("loft-unbatched", "engine", "loft")]
    assert ran[6:] == [
        *("engine 2", "loft 2", "loft-unbatched 2"),
        *("loft 8", "loft-unbatched 8"),
    ]
    stored = Papers.model_validate_json((tmp_path / "papers.json").read_text())
    assert stored == data
    cell = stored.cell("paper-5", "loft", "8")
    assert cell is not None
    assert cell.values("throughput") == [10.0, 10.0]
    assert [r.failure for r in stored.rows if r.failure] == ["ended by SIGSEGV: no message"]


def test_past_the_budget_only_the_first_round_runs(tmp_path: Path, ran: list[str]) -> None:
    book = small()
    there = {"loft": Allocator("loft", None)}
    run = papers.Measurement(measured(book), tmp_path / "papers.json", there, False, 0.0, "c1")
    with Progress(disable=True) as progress:
        run.run(book.figures, 3, progress)
    assert ran == ["loft 2", "loft 8"]


def test_figures_with_the_same_command_share_a_run(tmp_path: Path, ran: list[str]) -> None:
    figure = small().figures[0]
    run = papers.Measurement(
        measured(small()), tmp_path / "p.json", {"loft": Allocator("loft", None)}, False, 0.0, "c1"
    )
    with Progress(disable=True) as progress:
        run.run([figure, figure.model_copy(update={"name": "paper-6"})], 1, progress)
    assert ran == ["loft 2", "loft 8"]
    assert run.data.values("paper-6", "loft", "8", "throughput") == [10.0]


def test_engines_come_from_the_first_folder_that_has_them(tmp_path: Path) -> None:
    book = small()
    for name in ("a/loft.so", "b/loft.so", "b/engine.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    there = papers.contestants(book, [tmp_path / "a", tmp_path / "b"])
    assert {name: each.library for name, each in there.items()} == {
        "loft": tmp_path / "a" / "loft.so",
        "engine": tmp_path / "b" / "engine.so",
    }


def test_counts_are_for_a_thousand_remote_frees() -> None:
    said = {"frees_remote": 2000, "exchanges": 4, "swaps": 2, "swap_retries": 2, "locks": 6}
    assert papers.counts(said) == {"exchanges": 2, "swaps": 2, "swap_retries": 1, "locks": 3}
    assert papers.counts({"frees_remote": 0, "locks": 6}) == {}
    lofts = {"batch_objects": 900, "objects_sent_singly": 100, "posts": 5, "batch_messages": 50}
    lofts |= {"forwards": 1, "locks_taken": 70, "locks_waited_for": 2}
    found = papers.counts(lofts)
    assert (found["exchanges"], found["messages"], found["lock_waits"]) == (5, 50, 2)


def test_an_engines_own_counts_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "operations": 1000,
        "ops_per_second": 2e6,
        "cpu_seconds": 0.1,
        "threads": 2,
        "peak_rss_kib": 3072,
        "table_kib": 1024,
        "peak_live_bytes": 1 << 20,
        "cpus": [0, 1],
        "migrated": False,
        "least_cpu_share": 0.5,
        "malloc_ns": {"p50": 20, "p99.9": 431},
    }
    counted = [
        {"frees_remote": 500, "exchanges": 1, "heap_kib": 584, "longest_look": 93},
        {"posts": 0, "batch_objects": 0},
    ]
    asked: list[Mapping[str, str]] = []

    def finish(command: list[str], under: Allocator, extra: Mapping[str, str], limit: float) -> Any:
        asked.append(extra)
        lines = "\n".join(map(json.dumps, counted))
        return launch.Result(
            Outcome("exit", 0), None, launch.Counts(), 0, json.dumps(told), f"engine\n{lines}\n"
        )

    monkeypatch.setattr(papers, "finish", finish)
    sample = papers.timed(Point("2", "SNMALLOC_OUTBOX=1K program --count=1"), Allocator("e", None))
    assert (sample["throughput"], sample["nanoseconds"], sample["seconds"]) == (2, 500, 0.0005)
    # The program's own tables are not the allocator's.
    assert (sample["peak_mib"], sample["over_queue"], sample["exchanges"]) == (2, 2, 2)
    # What the allocator took is no count of frees, and what C++ took is not the program's.
    assert (sample["heap_kib"], sample["heap_over_live"]) == (512, 0.5)
    assert (sample["longest_look"], sample["malloc_p999"]) == (93, 431)
    assert asked[0]["PAPER_COUNTS"] == "1"
    assert asked[0]["SNMALLOC_OUTBOX"] == "1K"


def test_a_simulation_has_its_engine_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"bench": "simulated-exchange", "heaps": 8, "operations": 2000, "cycles": 500_000}
    told |= {"moves": 300, "served": 3980, "unserved": 20}
    asked: list[tuple[list[str], Allocator]] = []

    def finish(command: list[str], under: Allocator, extra: Mapping[str, str], limit: float) -> Any:
        asked.append((command, under))
        return launch.Result(Outcome("exit", 0), None, launch.Counts(), 0, json.dumps(told), "")

    monkeypatch.setattr(papers, "finish", finish)
    loft = Allocator("loft", Path("/build/libloft.so.0"), {"LOFT_STATS": "off"})
    sample = papers.simulated(Point("8", "simulate --heaps=8"), loft)
    assert (sample["moves"], sample["frees_a_kilocycle"], sample["cycles"]) == (150, 4, 2000)
    assert sample["served"] == 99.5
    [(command, under)] = asked
    assert command == [str(ROOT / "build" / "papers" / "simulate-loft"), "--heaps=8"]
    # Nothing is loaded into it; what is set for the contestant is.
    assert (under.library, under.variables) == (None, {"LOFT_STATS": "off"})


def test_a_run_that_the_room_hardly_served_is_no_figure() -> None:
    said = [{"frees_remote": 0}, {"served": 900, "unserved": 5}, {"served": 90, "unserved": 5}]
    found = papers.of_room(said, {"seconds": 0.99, "nanoseconds": 198, "threads": 1})
    assert found == pytest.approx({"served": 99, "seconds": 1, "nanoseconds": 200})
    with pytest.raises(Failed, match="the room served 989 of 1000 calls"):
        papers.of_room([{"served": 989, "unserved": 11}], {})
    # Other allocators have no room.
    assert papers.of_room([{"frees_remote": 7}], {"seconds": 1}) == {}


def test_xalan_is_timed_without_the_program_that_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def finish(command: list[str], under: Allocator, *_: object) -> Any:
        asked.append((Path(command[0]).name, under.name))
        usage = launch.Usage(0.5, 0, 0, 0, 0, 0, 0)
        room = '{"served": 1000, "unserved": 0}\n'
        return launch.Result(Outcome("exit", 0), usage, launch.Counts(), 0, "", room)

    monkeypatch.setattr(papers, "finish", finish)
    sample = papers.whole(Point("x", "xalan --records=50"), Allocator("nextgen", None))
    assert sample == {"seconds": 0.5, "served": 100}
    assert [*map(" under ".join, asked)] == [
        "xalan under glibc",
        "xalan under nextgen",
    ]


def test_machine_code_is_a_part_of_the_file() -> None:
    sample = papers.size(Point("library", ""), Allocator("true", Path("/bin/true")))
    assert 0 < sample["text_kib"] < sample["file_kib"]


def test_a_table_has_medians_spreads_and_ratios() -> None:
    book = small()
    data = measured(
        book,
        row("loft", "2", 9, 10, 14),
        row("loft-unbatched", "2", 3, 5, 7),
        row("engine", "8", failure="crash"),
        row("loft", "8", 200, threads=8),
    )
    first, against = tables(data, book, book.figures[0])
    assert as_markdown(first) == [
        "| million a second ↑ | 2 | 8 † |",
        "| --- | --- | --- |",
        "| loft | 10 ±12% | 200 |",
        "| loft-unbatched | 5 ±20% | - |",
        "| engine | - | failed |",
    ]
    # Within a round: 3, 2, 2.
    assert as_markdown(against)[-1] == "| loft / loft-unbatched | 2.00 ±12% | - |"


def test_the_model_uses_the_measured_round_trip() -> None:
    def told(figure: str, allocator: str, x: str, **sample: float) -> Measured:
        of = {"figure": figure, "x": x, "allocator": allocator, "command": "", "commit": "c1"}
        return Measured.model_validate(of | {"samples": {1: sample}})

    kinds = ["last_loads", "last_stores", "second_tlb_loads", "second_tlb_stores"]
    data = measured(
        small(),
        told("nextgen-model", "loft", "hot loop", nanoseconds=10),
        told("nextgen-model", "nextgen", "hot loop", nanoseconds=438),
        told("nextgen-1-misses", "glibc", "xalan", calls=2000),
        told("nextgen-1-misses", "loft", "xalan", **dict.fromkeys(kinds, 0.5)),
    )
    data.allocators = ["loft", "nextgen"]
    # 214 ns a call are as many cycles, at a gigahertz: a miss. Four times 500: 1 a call.
    assert as_markdown(model(data))[2:] == [
        "| the paper | 268 cycles | 1.25 | - |",
        "| nextgen | 214 ns | 1.00 | 1.00 |",
    ]


LESS, MORE = {"most": 0.9}, {"least": 1.1}


@pytest.mark.parametrize(
    ("band", "texts", "said"),
    [
        (MORE, ("12 ±2%", "10 ±1%"), ("1.2 ±3%", Verdict.AGREE, "")),
        (LESS, ("12 ±2%", "10 ±1%"), ("1.2 ±3%", Verdict.DISAGREE, "")),
        (MORE, ("12 ±9%", "10"), ("1.2 ±9%", Verdict.OPEN, "within the noise")),
        (LESS, ("0.0061", "1000"), ("6.1e-06", Verdict.AGREE, "")),
        (MORE | {"most": 2}, ("21", "10"), ("2.1", Verdict.DISAGREE, "")),
        (MORE, ("12", "0"), ("-", Verdict.OPEN, "not measured")),
        (MORE, ("-", "10"), ("-", Verdict.OPEN, "not measured")),
        (MORE, ("12", "failed"), ("-", Verdict.OPEN, "a run failed")),
    ],
)
def test_a_check_is_judged_by_what_is_shown(
    band: dict[str, float], texts: tuple[str, str], said: tuple[str, Verdict, str]
) -> None:
    check = Check.model_validate({**CHECK, "least": 0} | band)
    assert judge(check, Metric(label="m"), [(text, False) for text in texts]) == said


def test_a_check_may_be_of_one_cell() -> None:
    check = Check.model_validate({"says": "52 KiB", "of": ["engine", "2"], "least": 40, "most": 60})
    metric = Metric(label="m")
    assert judge(check, metric, [("52 ±4%", True)]) == ("52 ±4%", Verdict.AGREE, "")
    assert judge(check, metric, [("68", True)]) == ("68", Verdict.DISAGREE, "")
    assert judge(check, metric, [("-", True)]) == ("-", Verdict.OPEN, "not measured")
    [line] = as_table(Shown([], {}), BOOK, small(checks=[check]).figures[0]).lines().values()
    assert [cell.text for cell in line.values()][:2] == ["engine, 2", "-"]


def test_times_of_threads_that_share_processors_decide_nothing() -> None:
    cells = [("30", True), ("10", True)]
    check = Check.model_validate(CHECK)
    assert judge(check, Metric(label="m", timed=True), cells)[1:] == (
        Verdict.OPEN,
        "threads share processors",
    )
    assert judge(check, Metric(label="m"), cells)[1] is Verdict.AGREE


def test_the_page_is_what_its_record_gives(tmp_path: Path) -> None:
    """Or somebody wrote into it, or did not write it again: tools/papers.py --rounds 0."""
    folder = ROOT / "papers"
    write_page(
        Papers.model_validate_json((folder / "papers.json").read_text()),
        BOOK,
        tmp_path / "figures.md",
    )
    assert (tmp_path / "figures.md").read_text() == (folder / "figures.md").read_text()
    names = {path.name for path in (folder / "pictures").iterdir()}
    assert names == {path.name for path in (tmp_path / "pictures").iterdir()}


def test_what_is_kept_shows_the_same(tmp_path: Path) -> None:
    book = small(picture=True)
    data = measured(book, row("loft", "2", 9.00001, 10, 14), row("engine", "2", failure="crash"))
    data.rows[0].samples[1]["peak_mib"] = 7
    keep(data, book, tmp_path / "papers.json")
    kept = Papers.model_validate_json((tmp_path / "papers.json").read_text())
    assert kept.rows[0].samples[1] == {"throughput": 9, "threads": 2, "cpu_share": 0.5}
    write_page(kept, book, tmp_path / "figures.md")
    text = page(show(data, book), book, paper_figures.coverage())
    assert (tmp_path / "figures.md").read_text() == text
    assert "![throughput over threads](pictures/paper-5.svg)" in text
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["paper-5.svg"]


def test_a_run_of_one_figure_leaves_the_page_alone(tmp_path: Path) -> None:
    docs = tmp_path / "figures.md"
    docs.write_text("the page\n")
    told = [sys.executable, str(ROOT / "tools" / "papers.py"), "snmalloc-sizes"]
    told += ["--out", str(tmp_path / "papers.json"), "--docs", str(docs)]
    done = subprocess.run(told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"papers: {docs} stays: " in done.stdout
    assert docs.read_text() == "the page\n"
    assert "the texts describe" not in (tmp_path / "papers.md").read_text()


def test_a_set_is_whole_when_each_column_was_measured() -> None:
    book = small()
    first, second = row("loft", "2", 9), row("loft", "8", 9)
    assert papers.lacking(book, measured(book, first)) == ["paper-5"]
    assert papers.lacking(book, measured(book, first, second)) == []
    assert papers.lacking(small(full_only=True), measured(book)) == []


def test_no_more_is_built_than_a_figure_runs() -> None:
    def built(name: str) -> list[str]:
        commands = papers.needs(BOOK, papers.choose(BOOK, [name]), full=False)
        return [" ".join(command) for command in commands]

    build = "cmake --build --preset release --target "
    assert built("batchit-5.2-budget") == [
        f"{build}bench_malloc_test loft_launch loft_shared paper_batchit-1mib variant_unbatched"
    ]
    assert built("nextgen-3") == [
        "tools/setup.sh bench",
        "tools/peers.sh",
        f"{build}bench_xalan loft_launch loft_nextgen loft_shared paper_nextgen-alone "
        "variant_unbatched",
    ]
    assert built("batchit-2-programs")[:3] == [
        "tools/setup.sh papers",
        "tools/peers.sh",
        "tools/espresso.sh",
    ]
    assert "simulate-hoard" in built("simulated-exchange")[-1].split()


def test_the_page_says_all_of_it(tmp_path: Path) -> None:
    book = small()
    rows = [row("loft", "2", 9, 10, 14), row("engine", "2", failure="crash")]
    data = measured(book, *rows)
    (tmp_path / "papers.json").write_text(data.model_dump_json(exclude_defaults=True))
    read = Papers.model_validate_json((tmp_path / "papers.json").read_text())
    text = page(show(read, book), book, paper_figures.coverage())
    for said in (
        "### paper-5: throughput over threads",
        "First column: `program --threads=2 --half=1 --share=50`.",
        "- paper, to others: 1.5\n\n|",
        "| loft | 10 ±12% |",
        "| batches carry it | loft / loft-unbatched, 2 | - | ≥ 1.5 | open: not measured |",
        "Of 1 checks 0 agree, 0 disagree, 1 are open.",
        "Because of batches.",
        "- paper-5, 2, engine: crash",
        "| a cluster | there is none |",
        "- not built: hoard",
        "In 3 of 3 runs",
        "temporal radix tree",
    ):
        assert said in text
    assert "\n\n\n" not in text
    paper_page.draw_all(read, book.figures, book, tmp_path)
    assert "<svg" in (tmp_path / "paper-5.svg").read_text()


def test_an_unmeasured_figure_says_so(tmp_path: Path) -> None:
    book = small(full_only=True)
    text = page(show(measured(book), book), book, {})
    assert "Not measured (`PAPERS=full`)." in text
    assert "Because of batches." not in text
    paper_page.draw_all(measured(book), book.figures, book, tmp_path)
    assert not list(tmp_path.iterdir())
