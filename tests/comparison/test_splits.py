"""Halves of the rows: of the right size, by the seed, whole units, the same for every model."""

import numpy as np
import pytest

from calibrant.comparison.split_temperatures import splits_of
from calibrant.errors import UsageError


@pytest.mark.parametrize("n", [2, 3, 10, 1001])
def test_halves_are_halves(n):
    found = splits_of(n, repeats=7, seed=3)
    assert found.half.shape == (7, n)
    assert (found.half.sum(axis=1) == n - n // 2).all()
    assert found.to_json()["rows"] == [[n // 2, n - n // 2]] * 7


def test_splits_are_those_of_the_seed_and_differ_between_repeats():
    one, two, other = splits_of(100, seed=1), splits_of(100, seed=1), splits_of(100, seed=2)
    assert (one.half == two.half).all()
    assert (one.half != other.half).any()
    assert (one.half[0] != one.half[1]).any()


def test_the_first_repeats_do_not_depend_on_how_many_there_are():
    assert (splits_of(50, repeats=2).half == splits_of(50, repeats=9).half[:2]).all()


def test_pairs_of_rows_fall_into_one_half_as_often_as_they_should():
    """With random halves of n rows two rows share one with probability (n/2 − 1)/(n − 1)."""
    n, repeats = 10, 1000
    half = splits_of(n, repeats=repeats, seed=5).half
    together = np.mean([(half[:, i] == half[:, j]).mean() for i in range(n) for j in range(i)])
    assert together == pytest.approx((n / 2 - 1) / (n - 1), abs=1e-12)  # exact: it is the same in every repeat
    first = (half[:, 0] == half[:, 1]).mean()
    assert abs(first - 4 / 9) < 4 * np.sqrt(4 / 9 * 5 / 9 / repeats)


def test_units_stay_together():
    units = np.repeat(np.arange(20), 5)
    found = splits_of(100, units=units)
    for unit in range(20):
        assert (found.half[:, units == unit] == found.half[:, [5 * unit]]).all()
    assert found.by_units


@pytest.mark.parametrize(("n", "units"), [(0, None), (1, None), (5, np.zeros(5, int))])
def test_one_row_or_unit_cannot_be_split(n, units):
    with pytest.raises(UsageError, match="at least 2"):
        splits_of(n, units=units)


@pytest.mark.parametrize("repeats", [0, -1, 1.5, True, 10**6])
def test_repeats_are_whole_numbers(repeats):
    with pytest.raises(UsageError, match="repeats"):
        splits_of(10, repeats=repeats)
