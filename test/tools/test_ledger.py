"""The ledger's rules: what may rise, what must be written, and what the pages say."""

from pathlib import Path

import ledger
import ledger_counts
import ledger_docs
import pytest
from ledger_counts import GROUPS, ROOT, Part
from ledger_rows import Findings, Group, Ledger, Row, compare, look_at_history, update

from loft_malloc.errors import UserError

TITLE = "instructions, owner=thread"


def book(value: float, reason: str = "", within: str = "", **other: str) -> Ledger:
    group = Group(
        unit="instructions", within=within, rows={"pair": Row(value=value, reason=reason)}
    )
    return Ledger(compiler="g++ 12.2.0", groups={TITLE: group}, packages=other)


def compared(written: Ledger, now: float) -> Findings:
    findings = Findings()
    compare(written, {TITLE: {"pair": now}}, findings)
    return findings


def looked_back(*versions: Ledger) -> list[str]:
    findings = Findings()
    look_at_history(list(versions), findings)
    return findings.worse


def test_the_same_is_nothing() -> None:
    assert compared(book(409), 409) == Findings()


def test_any_rise_of_an_exact_count_fails() -> None:
    findings = compared(book(409), 409.01)
    assert findings.worse == [f"{TITLE}: pair: 409 instructions are now 409.01"]
    assert not findings.better


def test_a_fall_is_told_and_does_not_fail() -> None:
    findings = compared(book(409), 400)
    assert findings.better and not findings.worse


@pytest.mark.parametrize(
    ("within", "value", "passes", "fails"),
    [
        ("bytes", 1 << 20, (1 << 20) + (64 << 10), (1 << 20) + (64 << 10) + 1),
        ("bytes", 100 << 20, 102 << 20, (102 << 20) + 1),
        ("pages", 100_000, 108_192, 108_193),
        ("chance", 4000, 4040, 4041),
    ],
)
def test_bytes_have_a_tolerance(within: str, value: int, passes: int, fails: int) -> None:
    written = book(value, within=within)
    assert compared(written, passes) == Findings()
    assert compared(written, fails).worse
    assert compared(written, value - (passes - value)) == Findings()
    assert compared(written, value - (fails - value)).better


def test_a_row_that_is_not_written_fails() -> None:
    findings = Findings()
    compare(book(1), {TITLE: {"pair": 1, "another": 2}}, findings)
    assert findings.worse == [f"{TITLE}: another: a row that bench/ledger.toml lacks"]


def test_what_was_not_counted_is_not_compared() -> None:
    findings = Findings()
    compare(book(1), {}, findings)
    assert findings == Findings()


def test_a_rise_that_is_written_takes_a_new_reason() -> None:
    assert looked_back(book(1000), book(1001, "checks more"), book(1001, "checks more")) == []
    without = looked_back(book(1000), book(1001))
    assert without == [f"{TITLE}: pair: 1000 became 1001 without a new reason beside it"]
    old = looked_back(book(1000), book(1001, "checks more"), book(1002, "checks more"))
    assert old == [f"{TITLE}: pair: 1001 became 1002 without a new reason beside it"]


def test_a_row_rises_by_two_hundredths_since_the_tag() -> None:
    first, second = book(1000), book(1010, "first")
    assert looked_back(first, second, book(1020, "second")) == []
    assert looked_back(first, second, book(1021, "second")) == [
        f"{TITLE}: pair: since the last tag it has risen by 21, more than 20"
    ]
    # What it regains of a fall is no rise, nor is what it has lost again.
    assert looked_back(first, second, book(1000), book(1015, "second")) == []
    assert looked_back(first, book(1021, "second"), book(1000)) == []
    # Of few instructions two more are allowed.
    assert looked_back(book(13), book(15, "first")) == []
    assert looked_back(book(13), book(15, "first"), book(16, "second"))


def test_another_version_of_a_program_is_no_rise() -> None:
    before, after = book(1000, jq="1.6"), book(1500, "another jq", jq="1.7")
    assert looked_back(before, after) == []
    assert looked_back(before, book(1500, "loft's", jq="1.6"))


def test_what_was_counted_otherwise_is_not_compared() -> None:
    before, after = book(1000), book(1500)
    after.method = 2
    assert looked_back(before, after) == []
    worse = book(1501)
    worse.method = 2
    assert looked_back(before, after, worse)


def test_update_writes_all_and_asks_for_a_reason() -> None:
    written = book(409)
    assert update(written, {TITLE: {"pair": 410, "new": 5}}, "because") == [
        f"{TITLE}: pair: 409 became 410"
    ]
    rows = written.groups[TITLE].rows
    assert rows["pair"] == Row(value=410, reason="because") and rows["new"].value == 5
    assert update(written, {TITLE: {"pair": 300}}, "") == []
    assert list(rows) == ["pair"] and rows["pair"].value == 300


def test_update_leaves_what_is_within_its_tolerance() -> None:
    written = book(1 << 20, within="bytes")
    assert update(written, {TITLE: {"pair": (1 << 20) + 4096}}, "") == []
    assert written.groups[TITLE].rows["pair"].value == 1 << 20


def test_what_is_written_is_read_again() -> None:
    written = book(43.54, 'with a "quote"', "bytes", **{"lua5.4": "5.4.4"})
    written.groups[TITLE].rows["pair"].peers = {"glibc": 129, "mimalloc3": 39.5}
    written.groups["at night"] = Group(unit="KiB", night=True)
    assert Ledger.parse(written.text()) == written


def test_another_compiler_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_counts, "compiler", lambda: "g++ 14.2.0")
    with pytest.raises(UserError, match=r"the ledger is of g\+\+ 12.2.0.*built by g\+\+ 14.2.0"):
        ledger.check(book(1), night=False)


@pytest.mark.parametrize(
    ("here", "says"), [("1.7", "here is 1.7"), ("", "here is none"), ("1.6", "")]
)
def test_another_version_of_a_program_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, here: str, says: str
) -> None:
    monkeypatch.setattr(ledger_counts, "version", lambda package: here)
    part = Part(lambda there: {}, package="jq")
    assert part.why_not(book(1, jq="1.6")).endswith(says)


def test_what_takes_two_processors_is_not_counted_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda of: {3})
    assert Part(lambda there: {}, processors=2).why_not(book(1)) == "takes 2 processors"
    assert Part(lambda there: {}).why_not(book(1)) == ""


def test_pages_are_checked_and_written(tmp_path: Path) -> None:
    written = book(0)
    row = Row(value=32, peers={"glibc": 200.0, "snmalloc": 34.0})
    written.groups[TITLE].rows[ledger_counts.PAIR] = row
    (tmp_path / "docs").mkdir()
    for page in ("README.md", "docs/results.md", "docs/results.json", "docs/threads.md"):
        (tmp_path / page).write_text((ROOT / page).read_text())
    pages = {page.name for page in ledger_docs.differences(written, tmp_path)}
    assert pages == {"README.md", "results.md", "threads.md"}
    ledger_docs.write(written, tmp_path)
    assert not ledger_docs.differences(written, tmp_path)
    assert "cached object | 32 | 200 | 34, " in (tmp_path / "README.md").read_text()


def test_the_ledger_holds_every_group_and_its_last_check_would_pass() -> None:
    written = Ledger.parse(ledger.WRITTEN.read_text())
    assert {title: group.unit for title, group in written.groups.items()} == {
        title: group.unit for title, group in GROUPS.items()
    }
    assert all(group.rows for group in written.groups.values())
    findings = Findings()
    look_at_history([*ledger.history()[1], written], findings)
    assert not findings.worse
    assert not ledger_docs.differences(written)
