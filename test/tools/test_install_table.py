"""The table of ways to install loft: a day stands where a test has passed, and nowhere else."""

from pathlib import Path

import pytest
from install_table import BEGINS, NOT_RUN, Results, TableError, read_ways, write_table

WAYS = """
[[way]]
system = "Debian"
line = "apt install loft"
what = "Installed in a root."
tests = ["test/packages/test_deb.py::test_install"]

[[way]]
system = "Plan 9"
line = "make"
what = "Compiled."
why = "no such machine."
"""
DOCUMENT = f"# Install\n\n{BEGINS}\n\nAfter.\n"


def report(folder: Path, outcome: str) -> Results:
    file = folder / "report.xml"
    file.write_text(
        '<testsuites><testsuite timestamp="2026-11-27T10:00:00">'
        '<testcase classname="test.packages.test_deb" name="test_install[one]"/>'
        '<testcase classname="test.packages.test_deb" name="test_install[two]">'
        f"{outcome}</testcase>"
        "</testsuite></testsuites>"
    )
    results = Results()
    results.read(file)
    return results


def test_a_day_is_of_tests_that_passed(tmp_path: Path) -> None:
    ways = read_ways(WAYS)
    text = write_table(DOCUMENT, ways, report(tmp_path, ""))
    assert (
        "| Debian | `apt install loft` | Installed in a root. "
        "([test_deb.py](../../test/packages/test_deb.py)) | 2026-11-27 |\n"
        f"| Plan 9 | `make` | Compiled. Not run: no such machine. | {NOT_RUN} |\n\nAfter.\n"
    ) in text
    # It stays where nothing was run since, and what is written is written once.
    assert write_table(text, ways, Results()) == text


@pytest.mark.parametrize("outcome", ["<skipped/>", "<failure/>", "<error/>"])
def test_no_day_if_a_form_of_a_test_did_not_pass(tmp_path: Path, outcome: str) -> None:
    text = write_table(DOCUMENT, read_ways(WAYS), report(tmp_path, outcome))
    assert text.count(f"| {NOT_RUN} |") == 2


def test_a_way_has_a_proof_or_a_reason() -> None:
    with pytest.raises(TableError, match="neither tests nor a reason"):
        read_ways('[[way]]\nsystem = "x"\nline = "y"\nwhat = "z"\n')
