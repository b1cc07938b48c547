"""When a difference counts, with made-up numbers."""

from __future__ import annotations

import pytest

from loft_malloc import noise

TEN = [1.00, 1.02, 0.99, 1.01, 1.00, 0.98, 1.03, 1.00, 1.01, 0.99]


def worse(values: list[float], factor: float) -> list[float]:
    return [value * factor for value in values]


def said(values: dict[str, list[float]]) -> str:
    rounds = len(next(iter(values.values())))
    return noise.conclusion(noise.summarise(values, judged=True), rounds)


def test_the_same_numbers_are_noise() -> None:
    assert said({"a": TEN, "b": TEN, "c": list(TEN)}) == "the differences are within noise"


def test_other_numbers_of_one_kind_are_noise() -> None:
    assert said({"a": TEN, "b": list(reversed(TEN))}) == "the differences are within noise"


def test_a_difference_in_every_round_counts() -> None:
    summaries = noise.summarise({"a": TEN, "b": worse(TEN, 1.1)}, judged=True)
    assert summaries["a"].verdict == "best"
    assert summaries["b"].verdict == "behind"
    assert summaries["b"].ratio == pytest.approx(1.1)
    assert noise.conclusion(summaries, 10) == "a is best; behind: b 1.10x"


def test_one_round_of_ten_may_be_an_exception() -> None:
    values = worse(TEN, 1.1)
    values[3] = 0.5
    assert noise.judge(values, TEN) == "behind"
    values[4] = 0.5
    assert noise.judge(values, TEN) == "level"


def test_a_difference_too_small_to_matter_does_not_count() -> None:
    assert noise.judge(worse(TEN, 1.005), TEN) == "level"
    assert noise.judge(worse(TEN, 1.02), TEN) == "behind"


def test_all_three_kinds_at_once() -> None:
    text = said({"x": worse(TEN, 2), "a": TEN, "y": worse(TEN, 1.5), "b": list(reversed(TEN))})
    best = text.split(" ")[0]
    assert best in ("a", "b")
    level = "b" if best == "a" else "a"
    assert text == f"{best} is best; within noise of it: {level}; behind: y 1.50x, x 2.00x"


def test_nobody_is_best_if_nobody_is_behind() -> None:
    equals = noise.summarise({"a": TEN, "b": list(reversed(TEN))}, judged=True)
    assert {summary.verdict for summary in equals.values()} == {"level"}
    few = noise.summarise({"a": TEN[:5], "b": worse(TEN[:5], 3)}, judged=True)
    assert {summary.verdict for summary in few.values()} == {"unknown"}
    alone = noise.summarise({"a": TEN}, judged=True)
    assert alone["a"].verdict == "unknown"


def test_more_may_be_better() -> None:
    summaries = noise.summarise({"a": TEN, "b": worse(TEN, 2)}, judged=True, more=True)
    assert (summaries["b"].verdict, summaries["a"].verdict) == ("best", "behind")
    assert summaries["a"].ratio == pytest.approx(0.5)
    assert noise.conclusion(summaries, 10) == "b is best; behind: a 0.50x"
    close = noise.summarise({"a": TEN, "b": worse(TEN, 1.005)}, judged=True, more=True)
    assert {summary.verdict for summary in close.values()} == {"level"}


@pytest.mark.parametrize(
    ("ahead", "rounds", "chance"),
    [(6, 6, 2 / 64), (10, 10, 2 / 1024), (9, 10, 22 / 1024), (3, 6, 1)],
)
def test_the_chance_is_the_sign_tests(ahead: int, rounds: int, chance: float) -> None:
    assert noise.chance_of_being_ahead(ahead, rounds) == pytest.approx(chance)


def test_few_rounds_tell_nothing() -> None:
    five = {"a": TEN[:5], "b": worse(TEN[:5], 3)}
    assert noise.summarise(five, judged=True)["b"].verdict == "unknown"
    assert said(five) == (
        "5 rounds are too few to tell a difference from noise; use --runs 6 or more"
    )
    assert said({"a": TEN[:1], "b": [3.0]}).startswith("1 round is too few")
    six = {"a": TEN[:6], "b": worse(TEN[:6], 3)}
    assert noise.summarise(six, judged=True)["b"].verdict == "behind"


def test_one_allocator_is_not_compared() -> None:
    assert said({"a": TEN}) == "one allocator alone has nothing to be compared with"


def test_counts_of_nothing() -> None:
    zeros = [0.0] * 10
    assert said({"a": zeros, "b": zeros}) == "the differences are within noise"
    summaries = noise.summarise({"a": zeros, "b": TEN}, judged=True)
    assert summaries["b"].verdict == "behind"
    assert summaries["b"].ratio is None
    assert summaries["a"].spread is None


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6)])
def test_the_interval_is_the_sign_tests(count: int, rank: int) -> None:
    """The ranks that tables of the sign test give for 95 percent."""
    values = [float(i) for i in range(1, count + 1)]
    assert noise.interval(values) == (rank, count + 1 - rank)


def test_values_outside_the_rounds_are_not_judged() -> None:
    summaries = noise.summarise({"a": [1.0], "b": [9.0]}, judged=False)
    assert {summary.verdict for summary in summaries.values()} == {"unknown"}
    assert summaries["b"].ratio == 9
