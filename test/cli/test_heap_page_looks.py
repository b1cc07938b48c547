"""How the page of a heap profile looks: colours, a phone's width, and what is read aloud."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import Browser
from pages import boxes, look_for, text


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


def test_everything_has_a_name_that_can_be_read_aloud(browser: Browser, page: Path) -> None:
    browser.open(page)
    nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
    names: dict[str, list[str]] = {}
    for node in nodes:
        if not node["ignored"]:
            role = str(node["role"]["value"])
            names.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    assert names["combobox"] == ["Show"]
    assert names["searchbox"] == ["Search"]
    assert names["tree"] == ["Who allocated it"]
    assert len(names["treeitem"]) == 8
    assert "parse, /src/a.c:10, 7.00 MiB, 87.5% of all" in names["treeitem"]
    assert {"Zoom out", "Theme: auto", "self", "grow"} <= set(names["button"])
    assert all(names["button"])
    assert "main" in names and names["heading"][1:] == ["Who allocated it", "Functions"]
