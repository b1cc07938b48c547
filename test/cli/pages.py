"""The page of a heap profile as the tests see it: what is drawn there and written, in a browser."""

from __future__ import annotations

import json
from pathlib import Path

from browser import Browser
from heaps import Heap

from loft_malloc.profile import files, page, tree


def drawn(folder: Path, heap: Heap, base: Heap | None = None) -> Path:
    read = files.read(heap.write(folder / "heap.pb.gz"))
    other = None if base is None else files.read(base.write(folder / "base.pb.gz"))
    path = folder / "page.html"
    page.write(path, tree.build(read, other), "heap.pb.gz", ["a remark"], "")
    return path


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
