"""What is said of a comparison with made-up numbers: the verdict, the terminal and the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up import TEN, comparison, crashed, measured

from loft_malloc import metrics, report_html, report_text, verdict
from loft_malloc.comparison import Comparison

SLOW = [value * 1.25 for value in TEN]
OTHER = list(reversed(TEN))


def sentence(compared: Comparison) -> str:
    return verdict.sentence(compared, metrics.rows(compared))


def test_the_fastest_by_how_much_and_how_sure() -> None:
    compared = comparison(measured("a", SLOW), measured("b", TEN), measured("c", SLOW))
    assert sentence(compared) == (
        "b is fastest: 20% less wall time than a (ahead in 10 of 10 rounds; by chance alone: 0.2%)"
    )


def test_those_that_are_level_share_it() -> None:
    compared = comparison(measured("a", TEN), measured("b", OTHER), measured("c", SLOW))
    assert sentence(compared) == (
        "a and b are fastest: a has 20% less wall time than c "
        "(ahead in 10 of 10 rounds; by chance alone: 0.2%)"
    )


def test_memory_has_its_own_winner() -> None:
    compared = comparison(measured("a", TEN, 2000), measured("b", SLOW, 1000))
    assert sentence(compared).endswith(
        "; b is smallest: 50% less peak RSS than a "
        "(ahead in 10 of 10 rounds; by chance alone: 0.2%)"
    )


def test_noise_has_no_winner() -> None:
    compared = comparison(measured("a", TEN), measured("b", OTHER))
    assert sentence(compared) == (
        "no winner: 10 rounds show no difference in wall time beyond noise"
    )


@pytest.mark.parametrize(
    ("compared", "said"),
    [
        (
            comparison(measured("a", TEN[:2]), measured("b", SLOW[:2])),
            "no winner: 2 rounds are too few",
        ),
        (comparison(measured("a", TEN)), "no winner: one allocator alone"),
        (
            comparison(crashed("a"), crashed("b")),
            "no winner: no run ended well under any allocator",
        ),
    ],
)
def test_without_a_verdict_it_says_why(compared: Comparison, said: str) -> None:
    assert sentence(compared).startswith(said)


def test_who_crashed_is_out() -> None:
    compared = comparison(measured("a", TEN), measured("b", SLOW), crashed("c"))
    assert sentence(compared).endswith("; c failed")


def test_one_remark_stands_once() -> None:
    compared = comparison(measured("a", TEN), measured("b", OTHER))
    assert report_text.conclusions(metrics.rows(compared)) == [
        "wall time, user time, system time, peak RSS, minor faults, major faults: "
        "the differences are within noise"
    ]
    few = comparison(measured("a", TEN[:2]), measured("b", SLOW[:2]))
    assert report_text.conclusions(metrics.rows(few)) == []


class Page(HTMLParser):
    """What is in it: texts by their element, classes of cells, names of things."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.cells: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.tables: list[int] = []
        self._path: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        if tag == "table":
            self.tables.append(0)
        if tag == "th":
            self.tables[-1] += 1
        if tag not in ("meta", "path", "use", "rect"):
            self._path.append((tag, given.get("class", "")))

    def handle_endtag(self, tag: str) -> None:
        while self._path and self._path.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._path or not data.strip():
            return
        tag, of_class = self._path[-1]
        self.texts.setdefault(tag, []).append(data.strip())
        if tag == "td":
            self.cells.append((of_class, data.strip()))


def page_of(compared: Comparison, folder: Path) -> Page:
    rows = metrics.rows(compared)
    said = verdict.sentence(compared, rows)
    report_html.write(folder / "page.html", compared, rows, said, [])
    return Page((folder / "page.html").read_text())


def test_nothing_is_marked_where_nothing_can_be_told(tmp_path: Path) -> None:
    for compared in (
        comparison(measured("a", TEN), measured("b", OTHER)),
        comparison(measured("a", TEN[:2]), measured("b", SLOW[:2])),
    ):
        page = page_of(compared, tmp_path)
        assert page.cells
        assert {of_class for of_class, _ in page.cells} <= {"level", "unknown"}


def test_what_exceeds_the_noise_is_marked(tmp_path: Path) -> None:
    page = page_of(
        comparison(measured("a", TEN), measured("b", OTHER), measured("c", SLOW)), tmp_path
    )
    walls = [of_class for of_class, text in page.cells if text in ("1 s", "1.25 s")]
    assert walls == ["best", "best", "behind"]


def test_the_title_is_short_and_the_command_is_there(tmp_path: Path) -> None:
    command = ["/usr/bin/program", "--config", "x" * 300, "<b>"]
    compared = comparison(measured("a", TEN), measured("b", OTHER), command=command)
    page = page_of(compared, tmp_path)
    assert page.texts["title"] == page.texts["h1"] == ["program under a and b"]
    assert page.texts["pre"] == [f"/usr/bin/program --config {'x' * 300} '<b>'"]
    many = comparison(*(measured(name, TEN) for name in "abcd"))
    assert page_of(many, tmp_path).texts["title"] == ["program under 4 allocators"]


def test_a_table_holds_one_group_and_a_chart_one_metric(tmp_path: Path) -> None:
    compared = comparison(measured("a", TEN), measured("b", SLOW))
    page = page_of(compared, tmp_path)
    # The heads: the allocators' column, three metrics or two, and the two names.
    assert page.tables == [6, 5, 5]
    text = (tmp_path / "page.html").read_text()
    charts = text.split('<div class="chart">')[1:]
    assert len(charts) == 6
    assert all(chart.count("<svg") == 1 for chart in charts[:-1])
    # On a phone, one chart stands below the other.
    narrow = text.split("@media (max-width: 45rem)")[1].split("</style>")[0]
    assert ".charts { display: block; }" in narrow
    assert ".wide { display: none; }" in narrow
    # And a row of a table is a name with its numbers below it, in as many columns.
    assert "grid-template-columns: repeat(var(--columns), 1fr)" in narrow
    assert re.findall(r"--columns: (\d)", text) == ["3", "2", "2"]


def test_names_in_drawings_are_unique(tmp_path: Path) -> None:
    page = page_of(comparison(measured("a", TEN), measured("b", SLOW)), tmp_path)
    assert len(page.ids) == len(set(page.ids))
    text = (tmp_path / "page.html").read_text()
    for name in re.findall(r'(?:url\(|href=")#([^")]+)', text):
        assert name in page.ids


def test_nothing_to_draw_is_a_page_too(tmp_path: Path) -> None:
    page = page_of(comparison(crashed("a"), crashed("b")), tmp_path)
    assert page.tables == []
    assert "svg" not in page.texts
