"""What the gate makes of the reports that test runners leave."""

from __future__ import annotations

from pathlib import Path

from junit import SLOWEST, Count, read_junit, slowest

CTEST = """<testsuite>
  <testcase name="storm.Churn" classname="storm.Churn" time="2.5" status="run"/>
  <testcase name="storm.Late" classname="storm.Late" time="300" status="fail">
    <failure message="Timeout"/>
  </testcase>
  <testcase name="storm.Core" classname="storm.Core" time="0" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>core_test.cc:7: Skipped
no such processor

[  SKIPPED ] Storm.Core (0 ms)</system-out>
  </testcase>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
  <testcase classname="test.cli.test_run" name="test_help[run]" time="0.125"/>
  <testcase classname="test.cli.test_run" name="test_options" time="7"><error/></testcase>
</testsuite></testsuites>"""


def test_both_kinds_of_report_are_counted(tmp_path: Path) -> None:
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    total = Count()
    total.add(read_junit(tmp_path / "ctest.xml", "debug"))
    total.add(read_junit(tmp_path / "pytest.xml", "cli"))
    assert str(total) == "2 passed, 2 failed, 1 skipped"
    assert total.failures == [
        "debug: storm.Late: Timeout",
        "cli: test.cli.test_run test_options: see the stage's log",
    ]
    assert total.skips == [("debug", "storm.Core", "no such processor")]
    assert [line.split() for line in slowest(total.times)] == [
        ["300.0", "s", "debug:", "storm.Late"],
        ["7.0", "s", "cli:", "test.cli.test_run", "test_options"],
        ["2.5", "s", "debug:", "storm.Churn"],
        ["0.1", "s", "cli:", "test.cli.test_run", "test_help[run]"],
        ["0.0", "s", "debug:", "storm.Core"],
    ]


def test_no_report_counts_nothing(tmp_path: Path) -> None:
    assert read_junit(tmp_path / "none.xml", "debug") == Count()


def test_the_slowest_alone_are_listed() -> None:
    times = [(float(i), str(i)) for i in range(SLOWEST + 5)]
    assert [line.split()[-1] for line in slowest(times)] == [
        str(i) for i in range(SLOWEST + 4, 4, -1)
    ]
