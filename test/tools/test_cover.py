"""What `make coverage` makes of llvm-cov's words."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from cover import by_floor, fallen, programs_of, read, record, unreached
from trees import write_tree

DRAIN = """int drain(int a) {
  if (a < 1) return 0;
  return a;
}
template <class T>
bool never(T t) {
  return t || !t;
}
"""


def exported(source: Path) -> dict[str, Any]:
    """Two programs: one took the branch, the other did not; of the template there are two forms."""
    drain = str(source / "heap/drain.cc")
    space = str(source / "space/span.cc")
    return {
        "data": [
            {
                "files": [
                    {
                        "filename": drain,
                        "summary": {"lines": {"count": 7, "covered": 4}},
                        "branches": [
                            [2, 7, 2, 12, 0, 5, 0, 0, 4],
                            [2, 7, 2, 12, 0, 2, 0, 0, 4],
                            [7, 10, 7, 11, 0, 0, 0, 0, 4],
                            [7, 15, 7, 17, 0, 0, 0, 0, 4],
                        ],
                    },
                    {
                        "filename": space,
                        "summary": {"lines": {"count": 10, "covered": 10}},
                        "branches": [],
                    },
                    {"filename": "/usr/include/vector", "summary": {}, "branches": []},
                ],
                "functions": [
                    {
                        "name": "_Z5draini",
                        "filenames": [drain],
                        "count": 7,
                        "regions": [[1, 18, 4, 2]],
                    },
                    {
                        "name": "_Z5neverIlEbT_",
                        "filenames": [drain],
                        "count": 0,
                        "regions": [[6, 17, 8, 2]],
                    },
                    {
                        "name": "_Z5neverIiEbT_",
                        "filenames": [drain],
                        "count": 0,
                        "regions": [[6, 17, 8, 2]],
                    },
                    {
                        "name": "main",
                        "filenames": ["/tree/test/a.cc"],
                        "count": 1,
                        "regions": [[1, 1, 2, 1]],
                    },
                ],
            }
        ]
    }


def test_branches_count_by_side_and_programs_together(tmp_path: Path) -> None:
    files = read(exported(tmp_path), tmp_path)
    assert sorted(files) == ["heap/drain.cc", "space/span.cc"]
    drain = files["heap/drain.cc"]
    assert drain.branches[(2, 7, 2, 12)] == (0, 7)
    assert (drain.sides(), drain.sides_reached()) == (6, 1)
    floors = by_floor(files)
    assert floors["heap"].row() == ("7", "57.1 %", "1 of 2", "6", "16.7 %")
    assert floors["space"].row() == ("10", "100.0 %", "0 of 0", "0", "100.0 %")


def test_what_nothing_reaches_is_named_once(tmp_path: Path) -> None:
    write_tree(tmp_path, {"heap/drain.cc": DRAIN, "space/span.cc": "\n" * 10})
    files = read(exported(tmp_path), tmp_path)
    assert list(unreached(files, tmp_path)) == [
        "src/heap/drain.cc:6: function _Z5neverIlEbT_",
        "src/heap/drain.cc:2:7: never true: a < 1",
    ]


def test_a_floor_may_not_fall_by_more_than_a_point(tmp_path: Path) -> None:
    floors = by_floor(read(exported(tmp_path), tmp_path))
    assert fallen(floors, {"heap": 17.6, "space": 100}) == []
    assert fallen(floors, {"heap": 17.7, "space": 100}) == [
        "src/heap: 16.7 % of the branches; 17.7 % before"
    ]
    assert fallen(floors, {"heap": 16.7}) == ["src/space: not in coverage.toml"]
    assert fallen(floors, {"heap": 16.7, "space": 100, "arena": 80}) == [
        "src/arena: in coverage.toml, and gone"
    ]
    assert "heap = 16.7\nspace = 100.0\n" in record(floors)


def test_programs_are_those_that_ctest_starts() -> None:
    told = {"tests": [{"command": ["/b", "1"]}, {"command": ["/a"]}, {"command": ["/b", "2"]}]}
    assert programs_of(told) == [Path("/a"), Path("/b")]


def test_the_record_names_the_floors_that_there_are(root: Path) -> None:
    recorded = tomllib.loads((root / "test/coverage.toml").read_text())
    there = {path.parent.name for path in (root / "src").glob("*/*.cc")}
    assert set(recorded) == there
