"""Mutants of C++: where they can be, what a build with many looks like, which are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutant_places import Place, places, with_mutants, with_one
from mutants import (
    Draw,
    Drawn,
    Ended,
    Mutant,
    Test,
    Verdict,
    below_floor,
    draw,
    judge,
    line_of,
    read_tests,
    refused_by,
    share,
)

Test.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's


def changes(source: str) -> set[str]:
    return {with_one(source.encode(), place).decode() for place in places(source.encode())}


@pytest.mark.parametrize(
    ("statement", "mutants"),
    [
        ("x = a < b;", {"x = a <= b;", "x = a >= b;", "static_cast<void>(0);"}),
        ("return a && b;", {"return a || b;"}),
        ("return ~a;", {"return a;"}),
        ("if (f()) return;", {"if (!(f())) return;"}),
        ("if (a == b) return;", {"if (a != b) return;"}),
        ("if (T* p = f()) return;", set()),
        ("while (T* p = f(); !p) g;", {"while (T* p = f(); p) g;", "while (T* p = f(); !(!p)) g;"}),
        ("return 0x10u;", {"return 0x11u;", "return 0xfu;"}),
        ("return 0;", {"return 1;"}),
        ("return true;", {"return false;"}),
        ("f(a);", {"static_cast<void>(0);"}),
        (
            "if (LOFT_UNLIKELY(a != b)) return;",
            {
                "if (LOFT_UNLIKELY(a == b)) return;",
                "if (!(LOFT_UNLIKELY(a != b))) return;",
            },
        ),
        # The compiler wants these to be constant, or the mistake is in a check or in a message.
        ("static_assert(1 < 2);", set()),
        ("constexpr int n = 4;", set()),
        ("if constexpr (a < 1) return;", set()),
        ("return Array<4>::size;", set()),
        ("switch (a) { case 3: break; }", set()),
        ("int array[4];", set()),
        ("LOFT_CHECK(a < b);", set()),
        ('return Text() << "line " << 3;', set()),
    ],
)
def test_places_in_a_statement(statement: str, mutants: set[str]) -> None:
    assert changes(f"void g() {{ {statement} }}") == {
        f"void g() {{ {mutant} }}" for mutant in mutants
    }


def test_attributes_hide_no_function() -> None:
    assert len(changes("LOFT_COLD [[noreturn]] void Heap::f(int a) { g(); }")) == 1


def test_what_is_no_function_or_only_checks_stays() -> None:
    assert changes("constexpr int n = 1 + 2; struct S { int m = 3; };") == set()
    assert changes("void Heap::check() const { if (a < b) f(); }") == set()


def chosen(source: str, *wanted: str) -> list[tuple[int, Place]]:
    """The mutants that make these of the source, with numbers from 1."""
    found = {with_one(source.encode(), place).decode(): place for place in places(source.encode())}
    return [(number, found[text]) for number, text in enumerate(wanted, 1)]


def test_a_build_holds_mutants_within_mutants() -> None:
    source = "bool f() { return a < b && c; }"
    mutants = chosen(source, "bool f() { return a < b || c; }", "bool f() { return a <= b && c; }")
    inner = "(::loft::mutants::is(2) ? (a <= b) : (a < b))"
    mutated = with_mutants(source.encode(), mutants)
    assert mutated.text.decode() == (
        f"bool f() {{ return (::loft::mutants::is(1) ? ({inner} || c) : ({inner} && c)); }}"
    )
    text = mutated.text.decode()
    assert mutated.at(1, text.index("<=") + 1) == 2
    assert mutated.at(1, text.index("||") + 1) == 1
    assert mutated.at(1, 3) is None


def test_a_statement_that_is_left_out_has_no_value() -> None:
    source = "void f() {\n  g(1);\n}"
    mutants = chosen(source, "void f() {\n  static_cast<void>(0);\n}", "void f() {\n  g(2);\n}")
    assert with_mutants(source.encode(), mutants).text.decode().splitlines()[1] == (
        "  (::loft::mutants::is(1) ? (static_cast<void>(0))"
        " : static_cast<void>(g((::loft::mutants::is(2) ? (2) : (1)))));"
    )


def test_errors_are_those_of_the_innermost_mutant() -> None:
    source = "bool f() { return a < b; }"
    mutated = with_mutants(source.encode(), chosen(source, "bool f() { return a <= b; }"))
    column = mutated.text.decode().index("<=") + 1
    files = {"heap/heap.cc": mutated}
    told = f"/tree/src/heap/heap.cc:1:{column}: error: invalid operands\n"
    assert refused_by(told, files) == {1}
    assert refused_by(told.replace("error", "note"), files) == {1}
    assert refused_by(told.replace("heap.cc", "drain.cc"), files) == set()
    # Where an error tells, notes are about what is around it.
    assert refused_by(f"/tree/src/heap/heap.cc:1:3: note: here\n{told}", files) == {1}


SOURCES = {
    "heap/a.cc": b"int f(int a) { return a + 1 < 2 * a; }",
    "space/b.h": b"bool g(int a) { if (a < 3) return true; return a == 7; }",
}


def numbered(drawn: Drawn) -> list[tuple[str, Place]]:
    return [(each.file, each.place) for each in drawn.mutants.values()]


def test_a_seed_draws_the_same_and_each_folder_by_itself() -> None:
    both = draw(["heap", "space"], SOURCES, 7, 3)
    assert [each.folder for each in both.mutants.values()] == ["heap"] * 3 + ["space"] * 3
    assert numbered(both) == numbered(draw(["heap", "space"], SOURCES, 7, 3))
    assert numbered(both)[3:] == numbered(draw(["space"], SOURCES, 7, 3))
    draws = [numbered(draw(["heap", "space"], SOURCES, seed, 3)) for seed in range(9)]
    assert any(each != draws[0] for each in draws)


def test_a_place_is_drawn_once_and_what_is_refused_anew() -> None:
    drawn = draw(["heap"], SOURCES, 1, 100)
    spans = [(each.place.start, each.place.end) for each in drawn.mutants.values()]
    assert len(spans) == len(set(spans)) == 5
    few = draw(["heap"], SOURCES, 1, 2)
    few.replace(1)
    assert list(few.mutants) == [2, 3]
    assert numbered(few) == numbered(drawn)[1:3]


def test_an_empty_folder_draws_nothing() -> None:
    assert Draw.of("cache", SOURCES, 1).next() is None


def of(name: str, seconds: float, *reaches: int) -> Test:
    return Test(name, [name], {}, seconds, frozenset(reaches))


class Noticing:
    """Runs no test: those named fail with a mutant, or without one, too."""

    def __init__(self, *failing: str, broken: str = "", spends: float = 1) -> None:
        self.failing = failing
        self.broken = broken
        self.spends = spends
        self.ran: list[tuple[str, int]] = []

    def __call__(self, test: Test, mutant: int) -> Ended:
        self.ran.append((test.name, mutant))
        fails = test.name == self.broken or (mutant != 0 and test.name in self.failing)
        return Ended(not fails, fails and "slow" in test.name, self.spends, "")


TESTS = [of("long", 5, 1, 2), of("short", 1, 1), of("slow", 9, 1), of("other", 0.1, 3)]


def test_the_shortest_that_come_to_it_first_and_no_more_than_needed() -> None:
    run = Noticing("long", "slow")
    assert judge(1, TESTS, run) == Verdict("killed", "long", 2)
    assert run.ran == [("short", 1), ("long", 1), ("long", 0)]


def test_outcomes() -> None:
    assert judge(1, TESTS, Noticing("slow")) == Verdict("timed out", "slow", 3)
    assert judge(1, TESTS, Noticing("other")) == Verdict("survived", "3 tests", 3)
    assert judge(9, TESTS, Noticing("other")) == Verdict("not reached")


def test_a_test_that_fails_without_the_mutant_tells_nothing() -> None:
    assert judge(1, TESTS, Noticing(broken="short")).outcome == "survived"


def test_no_more_than_enough_time() -> None:
    run = Noticing(spends=1000)
    assert judge(1, TESTS, run).outcome == "survived"
    assert len(run.ran) == 1


def test_floors() -> None:
    verdicts = [
        Verdict("killed"),
        Verdict("timed out"),
        Verdict("survived"),
        Verdict("not reached"),
    ]
    assert share(verdicts) == 50
    assert below_floor({"heap": 50, "space": 49}, {"heap": 50, "space": 50}) == [
        "the tests notice 49 % of the mutants of src/space, and 50 % is the least"
    ]


def test_the_line_is_that_of_the_change() -> None:
    source = b"int f() {\n  return a +\n    b\n    - c;\n}"
    lines = {
        place.edits[0][2]: line_of(source, Mutant(1, "heap/a.cc", place))
        for place in places(source)
    }
    assert lines == {b"-": 2, b"+": 4}


def test_tests_are_what_ctest_tells() -> None:
    labels = {"name": "LABELS", "value": ["unit"]}
    told: dict[str, list[dict[str, object]]] = {
        "tests": [
            {"name": "unit.A.b", "command": ["unit", "--gtest_filter=A.b"], "properties": [labels]},
            {
                "name": "unit.core.A.b",
                "command": ["unit", "--gtest_filter=A.b"],
                "properties": [
                    labels,
                    {"name": "ENVIRONMENT", "value": ["LOFT_TEST_KEYED=1"]},
                    {"name": "ENVIRONMENT_MODIFICATION", "value": ["LOFT_OWNER=set:cpu"]},
                ],
            },
        ]
    }
    plain, core = read_tests(told)
    assert plain == Test("unit.A.b", ["unit", "--gtest_filter=A.b"], {})
    assert core.settings == {"LOFT_TEST_KEYED": "1", "LOFT_OWNER": "cpu"}


def test_a_test_runs_with_its_mutant_and_ends(tmp_path: Path) -> None:
    script = 'test "$MUTANT$OWNER" = 7cpu || while :; do :; done'
    test = Test("script", ["/bin/sh", "-c", script], {"OWNER": "cpu"})
    assert test.run(60, 7).passed
    ended = test.run(0.5, 8)
    assert not ended.passed
    assert ended.timed_out
    failed = Test("script", ["/bin/sh", "-c", "echo wrong; exit 1"], {}).run(60)
    assert (failed.passed, failed.timed_out, failed.text) == (False, False, "wrong\n")
