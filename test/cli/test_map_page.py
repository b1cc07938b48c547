"""The page of a heap's map, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from asked import BASE, GRANULE, STATS, many, slabs
from browser import Browser
from test_heap_page_looks import contrast, luminance

from loft_malloc.live.reading import parsed
from loft_malloc.map import model, page


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "page.html"
    page.write(path, model.parsed(slabs(), "here"), "<b>a heap</b>", None)
    return path


def details(browser: Browser) -> str:
    return str(browser.run("document.getElementById('details').textContent"))


def colour(browser: Browser, unit: int) -> list[int]:
    """Of the cell at this distance from the heap's first address."""
    found: list[int] = browser.run(
        "(() => { const address = heap.at[0] + " + str(unit) + ";"
        " const index = pieceAt(heap, address);"
        " const [x, y] = rectangles(heap, state.plan, index, bandOf(state.plan, address))[0];"
        " return [...by('cells').getContext('2d').getImageData(x + 1, y + 1, 1, 1).data]; })()"
    )
    return found


def move(browser: Browser, unit: int) -> None:
    """Points at a cell of the first row."""
    x, y = browser.run(
        "(() => { by('cells').scrollIntoView(); const box = by('cells').getBoundingClientRect();"
        " const { cell, bands } = state.plan;"
        f" return [box.left + ({unit} + 0.5) * cell, box.top + bands[0].y + 1]; }})()"
    )
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def pick(browser: Browser, name: str, value: str) -> None:
    browser.run(
        f"(() => {{ const s = by({json.dumps(name)});"
        f" s.value = [...s.options].find((o) => o.text === {json.dumps(value)}).value;"
        " s.dispatchEvent(new Event('change')); })()"
    )


def rows(browser: Browser) -> list[list[str]]:
    found: list[list[str]] = browser.run(
        "[...document.querySelectorAll('#table tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return found


def test_pointing_at_a_slab_says_what_it_is(browser: Browser, drawn: Path) -> None:
    browser.open(drawn)
    assert browser.run("document.title") == "<b>a heap</b>"
    move(browser, 0)
    assert details(browser) == (
        f"slab, 0x{BASE:x}, 64.0 KiB, class 64, 768 of 1024 objects used, 48.0 KiB in use, "
        "16.0 KiB free inside, heap 1"
    )
    move(browser, 4)
    assert details(browser) == f"free span, 0x{BASE + 3 * GRANULE:x}, 128 KiB"
    assert browser.complaints() == []


def test_the_keyboard_reaches_all_of_it(browser: Browser, drawn: Path) -> None:
    browser.open(drawn)
    browser.run("by('cells').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowLeft", "ArrowLeft", "Home", "ArrowDown"):
        browser.press(key, 0)
        seen.append(details(browser).split(",")[:2])
    assert [kind for kind, _ in seen] == [
        "slab", "slab", "heap of the program's own", "large object", "medium run", "slab", "slab"
    ]  # fmt: skip
    assert seen[-1][1] == f" 0x{BASE + GRANULE:x}"


def test_what_is_fuller_is_darker_and_a_hole_is_marked(browser: Browser, drawn: Path) -> None:
    browser.open(drawn)
    # The second slab is empty, the third full.
    partly, empty, full = (colour(browser, unit) for unit in range(3))
    assert empty[:3] == [253, 231, 37] and full[:3] == [68, 1, 84]
    assert sum(empty[:3]) > sum(partly[:3]) > sum(full[:3])
    # One band for what lies together, with its address above it.
    bands = browser.run("state.plan.bands.map((band) => bandTitle(band))")
    assert bands == [f"0x{BASE:x}", f"0x{BASE + (1 << 30):x}, 1.00 GiB after the last"]


def test_colours_by_heap_and_by_class(browser: Browser, drawn: Path) -> None:
    browser.open(drawn)
    legend = "document.getElementById('legend').textContent"
    pick(browser, "colour", "heap")
    one, other, same = (colour(browser, unit) for unit in range(3))
    assert one == same != other
    assert browser.run(legend) == " heap 1 heap 2 free span not resident"
    pick(browser, "colour", "size class")
    one, same, other = (colour(browser, unit) for unit in range(3))
    assert one == same != other
    pick(browser, "colour", "bytes free inside")
    assert "free" in browser.run(legend)
    pick(browser, "colour", "kind of memory")
    assert "medium run" in browser.run(legend)
    assert browser.complaints() == []


def test_what_is_not_resident_has_a_colour_of_its_own(browser: Browser, drawn: Path) -> None:
    browser.open(drawn)
    large = (1 << 30) // GRANULE + 4
    assert colour(browser, large)[:3] == [68, 1, 84]
    absent = browser.run(
        "(() => { const [index, start, size] = heap.absent[0];"
        " const [x, y] = rectangles(heap, state.plan, index, bandOf(state.plan, heap.at[index]),"
        " start, size)[0];"
        " return [...by('cells').getContext('2d').getImageData(x + 1, y + 1, 1, 1).data]; })()"
    )
    assert absent[:3] == [0xE3, 0xED, 0xF9]
    assert browser.run("described(heap, 5)").endswith("in use, 4.94 MiB not resident")


def test_a_class_can_be_chosen_in_the_table(browser: Browser, drawn: Path) -> None:
    browser.open(drawn)
    assert rows(browser) == [
        ["64", "", "2", "96.0 KiB", "48.0 KiB", "50.0%", "32.0 KiB"],
        ["1024", "", "1", "64.0 KiB", "0 B", "0.0%", "0 B"],
    ]
    before = colour(browser, 0)
    browser.click("td button[data-class='1']")
    assert browser.run("by('class').selectedOptions[0].text") == "1024"
    assert colour(browser, 0)[3] < before[3]
    assert colour(browser, 2)[3] == 255
    browser.click("th button[data-order=class]")
    assert [row[0] for row in rows(browser)] == ["64", "1024"]
    browser.click("td button[data-class='1']")
    assert colour(browser, 0) == before


def test_caches_are_shown_where_they_are_known(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page.write(path, model.parsed(slabs(), "here"), "a heap", parsed(json.loads(STATS), 0))
    browser.open(path)
    words = "document.querySelector('.bar').ariaLabel"
    names = [each.split(" ")[0] for each in browser.run(words).split(", ")]
    assert names == ["in", "rounding", "in", "in", "free"]
    assert "in caches" in browser.run("by('parts').textContent")
    assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_that_is_written_can_be_read(browser: Browser, drawn: Path, scheme: str) -> None:
    browser.open(drawn, scheme=scheme)
    browser.click("td button[data-class='1']")
    pairs = browser.run(
        "(() => { const seen = (e, what) => getComputedStyle(e)[what];"
        " const back = seen(document.body, 'backgroundColor');"
        " const chosen = seen(document.querySelector('tr.chosen'), 'backgroundColor');"
        " return [[seen(document.body, 'color'), back],"
        " [seen(document.querySelector('.faint'), 'color'), back],"
        " [seen(document.querySelector('td button'), 'color'), back],"
        " [seen(document.querySelector('tr.chosen td'), 'color'), chosen]]; })()"
    )
    assert (luminance(pairs[0][1]) < 0.5) == (scheme == "dark")
    for one, other in pairs:
        assert contrast(one, other) >= 4.5, (one, other)


def test_a_phones_width_is_enough(browser: Browser, drawn: Path) -> None:
    browser.open(drawn, width=360, height=740)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.run("by('table').getBoundingClientRect().right") <= 360
    assert browser.run("by('cells').getBoundingClientRect().right") <= 360
    assert browser.complaints() == []


def test_a_hundred_thousand_slabs_can_be_used(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page.write(path, model.parsed(many(100_000), "here"), "many", None)
    for width in (360, 1200):
        browser.open(path, width=width)
        height = browser.run("by('cells').height")
        assert 300 < height < 12000
        browser.run("by('cells').focus()")
        browser.press("End", 35)
        assert f"0x{BASE + 99_999 * GRANULE:x}" in details(browser)
        browser.click("#larger")
        assert browser.run("by('cells').height") > height
    assert browser.complaints() == []


def test_the_page_loads_nothing(drawn: Path) -> None:
    written = drawn.read_text()
    assert "default-src 'none'" in written
    assert not re.search(r"""(?:src|href)\s*=\s*["']|@import|url\(""", written)
    assert not re.findall(r"https?://", written)
    # Without scripts there is a table.
    assert "<td>64</td><td>2</td><td>96.0 KiB</td><td>48.0 KiB</td>" in written
