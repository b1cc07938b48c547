"""The page of a heap profile, in a real browser: what it draws, and what keys and clicks do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from heaps import Heap, small

from loft.profile import files, tree
from loft.profile import page as page_of

# What would end the script, or the page, if it stood there as it is.
EVIL = "</script><script>document.title='broken'</script><!--<script>&\"'\u2028"
MIB = 1 << 20


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def drawn(folder: Path, heap: Heap, base: Heap | None = None) -> Path:
    read = files.read(heap.write(folder / "heap.pb.gz"))
    other = None if base is None else files.read(base.write(folder / "base.pb.gz"))
    path = folder / "page.html"
    page_of.write(path, tree.build(read, other), "heap.pb.gz", ["a remark"], "")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drawn(tmp_path_factory.mktemp("page"), small())


@pytest.fixture(scope="module")
def difference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    now = Heap()
    now.stack("main;parse;grow", [10, 10 * MIB, 5, 6 * MIB])
    now.stack("main;fresh", [3, 3 * MIB, 3, 3 * MIB])
    now.stack("main;steady", [1, MIB, 1, MIB])
    before = small()
    before.stack("main;steady", [1, MIB, 1, MIB])
    return drawn(tmp_path_factory.mktemp("difference"), now, before)


BOXES = """
[...document.querySelectorAll('#flame g')].map((g) => {
  const rect = g.querySelector('rect');
  return {
    label: g.getAttribute('aria-label'), level: Number(g.getAttribute('aria-level')),
    text: g.querySelector('text').textContent, kind: g.getAttribute('class'),
    x: Number(rect.getAttribute('x')), width: Number(rect.getAttribute('width')),
    colour: getComputedStyle(rect).fill,
  };
})
"""


def boxes(browser: Browser) -> dict[str, dict[str, object]]:
    """By their callers and names."""
    found: dict[str, dict[str, object]] = {}
    way: list[str] = []
    for box in browser.run(BOXES):
        way[box["level"] - 1 :] = [box["label"].split(",")[0]]
        found[";".join(way)] = box
    return found


def shares(browser: Browser) -> dict[str, float]:
    whole = browser.run("document.getElementById('graph').clientWidth")
    return {way: round(float(str(box["width"])) / whole, 3) for way, box in boxes(browser).items()}


def rows(browser: Browser) -> list[list[str]]:
    found: list[list[str]] = browser.run(
        "[...document.querySelectorAll('#table tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return found


def text(browser: Browser, name: str) -> str:
    return str(browser.run(f"document.getElementById('{name}').textContent"))


def pick(browser: Browser, kind: str) -> None:
    browser.run(
        "(() => { const s = document.getElementById('kind');"
        f" s.value = [...s.options].find((o) => o.text === {json.dumps(kind)}).value;"
        " s.dispatchEvent(new Event('change')); })()"
    )


def look_for(browser: Browser, wanted: str) -> None:
    browser.run(
        "(() => { const s = document.getElementById('search');"
        f" s.value = {json.dumps(wanted)}; s.dispatchEvent(new Event('input')); }})()"
    )


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


def luminance(colour: str) -> float:
    parts = [float(each) / 255 for each in re.findall(r"[\d.]+", colour)[:3]]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


COLOURS = """
(() => {
  const seen = (e, what) => getComputedStyle(e)[what];
  const back = seen(document.body, 'backgroundColor');
  const pairs = [[seen(document.body, 'color'), back],
                 [seen(document.querySelector('.faint'), 'color'), back],
                 [seen(document.querySelector('td button'), 'color'), back]];
  for (const g of document.querySelectorAll('#flame g')) {
    pairs.push([seen(g.querySelector('text'), 'fill'), seen(g.querySelector('rect'), 'fill')]);
  }
  return pairs;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_that_is_written_can_be_read_in_both_schemes(
    browser: Browser, page: Path, difference: Path, scheme: str
) -> None:
    for each in (page, difference):
        browser.open(each, scheme=scheme)
        look_for(browser, "serve")
        back = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (luminance(back) < 0.5) == (scheme == "dark")
        for one, other in browser.run(COLOURS):
            # Mixed colours are given in parts of 1.
            colours = [
                re.sub(r"[\d.]+", lambda part: str(float(part[0]) * 255), colour.split("srgb")[1])
                if "srgb" in colour
                else colour
                for colour in (one, other)
            ]
            assert contrast(*colours) >= 4.5, (one, other)


def test_a_switch_overrides_the_scheme(browser: Browser, page: Path) -> None:
    browser.open(page, scheme="dark")
    dark = []
    for _ in range(3):
        back = browser.run("getComputedStyle(document.body).backgroundColor")
        dark.append((text(browser, "theme"), luminance(back) < 0.5))
        browser.click("#theme")
    assert dark == [("Theme: auto", True), ("Theme: dark", True), ("Theme: light", False)]
    browser.open(page, scheme="light")
    browser.click("#theme")
    assert luminance(browser.run("getComputedStyle(document.body).backgroundColor")) < 0.5


def test_a_phones_width_is_enough(browser: Browser, difference: Path) -> None:
    browser.open(difference, width=360, height=740)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    wide = browser.run(
        "[...document.querySelectorAll('main select, main input, main button')]"
        ".filter((e) => !e.closest('.wide'))"
        ".every((e) => e.getBoundingClientRect().right <= 360)"
    )
    assert wide
    # A box that is too narrow for a name has none.
    for box in boxes(browser).values():
        assert len(str(box["text"])) * 7 <= float(str(box["width"]))


def test_the_graph_follows_the_windows_width(browser: Browser, page: Path) -> None:
    browser.open(page, width=1200)
    browser.ask(
        "Emulation.setDeviceMetricsOverride", width=700, height=900, deviceScaleFactor=1,
        mobile=False,
    )  # fmt: skip
    whole = "document.getElementById('graph').clientWidth"
    box = "Number(document.querySelector('#flame rect').getAttribute('width'))"
    done = f"""new Promise((done) => {{
      const look = () => {whole} < 700 && {box} === {whole} ? done(true) : setTimeout(look, 5);
      look();
    }})"""
    assert browser.run(done) is True


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
