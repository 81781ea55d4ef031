"""The variance of the gaps of bins: against the spread of residuals, the jackknife, and sums of whole units."""

import numpy as np
import pytest

from calibrant.calibration.binning import BinSums, UnitSums


def _table(p, y, w=None, bins=None, count=1):
    sums = BinSums(count)
    sums.add(p, y, w, np.zeros(len(p), np.int64) if bins is None else bins)
    return sums.table()


def test_the_variance_of_a_biased_bin_is_that_of_its_residuals():
    """Var(mean of d) = Var(d)/n, whatever the mean of d is: here a gap of −0.3."""
    rng, n = np.random.default_rng(0), 20_000
    p = rng.uniform(0.6, 0.9, n)
    y = (rng.random(n) < p - 0.3).astype(float)
    assert _table(p, y).variance()[0] == pytest.approx((y - p).var(ddof=1) / n, rel=1e-3)


def test_the_variance_of_weighted_bins_is_that_of_the_jackknife():
    """Of two bins with gaps of both signs; the share of a bin is taken as known."""
    rng, n = np.random.default_rng(1), 8000
    bins, w = rng.integers(0, 2, n), rng.exponential(size=n)
    p = np.where(bins == 0, 0.2, 0.7) + 0.2 * rng.random(n)
    y = (rng.random(n) < np.where(bins == 0, p + 0.3, p - 0.4)).astype(float)
    table = _table(p, y, w, bins, 2)
    for b in range(2):
        d, v = (y - p)[bins == b], w[bins == b]
        left_out = ((v * d).sum() - v * d) / (v.sum() - v)
        jackknife = (len(d) - 1) * left_out.var()
        assert table.variance()[b] == pytest.approx(jackknife * (v.sum() / w.sum()) ** 2, rel=0.01)


def test_two_rows_of_the_model_steady_a_bin_that_shows_no_spread():
    """n equal residuals and two rows of variance p(1 − p): (0 + 2p(1 − p))·n/(n + 2), over N²."""
    table = _table(np.full(6, 0.75), np.ones(6))
    assert table.variance()[0] == pytest.approx(2 * 0.75 * 0.25 * 6 / 8 / 36)


def _units(p, y, w, bins, units, count):
    sums = UnitSums(count)
    sums.add(p, y, w, bins, units)
    return sums.covariance(_table(p, y, w, bins, count))


@pytest.mark.parametrize("weight", [None, 2.0])
def test_the_covariance_of_units_is_the_unbiased_one_of_their_sums(weight):
    """Four units of three rows in each of two bins; p of 0 leaves nothing to steady."""
    rng, p = np.random.default_rng(2), np.zeros(24)
    bins, units = np.arange(24) % 2, np.arange(24) // 6
    y, w = rng.random(24), None if weight is None else np.full(24, weight)
    totals = np.stack([[y[(units == u) & (bins == b)].sum() for u in range(4)] for b in range(2)])
    expected = 4 * np.cov(totals, ddof=1) / 24**2
    assert _units(p, y, w, bins, units, 2) == pytest.approx(expected, rel=1e-12)


def test_the_covariance_of_few_units_is_unbiased_over_draws():
    """The mean over 4000 draws of three units is the true variance of the gap, without a model to steady it."""
    rng, units = np.random.default_rng(3), np.repeat(np.arange(3), 5)
    p, bins = np.zeros(15), np.zeros(15, np.int64)
    gaps, found = [], []
    for _ in range(4000):
        y = np.repeat(rng.normal(size=3), 5) + rng.normal(size=15)
        gaps.append(y.mean())
        found.append(_units(p, y, None, bins, units, 1)[0, 0])
    assert np.mean(found) == pytest.approx(np.var(gaps), rel=0.08)


@pytest.mark.parametrize("rows", [1, 4])
def test_two_units_of_the_model_steady_units_that_show_no_spread(rows):
    """A unit of r rows that go together has a sum of variance r²p(1 − p): twice that, over N²."""
    units = np.repeat(np.arange(3), rows)
    p, y = np.full(3 * rows, 0.8), np.ones(3 * rows)
    expected = 2 * rows**2 * 0.8 * 0.2 / (3 * rows) ** 2
    assert _units(p, y, None, np.zeros(3 * rows, np.int64), units, 1)[0, 0] == pytest.approx(expected)
