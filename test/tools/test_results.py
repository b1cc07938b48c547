"""What is published of the measurements: README and docs/results.md say what their record says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import result_pages
from ledger import WRITTEN
from ledger_rows import Ledger
from parts import git
from result_pages import OLD, ROOT, Line, Record, changes, readme_table, with_table

LEDGER = Ledger.parse(WRITTEN.read_text(encoding="utf-8"))
RECORD = result_pages.read_record(ROOT / "docs" / "results.json")


def line(label: str, verdict: str = "ahead", **texts: str) -> Line:
    return Line.model_validate({"label": label, "texts": texts, "verdict": verdict})


def record(*lines: Line) -> Record:
    return Record(
        commit="c1",
        head=["a CPU, 2 CPUs, transparent huge pages: madvise", "today; 3 interleaved rounds"],
        columns=["loft", "jemalloc", "snmalloc", "glibc"],
        peers=["jemalloc", "snmalloc"],
        rows=list(lines),
        beside=[],
        losses=[],
    )


SPEED = "throughput ↑, one thread (mean)"
LATENCY = "latency ↓, malloc p99.9, ns"


def test_the_pages_say_what_is_recorded() -> None:
    """Or somebody wrote into them, or did not write them again: tools/results.py --pages."""
    for page, text in result_pages.pages(LEDGER):
        assert page.read_text(encoding="utf-8") == text, page


def test_the_record_is_not_old() -> None:
    """Of a commit before this one; src has not changed often since. Else: make results."""
    commit = RECORD.commit.split("-g")[-1]
    assert "dirty" not in RECORD.commit
    since = git("rev-list", "--count", f"{commit}..HEAD", "--", "src")
    assert since is not None, f"{commit} is no commit here"
    assert int(since) <= OLD


def test_every_row_of_the_readme_is_recorded() -> None:
    assert all(RECORD.line(label) for label in result_pages.IN_README)


def words_of(page: str) -> str:
    """Its sentences alone: no code, no table, nothing between marks, no address of a link."""
    text = re.sub(r"^```.*?^```$|^<!-- .*?<!-- end -->$", "", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(    |\||!).*$|\]\([^)]*\)", "", text, flags=re.MULTILINE)
    return " ".join(text.split())


def named(page: str, pattern: str) -> tuple[str, ...]:
    found = re.search(pattern, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{page} has no {pattern}"
    return found.groups()


def test_each_number_of_the_readme_is_where_it_comes_from() -> None:
    options = json.loads((ROOT / "python/loft_malloc/options.json").read_text(encoding="utf-8"))
    peak = RECORD.line("peak memory ↓, real programs (mean), to glibc")
    assert peak is not None
    cases, off, guard, full, glibc = named(
        "docs/internals/misuse.md", r"^\| all \| (\d+) \| (\d+) \| (\d+) \| \d+ \| (\d+) \| (\d+) "
    )
    [grown] = named("docs/decisions/101-heaps-that-grow.md", r"^\| 60 MiB .* \((\S+)\); 68,000 \|$")
    calls = named("src/runtime/youth.h", r"kCalls = (\d+);")
    share = named("src/cache/arrays.cc", r"kLeastShare = (\d+) \* 1024;")
    carried = named("test/unit/message_test.cc", r"OneCarrierOf(\d+)BytesBringsHome(\d+)Objects")
    sources = {
        r"Of \[(\d+) mistakes (\d+) .* default, (\d+) under": (cases, off, glibc),
        r"makes it (\d+), `full` (\d+)\.": (guard, full),
        r"peak (\d+) % above glibc": (f"{100 * float(peak.texts['loft']) - 100:.0f}",),
        r"over its life \[(\d+) %": (f"{100 * float(grown) - 100:.0f}",),
        r"up to (\d+) MiB, or an eighth": (options["dirty_bytes"]["default"].removesuffix("M"),),
        r"made (\d+) slow calls keeps up to (\d+) KiB": calls + share,
        r"(\d+) bytes name up to (\d+) objects": carried,
        r"Debian 12|so 1.20 is 20 %": (),
    }
    text = words_of((ROOT / "README.md").read_text(encoding="utf-8"))
    for pattern, expected in sources.items():
        found = re.search(pattern, text)
        assert found, pattern
        assert found.groups() == expected, pattern
        text = re.sub(pattern, "", text)
    assert re.findall(r"[^.]*\d[^.]*", text) == []


def test_the_best_peer_is_by_what_is_better() -> None:
    rows = [
        line(SPEED, loft="1.05", jemalloc="0.4", snmalloc="0.93", glibc="0.35"),
        line(LATENCY, "behind", loft="2463", jemalloc="1407", snmalloc="-", glibc="9999"),
    ]
    assert list(readme_table(record(*rows)))[2:] == [
        "| throughput ↑: one thread | 1.05 | 0.35 | 0.93, snmalloc |",
        "| latency ↓: malloc p99.9, ns | **2463** ▼ | 9999 | 1407, jemalloc |",
        "\nMeasured today at c1: a CPU, 2 CPUs.",
    ]


def test_the_table_is_written_between_its_marks() -> None:
    text = "before\n<!-- tools/results.py -->\nold\n<!-- end -->\nafter\n"
    told = with_table(text, record(line(SPEED, loft="2", jemalloc="1")))
    assert told.startswith("before\n<!-- tools/results.py -->\n| | loft |")
    assert told.endswith("c1: a CPU, 2 CPUs.\n<!-- end -->\nafter\n")
    assert with_table(told, record(line(SPEED, loft="2", jemalloc="1"))) == told
    with pytest.raises(ValueError, match="no place"):
        with_table("nothing", record())


def test_what_the_ledger_counts_is_the_ledgers() -> None:
    counted = record(line(result_pages.PAIR, loft="1", jemalloc="2")).counted(LEDGER)
    row = result_pages.pair(LEDGER)
    told = counted.line(result_pages.PAIR)
    assert told is not None
    assert told.texts["loft"] == f"{row.value:.0f}"
    assert told.texts["jemalloc"] == f"{row.peers['jemalloc']:.0f}"
    # Other rows stay.
    assert record(line(SPEED, loft="2")).counted(LEDGER) == record(line(SPEED, loft="2"))


def test_changes_are_of_rows_that_both_have() -> None:
    old = record(line(SPEED, loft="1.05"), line(LATENCY, loft="7"))
    new = record(line(SPEED, loft="1.10"), line(LATENCY, loft="7"), line("else", loft="1"))
    assert list(changes(old, new)) == [f"{SPEED}: 1.05, now 1.10"]


def test_nothing_is_published_of_what_was_not_measured(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "tools" / "results.py"), "--source", str(tmp_path / "b")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"results: no {tmp_path / 'b'}; run make results first\n"
