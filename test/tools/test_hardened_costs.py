"""What tools/hardened_costs.py makes of the figures of its runs."""

from pathlib import Path

import hardened_costs
import pytest
from hardened_costs import BEGIN, END, MEASURE, Program, programs, ratio, table, written

from loft_malloc.tables import Table

ROWS = [Program("one", "programs", ("true",)), Program("two", "programs", ("bench/x",))]
FIGURES = [
    {MEASURE: [2.0, 2.0, 2.0], "full": [1.0, 1.0, 1.0]},
    {MEASURE: [1.0, 1.0, 1.0], "full": [2.0, 2.0, 4.0]},
]


def test_a_ratio_is_of_medians() -> None:
    assert ratio(FIGURES[0], "full") == 0.5
    assert ratio(FIGURES[1], "full") == 2.0
    assert ratio({"full": [1.0]}, "full") is None


def test_the_table_ends_with_the_mean_of_each_group() -> None:
    made = table("Time", "{:.1f} s", ROWS, [MEASURE, "full", "off"], FIGURES)
    texts = [(label, [cell.text for cell in cells]) for label, cells in made.rows]
    assert texts == [
        ("one", ["2.0 s", "0.50 ±0.00", "-"]),
        ("two", ["1.0 s", "2.00 ±0.25", "-"]),
        ("geometric mean, programs", ["1.00", "1.00", "-"]),
    ]


def test_a_word_names_a_program_of_the_build() -> None:
    assert ROWS[0].command == ["true"]
    assert ROWS[1].command[0].endswith("build/bench/x")


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in programs()]
    assert len(names) == len(set(names)) > 10


def test_the_page_has_the_tables_in_place_of_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\nbehind\n")
    monkeypatch.setattr(hardened_costs, "PAGE", page)
    made = Table(["", "full"], "Time")
    made.add("one", "0.50")
    text = written([made])
    assert text.startswith(f"before\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbehind\n")
    assert "| one | 0.50 |" in text
    assert "old" not in text
