"""What real programs cost: the same each time, beside the best peer; what is missing is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import program_costs
import program_inputs
import pytest
from ledger_counts import LIBRARY, steps_in
from program_costs import MEASURES, Costs, causes_table, measure, table
from program_inputs import MAKERS, Program, made, programs
from release import build_release

from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError

SCRIPT = 'i=0; while [ $i -lt {size} ]; do x=$x$i; i=$((i + 1)); done; echo "$x" > /dev/null'
FAKE = Program(command=["/bin/sh", "-c", SCRIPT], size={"small": 100, "large": 400})
GLIBC = Allocator("glibc", None)


@pytest.fixture(scope="module")
def loft() -> Allocator:
    return Allocator("loft", build_release("loft_ledger") / LIBRARY)


def costs(instructions: int, faults: int | None = 1) -> Costs:
    return Costs(instructions, 7, 9, faults, None, 100)


def test_a_program_costs_the_same_each_time(loft: Allocator) -> None:
    first, again, more = (measure(FAKE, loft, size) for size in ("small", "small", "large"))
    assert first.instructions == again.instructions < more.instructions
    assert (first.malloc_peak, first.malloc_faults) == (again.malloc_peak, again.malloc_faults)
    assert first.own_instructions == again.own_instructions
    assert first.own_instructions and 0 < first.own_instructions < first.instructions / 2
    assert first.resident_kib > 500 and first.faults > 50


def test_what_glibc_takes_is_not_told_from_libc(loft: Allocator) -> None:
    counted = measure(FAKE, GLIBC, "small")
    assert counted.own_instructions is None and counted.instructions > 0
    own = next(each for each in MEASURES if "own code" in each.title)
    rows = table(own, {"fake": {"glibc": counted, "loft": costs(1)}}, ["glibc", "loft"]).rows
    assert [[cell.text for cell in cells[:2]] for _, cells in rows] == 2 * [["-", "0.000"]]


def test_of_threads_nothing_is_said_that_does_not_repeat(loft: Allocator) -> None:
    counted = measure(FAKE.model_copy(update={"threads": True}), loft, "small")
    assert counted.malloc_peak is None and counted.malloc_faults is None
    assert counted.instructions > 0


def test_what_has_the_memory_adds_up_to_what_is_resident(loft: Allocator) -> None:
    row = programs()["lua"].model_copy(update={"size": {"small": 20_000, "large": 1}})
    counted = measure(row, loft, "small")
    if counted.causes is None:
        pytest.skip("the system lets nobody count faults here")
    resident = sum(counted.causes.values())
    assert 0.97 * counted.resident_kib < resident <= counted.resident_kib
    # Most of it is in use then, and not free, as at its end.
    assert counted.causes["as asked"] > 0.5 * resident
    assert counted.causes["library's file"] > 100 and counted.causes["the program's own"] > 1000
    assert all(value >= 0 for value in counted.causes.values())
    shown = causes_table({"lua": {"glibc": costs(1), "loft": counted}, "failed": {}})
    assert shown is not None and len(shown.rows) == 1
    assert shown.columns[:3] == ["KiB at loft's peak", "glibc", "resident"]
    assert len(shown.rows[0][1]) == len(shown.columns) - 1


def test_without_loft_no_cause_is_told() -> None:
    assert causes_table({"lua": {"glibc": costs(1)}, "git": {"loft": costs(1)}}) is None


def test_a_program_that_fails_is_told_and_others_are_measured(
    loft: Allocator, capfd: pytest.CaptureFixture[str]
) -> None:
    fails = Program(command=["/bin/false"], size={"small": 1, "large": 1})
    found = program_costs.measure_all({"fails": fails, "fake": FAKE}, [GLIBC], "small")
    assert found["fails"] == {} and set(found["fake"]) == {"glibc"}
    assert "fails, glibc: " in capfd.readouterr().err


def test_a_table_is_relative_to_glibc_and_names_the_best_peer() -> None:
    found = {
        "lua": {
            "glibc": costs(2_000_000),
            "loft": costs(1_020_000),
            "jemalloc": costs(1_000_000),
            "snmalloc": costs(1_500_000),
        },
        "jq": {
            "glibc": costs(1_000_000),
            "loft": costs(1_000_000),
            "jemalloc": costs(2_000_000),
            "snmalloc": costs(4_000_000),
        },
        # One under which a program failed counts in no mean.
        "git": {"glibc": costs(1_000_000), "loft": costs(9_000_000), "snmalloc": costs(4_000_000)},
    }
    made = table(MEASURES[0], found, ["glibc", "loft", "jemalloc", "snmalloc"])
    texts = {label: [cell.text for cell in cells] for label, cells in made.rows}
    assert texts == {
        "lua": ["2.0 M", "0.510", "0.500", "0.750", "jemalloc", "1.020"],
        "jq": ["1.0 M", "1.000", "2.000", "4.000", "jemalloc", "0.500"],
        "git": ["1.0 M", "9.000", "-", "4.000", "snmalloc", "2.250"],
        "geometric mean": ["1.000", "0.714", "1.000", "1.732", "jemalloc", "0.714"],
    }
    verdicts = {label: cells[-1].verdict for label, cells in made.rows}
    assert verdicts == {
        "lua": "behind",
        "jq": "ahead",
        "git": "behind",
        "geometric mean": "ahead",
    }


def test_what_nobody_counted_has_no_row() -> None:
    found = {"lua": {"glibc": costs(1, faults=None), "loft": costs(1, faults=None)}}
    faults = next(each for each in MEASURES if "malloc's" in each.title)
    assert table(faults, found, ["glibc", "loft"]).rows == []


def test_a_missing_program_and_a_missing_peer_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lacks = Program(command=["/no/ruby"], size={"small": 1, "large": 1}, install="ruby")
    monkeypatch.setattr(program_costs, "programs", lambda: {"ruby": lacks, "fake": FAKE})
    monkeypatch.setattr(program_costs, "BUILD", tmp_path)
    assert list(program_costs.rows_to_measure("*")) == ["fake"]
    assert program_costs.those_to_measure("") == [GLIBC]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "ruby is left out: /no/ruby is not there: apt-get install ruby"
    assert f"loft is not in {tmp_path.name}/; `make` builds it" in said
    assert f"jemalloc is not in {tmp_path.name}/; `make peers` builds it" in said
    with pytest.raises(UserError, match="there are: ruby, fake"):
        program_costs.rows_to_measure("x*")


def test_the_command_writes_what_it_shows(loft: Allocator, tmp_path: Path) -> None:
    tool, out = Path(program_costs.__file__), tmp_path / "costs.json"
    ran = subprocess.run(
        [sys.executable, tool, "--programs", "cfrac", "--with", "loft", "--json", out],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(out.read_text(encoding="utf-8"))
    assert told["inputs"] == "small"
    assert set(told["programs"]["cfrac"]) == {"glibc", "loft"}
    assert "geometric mean" in ran.stdout


PROFILE = """\
events: Ir
fl=(1) main.c
ob=(1) {library}
fn=(1) malloc
0 100
+1 20
cob=(2) /usr/lib/libc.so.6
cfn=(2) memset
calls=3 0
* 5000
fn=(3) free
12 30
ob=(2)
fn=(2)
0 5000
ob=(3) {beside}
fn=(4) refill
0 7
ob=(1)
fn=(1)
+9 1
9
"""


def test_own_instructions_are_those_of_the_library_and_what_lies_beside_it(tmp_path: Path) -> None:
    library, profile = tmp_path / "fine.so", tmp_path / "profile"
    profile.write_text(PROFILE.format(library=library, beside=tmp_path / "libfine.so.2"))
    assert steps_in(library, profile) == 100 + 20 + 30 + 7 + 1
    assert steps_in(None, profile) == 0


@pytest.fixture
def inputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(program_inputs, "INPUTS", tmp_path / "inputs")
    return tmp_path / "inputs"


@pytest.mark.parametrize("name", [name for name, (ending, _) in MAKERS.items() if ending != "git"])
def test_an_input_is_always_the_same(
    name: str, inputs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = made(name, 20)
    assert made(name, 20) == first
    monkeypatch.setattr(program_inputs, "INPUTS", tmp_path / "others")
    assert made(name, 20).read_bytes() == first.read_bytes()
    assert made(name, 40).stat().st_size > 1.5 * first.stat().st_size


def test_inputs_are_what_their_programs_read(inputs: Path) -> None:
    assert len(ElementTree.parse(made("xml", 20)).findall("item")) == 20
    compiles = ["g++", "-std=c++20", "-fsyntax-only", str(made("templates", 4))]
    subprocess.run(compiles, check=True)
    assert len(made("text", 30).read_text(encoding="utf-8").splitlines()) == 30


def test_a_history_has_its_commits(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def last(repository: Path) -> list[str]:
        listed = ["git", f"--git-dir={repository}", "rev-list", "HEAD"]
        trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory"}
        env = os.environ | trusted | {"GIT_CONFIG_VALUE_0": "*"}
        return subprocess.run(
            listed, env=env, capture_output=True, text=True, check=True
        ).stdout.split()

    commits = last(made("history", 9))
    assert len(commits) == 9
    monkeypatch.setattr(program_inputs, "INPUTS", tmp_path / "others")
    assert last(made("history", 9)) == commits


@pytest.mark.parametrize("name", programs())
def test_a_row_names_what_there_is(name: str) -> None:
    row = programs()[name]
    assert set(row.size) == {"small", "large"}
    assert row.input in ("", *MAKERS)
    words = row.words("small", Path("/folder"))
    assert not [word for word in words if "{bench}" in word or "{input}" in word]
    assert row.words("large", Path("/folder")) != words or row.input
    # A program of Debian's is tied to the version that its counts are of.
    assert bool(row.package) == words[0].startswith("/usr/")
