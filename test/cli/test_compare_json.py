"""The JSON of `loft compare` is what its schema says, and the schema says all that is in it."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from made_up import TEN, comparison, crashed, measured
from schema import SCHEMA, check
from support import Loft

from loft_malloc import launch, metrics, report_data, verdict
from loft_malloc.comparison import Comparison


def written(compared: Comparison, folder: Path) -> Any:
    rows = metrics.rows(compared)
    said = verdict.sentence(compared, rows)
    report_data.write_json(folder / "out.json", compared, rows, said, ["a remark"])
    return json.loads((folder / "out.json").read_text())


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == report_data.SCHEMA


def test_what_a_comparison_writes(loft: Loft, tmp_path: Path) -> None:
    ran = loft(
        "compare", "--runs", "1", "--with", "glibc,loft:owner=cpu", "--json", tmp_path / "j", "--",
        "true",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    data = json.loads((tmp_path / "j").read_text())
    check(data)
    assert data["machine"]["kernel"] == os.uname().release
    assert data["machine"]["processors"] == os.cpu_count()
    age = datetime.now().astimezone() - datetime.fromisoformat(data["started"])
    assert timedelta(0) <= age < timedelta(days=1)
    assert data["allocators"][1]["variables"] == {"LOFT_OWNER": "cpu"}
    for key in data["allocators"][0]["summary"]:
        assert data["metrics"][key]["unit"]


def test_crashes_and_counts(tmp_path: Path) -> None:
    mine = measured("a", TEN)
    mine.counts.append(launch.Counts(5, 6))
    data = written(comparison(mine, measured("b", TEN[::-1]), crashed("c")), tmp_path)
    check(data)
    assert [each["usable"] for each in data["allocators"]] == [True, True, False]
    check(written(comparison(crashed("a")), tmp_path))


def test_units_of_all_that_is_in_a_run(tmp_path: Path) -> None:
    mine = measured("a", TEN)
    mine.counts.append(launch.Counts(5, 6))
    data = written(comparison(mine), tmp_path)
    first = data["allocators"][0]
    assert set(data["units"]) == {*first["runs"][0], *first["counts"][0], "memory"}


@pytest.mark.parametrize("key", sorted(SCHEMA["required"]))
def test_what_is_missing_is_missed(tmp_path: Path, key: str) -> None:
    data = written(comparison(measured("a", TEN)), tmp_path)
    del data[key]
    assert not Draft202012Validator(SCHEMA).is_valid(data)
