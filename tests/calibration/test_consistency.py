"""Redrawn labels of nearly certain rows, which are drawn together: against exact binomial sums."""

import numpy as np
import pytest
from scipy import stats

from calibrant.calibration import consistency
from calibrant.calibration.binning import BinSums
from calibrant.calibration.consistency import ConsistencyRows

N, Q, REPLICATES = 4000, 2.0**-11, 20_000


@pytest.fixture
def gaps(monkeypatch):
    """Σ w(hit − p) (replicates, bins) of rows of which the nearly certain are drawn together."""

    def draw(p, w, bins, count):
        monkeypatch.setattr(consistency, "NORMAL_ABOVE", 100)
        rows, sums = ConsistencyRows(count), BinSums(count)
        rows.add(p, w, bins)
        sums.add(p, (p > 0.5).astype(float), w, bins)
        return rows.gaps(sums.table(), REPLICATES, 5, 1) * (len(p) if w is None else w.sum())

    return draw


@pytest.mark.parametrize(("p", "sign"), [(Q, 1.0), (1.0 - Q, -1.0)])
def test_nearly_certain_rows_have_the_law_of_their_number_of_events(gaps, p, sign):
    """Near 0 the events are hits, which raise the gap; near 1 they are misses, which lower it."""
    events = sign * gaps(np.full(N, p), None, np.zeros(N, np.int64), 1)[:, 0] + N * Q
    assert events == pytest.approx(np.round(events), abs=1e-6)
    observed = np.bincount(np.round(events).astype(int), minlength=8)
    expected = stats.binom.pmf(np.arange(6), N, Q) * REPLICATES
    assert (np.abs(observed[:6] - expected) < 4 * np.sqrt(expected)).all()


def test_both_sides_of_a_bin_add_up(gaps):
    """Rows near 0 and near 1 in one bin: variances add, third moments cancel; a second bin stays as it is."""
    p = np.tile([Q, 1.0 - Q, 1.0 - Q], N)
    bins = np.tile([0, 0, 1], N)
    drawn = gaps(p, None, bins, 2)
    v = N * Q * (1.0 - Q)
    for b, variance, third in ((0, 2 * v, 0.0), (1, v, -v * (1.0 - 2.0 * Q))):
        assert drawn[:, b].mean() == pytest.approx(0.0, abs=4 * np.sqrt(variance / REPLICATES))
        assert drawn[:, b].var() == pytest.approx(variance, rel=0.06)
        assert (drawn[:, b] ** 3).mean() == pytest.approx(third, abs=0.5)


@pytest.mark.parametrize("p", [Q, 1.0 - Q])
def test_weights_scale_the_variance_by_their_squares(gaps, p):
    """Weights of 1 and 4: the variance is Σ w²q, not (Σ wq)²/Σq, which would be 26% less."""
    w = np.tile([1.0, 4.0], N // 2)
    drawn = gaps(np.full(N, p), w, np.zeros(N, np.int64), 1)[:, 0]
    variance = (w**2).sum() * Q * (1.0 - Q)
    assert drawn.mean() == pytest.approx(0.0, abs=4 * np.sqrt(variance / REPLICATES))
    assert drawn.var() == pytest.approx(variance, rel=0.06)


def test_other_rows_of_a_thin_bin_are_drawn_beside_them(gaps):
    """Forty uncertain rows and many nearly certain ones: the variance is Σ p(1 − p) of all."""
    p = np.concatenate([np.full(40, 0.7), np.full(N, 1.0 - Q)])
    drawn = gaps(p, None, np.zeros(len(p), np.int64), 1)[:, 0]
    assert drawn.var() == pytest.approx((p * (1.0 - p)).sum(), rel=0.05)
    assert drawn.mean() == pytest.approx(0.0, abs=4 * np.sqrt(drawn.var() / REPLICATES))


def test_a_well_filled_bin_is_normal_with_the_same_variance(gaps):
    p, w = np.full(N, 0.3), np.tile([1.0, 3.0], N // 2)
    drawn = gaps(p, w, np.zeros(N, np.int64), 1)[:, 0]
    assert drawn.var() == pytest.approx((w**2).sum() * 0.21, rel=0.05)
    assert stats.kstest(drawn / drawn.std(), "norm").pvalue > 1e-3
