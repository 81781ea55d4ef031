"""The effective number of rows of a share in dependent units: Korn & Graubard's, against SciPy and by coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from calibrant.intervals import wilson
from calibrant.registry.state.accumulators import Moments


def moments_of(hits, units):
    moments = Moments()
    moments.add(np.asarray(hits, float), None, np.asarray(units))
    return moments


@pytest.mark.parametrize("units", [3, 8, 40])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_few_units_count_less_by_the_square_of_z_over_t(units, level):
    """p(1 − p)/se² with the unbiased variance of unit means, times (z/t)² of units − 1 degrees."""
    rng, rows = np.random.default_rng(units), 20
    hits = rng.random((units, rows)) < rng.beta(2, 2, (units, 1))
    share, error = hits.mean(), hits.mean(axis=1).std(ddof=1) / math.sqrt(units)
    ratio = stats.norm.ppf(0.5 + level / 2) / stats.t.ppf(0.5 + level / 2, units - 1)
    found = moments_of(hits.ravel(), np.repeat(np.arange(units), rows)).effective_n(level)
    assert found == pytest.approx(share * (1 - share) / error**2 * ratio**2, rel=1e-9)


def test_units_without_spread_count_once_each():
    ratio = stats.norm.ppf(0.975) / stats.t.ppf(0.975, 5)
    found = moments_of(np.ones(30), np.repeat(np.arange(6), 5)).effective_n(0.95)
    assert found == pytest.approx(6 * ratio**2)


def test_units_that_even_out_count_no_more_than_their_rows():
    """Nine of ten units have two hits in four: their means spread less than those of independent rows would."""
    hits = np.tile([1, 0, 1, 0], 10)
    hits[0] = 0
    ratio = stats.norm.ppf(0.975) / stats.t.ppf(0.975, 9)
    assert moments_of(hits, np.repeat(np.arange(10), 4)).effective_n(0.95) == pytest.approx(40 * ratio**2)


def test_one_unit_has_no_effective_number():
    assert math.isnan(moments_of([1, 0, 1], [0, 0, 0]).effective_n(0.95))


def test_the_interval_of_a_share_in_six_units_covers():
    """By z instead of t it would cover 0.89 of the time."""
    rng, hits, many = np.random.default_rng(6), 0, 2000
    for _ in range(many):
        shares = rng.beta(6, 4, 6)
        moments = moments_of(rng.random((6, 50)).ravel() < np.repeat(shares, 50), np.repeat(np.arange(6), 50))
        interval = wilson(moments.mean(), moments.effective_n(0.95), 0.95)
        hits += interval.low <= 0.6 <= interval.high
    assert hits / many == pytest.approx(0.95, abs=0.015)
