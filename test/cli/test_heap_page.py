"""The page of a heap profile, in a real browser: what it draws, and what keys and clicks do."""

from __future__ import annotations

import re
from pathlib import Path

from browser import Browser
from heaps import MIB, Heap, small
from pages import BOXES, boxes, drawn, look_for, pick, rows, shares, text

# What would end the script, or the page, if it stood there as it is.
EVIL = "</script><script>document.title='broken'</script><!--<script>&\"'\u2028"


def test_boxes_are_as_wide_as_what_they_hold(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert shares(browser) == {
        "all": 1,
        "all;main": 1,
        "all;main;parse": 0.875,
        "all;main;parse;grow": 0.625,
        "all;main;parse;parse": 0.25,
        "all;main;parse;parse;grow": 0.25,
        "all;main;serve": 0.125,
        "all;main;serve;grow": 0.125,
    }
    box = boxes(browser)["all;main;parse"]
    assert (box["text"], box["level"]) == ("parse", 3)
    assert box["label"] == "parse, /src/a.c:10, 7.00 MiB, 87.5% of all"
    # The names are read from where they begin in a box, beside each other in a row.
    ways = boxes(browser)
    assert ways["all;main;serve"]["x"] == ways["all;main;parse"]["width"]
    assert browser.complaints() == []


def test_each_kind_of_value_can_be_shown(browser: Browser, page: Path) -> None:
    browser.open(page)
    kinds = browser.run("[...document.getElementById('kind').options].map((each) => each.text)")
    assert kinds == ["objects allocated", "allocated, bytes", "objects in use", "in use, bytes"]
    assert browser.run("document.getElementById('kind').selectedIndex") == 3
    pick(browser, "allocated, bytes")
    # serve has freed what it had allocated itself.
    assert shares(browser)["all;main;serve"] == round(10 / 24, 3)
    assert rows(browser)[1] == ["9.00 MiB", "37.5%", "10.0 MiB", "41.7%", "serve", "a.c:10"]
    pick(browser, "objects in use")
    assert "objects" not in text(browser, "details")
    assert rows(browser)[0][:4] == ["15", "100.0%", "15", "100.0%"]


def test_the_table_counts_a_recursion_once(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert rows(browser) == [
        ["8.00 MiB", "100.0%", "8.00 MiB", "100.0%", "grow", "a.c:10"],
        ["0 B", "0.0%", "8.00 MiB", "100.0%", "main", "a.c:10"],
        ["0 B", "0.0%", "7.00 MiB", "87.5%", "parse", "a.c:10"],
        ["0 B", "0.0%", "1.00 MiB", "12.5%", "serve", "a.c:10"],
    ]
    browser.click("th button[data-order=all]")
    sorts = browser.run("[...document.querySelectorAll('#table th')].map((h) => h.ariaSort)")
    assert sorts[0] == "none" and sorts[2] == "descending"
    browser.click("td button[data-find=serve]")
    assert text(browser, "matched") == "12.5% matched, 1.00 MiB"


def test_a_search_says_the_share_that_it_matches(browser: Browser, page: Path) -> None:
    browser.open(page)
    for wanted, said, hits in (
        ("PARSE", "87.5% matched, 7.00 MiB", {"all;main;parse", "all;main;parse;parse"}),
        ("nothing", "0.0% matched, 0 B", set()),
        ("", "", set()),
    ):
        look_for(browser, wanted)
        assert text(browser, "matched") == said
        found = {way for way, box in boxes(browser).items() if "hit" in str(box["kind"]).split()}
        assert found == hits
    look_for(browser, "/src/a.c")
    assert text(browser, "matched").startswith("100.0% matched")


def test_zoom_by_click_and_back(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("document.getElementById('all').disabled") is True
    browser.click("#flame g[aria-label^='serve,'] rect")
    assert shares(browser) == {
        "all": 1,
        "all;main": 1,
        "all;main;serve": 1,
        "all;main;serve;grow": 1,
    }
    # What was the whole stays it.
    assert text(browser, "details") == "serve, /src/a.c:10, 1.00 MiB, 12.5% of all"
    browser.click("#all")
    assert len(boxes(browser)) == 8


def test_the_keyboard_reaches_every_box(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.getElementById('flame').focus()")
    seen = []
    for key, code in (
        ("ArrowDown", 40),
        ("ArrowDown", 40),
        ("ArrowDown", 40),
        ("ArrowRight", 39),
        ("ArrowRight", 39),
        ("ArrowRight", 39),
        ("ArrowLeft", 37),
        ("ArrowUp", 38),
        ("Home", 36),
    ):
        browser.press(key, code)
        chosen = browser.run(
            "document.getElementById(document.getElementById('flame')"
            ".getAttribute('aria-activedescendant')).getAttribute('aria-label')"
        )
        assert chosen == text(browser, "details")
        seen.append(",".join(chosen.split(", ")[::2]))
    assert seen == [
        "main,8.00 MiB",
        "parse,7.00 MiB",
        "grow,5.00 MiB",
        "parse,2.00 MiB",
        "grow,1.00 MiB",
        "grow,1.00 MiB",
        "parse,2.00 MiB",
        "parse,7.00 MiB",
        "all,100.0% of all",
    ]
    for _ in range(2):
        browser.press("ArrowDown", 40)
    browser.press("Enter", 13)
    assert shares(browser)["all;main;parse;grow"] == round(5 / 7, 3)
    browser.press("Backspace", 8)
    assert shares(browser)["all;main;serve"] == 0.125
    browser.press("ArrowDown", 40)
    browser.press(" ", 32)
    browser.press("Escape", 27)
    assert len(boxes(browser)) == 8
    browser.press("/", 191, "/")
    assert browser.run("document.activeElement.id") == "search"
    # There it is a letter like others.
    browser.press("/", 191, "/")
    assert browser.run("document.getElementById('search').value") == "/"


def test_a_difference_has_two_colours(browser: Browser, difference: Path) -> None:
    browser.open(difference)
    found = boxes(browser)
    kinds = {way.split(";")[-1]: str(box["kind"]).split()[0] for way, box in found.items()}
    assert kinds == {
        "all": "grown",
        "main": "grown",
        "parse": "shrunk",
        "grow": "shrunk",
        "fresh": "grown",
        "serve": "shrunk",
        "steady": "same",
    }
    # What is gone is as wide as it was.
    assert shares(browser)["all;main;serve"] == round(1 / 13, 3)
    assert len({str(found[f"all;main;{name}"]["colour"]) for name in ("fresh", "steady")}) == 2
    assert found["all;main;fresh"]["label"] == (
        "fresh, /src/a.c:10, 3.00 MiB, before 0 B, change +3.00 MiB"
    )
    assert rows(browser)[0] == ["+3.00 MiB", "+3.00 MiB", "3.00 MiB", "0 B", "fresh", "a.c:10"]
    assert rows(browser)[1][:2] == ["-2.00 MiB", "-2.00 MiB"]
    assert browser.complaints() == []


def test_a_name_cannot_break_out_of_its_place(browser: Browser, tmp_path: Path) -> None:
    heap = small()
    heap.stack(f"main;{EVIL}", [MIB] * 4)
    heap.stack("main;<img src=x onerror=alert(1)>", [MIB] * 4)
    page = drawn(tmp_path, heap)
    browser.open(page)
    assert browser.run("document.title") == "heap.pb.gz"
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.images.length") == 0
    names = browser.run(
        "[...document.querySelectorAll('td button')].map((each) => each.textContent)"
    )
    assert {EVIL, "<img src=x onerror=alert(1)>"} <= set(names)
    assert browser.complaints() == []
    # Nor in what is there without scripts.
    plain = page.read_text().split("<noscript>")[1].split("</noscript>")[0]
    assert "<script" not in plain and "&lt;script&gt;" in plain


def test_many_and_deep_stacks_are_drawn(browser: Browser, tmp_path: Path) -> None:
    heap = Heap()
    heap.stack("deep" + ";deep" * 2000, [1, 900, 1, 900])
    for number in range(300):
        heap.stack(f"main;work{number % 20};f{number}", [1, number + 1, 1, number + 1])
    browser.open(drawn(tmp_path, heap))
    assert len(rows(browser)) == 50
    browser.click("#more")
    assert len(rows(browser)) == 322
    assert browser.run("document.getElementById('more').hidden") is True
    assert max(int(str(box["level"])) for box in browser.run(BOXES)) == 2002
    assert browser.complaints() == []


def test_the_page_loads_nothing(page: Path) -> None:
    written = page.read_text()
    assert "default-src 'none'" in written
    assert not re.search(r"""(?:src|href)\s*=\s*["']|@import|url\(""", written)
    addresses = set(re.findall(r"https?://[^\"'\s]+", written))
    assert addresses == {"http://www.w3.org/2000/svg"}
