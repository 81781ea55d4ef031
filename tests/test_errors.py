"""The shared checks of arguments: what passes, what is refused, and the message."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calibrant.errors import MAX_SEED, UsageError, check_choice, check_range, range_text


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5)])
def test_numbers_in_range_are_returned_as_floats(value: object) -> None:
    level = check_range("level", value, 0, 1, inclusive="neither", hint="use level=0.95")
    assert type(level) is float
    assert level == 0.5


@pytest.mark.parametrize("value", [20, np.int64(20), 20.0])
def test_integers_are_returned_as_ints(value: object) -> None:
    count = check_range("resamples", value, 20, integer=True, hint="use resamples=1000")
    assert type(count) is int
    assert count == 20


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, 1.0, np.float64(1.5), 2])
def test_numbers_outside_the_range_are_refused(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        check_range("level", value, 0, 1, inclusive="neither", hint="use level=0.95")
    assert str(caught.value) == f"level: expected a number between 0 and 1, got {value}; use level=0.95"


@pytest.mark.parametrize("value", [True, np.True_, "0.5", None, [0.5], 1j])
def test_values_that_are_no_numbers_are_refused(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        check_range("level", value, 0, 1, inclusive="neither", hint="use level=0.95")
    assert str(caught.value) == f"level: expected a number between 0 and 1, got '{value}'; use level=0.95"


@pytest.mark.parametrize("value", [0, 10, 1.5, True, "3", pytest.param(10**400, id="huge")])
def test_values_that_are_no_integer_in_the_range_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match="folds: expected an integer from 1 to 9, got "):
        check_range("folds", value, 1, 9, integer=True, hint="use folds=5")


@pytest.mark.parametrize(
    ("low", "high", "inclusive", "expected"),
    [
        (0, math.inf, "both", "a number of at least 0"),
        (0, math.inf, "neither", "a number above 0"),
        (-math.inf, 0.5, "both", "a number of at most 0.5"),
        (-math.inf, 0.5, "left", "a number below 0.5"),
        (0, 1, "both", "a number from 0 to 1"),
        (0, 1, "left", "a number of at least 0 and below 1"),
        (0, 1, "right", "a number above 0 and at most 1"),
        (0, MAX_SEED, "both", "a number from 0 to 2^64 - 1"),
        (-math.inf, math.inf, "both", "a number"),
    ],
)
def test_the_message_states_the_range(low: float, high: float, inclusive: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_range("p", math.nan, low, high, inclusive=inclusive, hint="use p=0.1")
    assert str(caught.value) == f"p: expected {expected}, got nan; use p=0.1"


@pytest.mark.parametrize(
    ("inclusive", "accepted"), [("both", {0, 1}), ("left", {0}), ("right", {1}), ("neither", set())]
)
def test_inclusive_names_the_ends_that_belong_to_the_range(inclusive: str, accepted: set[int]) -> None:
    for value in (0, 1):
        if value in accepted:
            assert check_range("p", value, 0, 1, inclusive=inclusive, hint="use p=0.1") == value
        else:
            with pytest.raises(UsageError):
                check_range("p", value, 0, 1, inclusive=inclusive, hint="use p=0.1")


def test_a_known_choice_is_returned() -> None:
    assert check_choice("rule", "any", ("all", "any")) == "any"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Any", "rule: expected 'all', 'any' or 'none', got 'Any'; did you mean 'any'?"),
        (7, "rule: expected 'all', 'any' or 'none', got '7'; choose from all, any, none"),
        (["any"], "rule: expected 'all', 'any' or 'none', got '['any']'; did you mean 'any'?"),
    ],
)
def test_an_unknown_choice_is_refused_with_the_closest_one(value: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_choice("rule", value, ("all", "any", "none"))
    assert str(caught.value) == message


def test_a_long_list_of_choices_is_left_to_the_hint() -> None:
    with pytest.raises(UsageError, match="metric: expected a known metric, got 'q'; choose from a, b, c, d, e, f, g"):
        check_choice("metric", "q", list("gfedcba"))


def test_a_hint_replaces_the_closest_choice() -> None:
    with pytest.raises(UsageError, match="rule: expected 'all', got 'al'; use rule='all'"):
        check_choice("rule", "al", ("all",), hint="use rule='all'")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"low": 1, "high": 5, "integer": True}, "an integer from 1 to 5"),
        ({"low": 1}, "a number of at least 1"),
        ({"high": 0.5, "inclusive": "neither"}, "a number below 0.5"),
        ({"low": 0, "high": 1, "inclusive": "right"}, "a number above 0 and at most 1"),
        ({}, "a number"),
    ],
)
def test_ranges_in_words(limits: dict, text: str) -> None:
    assert range_text(**{"low": -math.inf, "high": math.inf} | limits) == text
