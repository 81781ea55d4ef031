"""Accuracy versus uncertainty: plain loops, soft errors, and rows that lie on a threshold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.detection import accuracy_uncertainty as au
from calibrant.kernels.loops.resampling import POISSON_WORDS
from calibrant.kernels.philox import words

CLOSE = 1e-12
NAN = math.nan


def problem(n=200, seed=0, decimals=17, soft=False):
    rng = np.random.default_rng(seed)
    u = np.round(rng.gamma(2.0, size=n), decimals)
    e = rng.random(n) if soft else (rng.random(n) < u / (1 + u)).astype(float)
    return u, e


def counted(threshold, u, e, w=None):
    """AC, AU, IC, IU one row at a time."""
    cells = [0.0, 0.0, 0.0, 0.0]
    for i in range(len(u)):
        weight = 1.0 if w is None else w[i]
        uncertain = int(u[i] > threshold)
        cells[uncertain] += weight * (1 - e[i])
        cells[2 + uncertain] += weight * e[i]
    return cells


def shares(ac, au, ic, iu):
    return (
        (ac + iu) / (ac + au + ic + iu),
        ac / (ac + ic) if ac + ic else NAN,
        iu / (ic + iu) if ic + iu else NAN,
    )


def curve_of(u, e, w=None):
    thresholds = [u.min() + t / 20 * (u.max() - u.min()) for t in range(20)] + [u.max()]
    return thresholds, np.array([shares(*counted(t, u, e, w)) for t in thresholds])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_plain_loops_agree(soft, weighted):
    u, e = problem(soft=soft)
    w = np.random.default_rng(3).exponential(size=len(u)) if weighted else None
    got = au.avu_curves(u, e, w)
    thresholds, expected = curve_of(u, e, w)
    np.testing.assert_allclose(got.threshold, thresholds, atol=CLOSE)
    np.testing.assert_allclose(np.stack(got[2:], axis=1), expected, atol=CLOSE)
    assert au.avu_auc(u, e, w) == pytest.approx(np.trapezoid(expected[:, 0], got.level), abs=CLOSE)
    assert np.average(au.avu_auc_rows(u, e, w), weights=w) == pytest.approx(au.avu_auc(u, e, w), abs=CLOSE)
    cells = au.cells_at(got.threshold[7], u, e, w)
    np.testing.assert_allclose(cells, counted(got.threshold[7], u, e, w), atol=1e-10)
    assert au.avu(cells) == pytest.approx(expected[7, 0], abs=CLOSE)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 3)), min_size=1, max_size=12)
)
@settings(max_examples=150, deadline=None)
def test_ties_weights_and_shifts(rows):
    """Whole numbers: thresholds are exact. Weights are repeated rows, and a rising line through u changes nothing."""
    u, e, w = (np.array(x, float) for x in zip(*rows, strict=True))
    k = w.astype(int)
    if k.any():
        repeated = au.avu_curves(np.repeat(u, k), np.repeat(e, k))
        np.testing.assert_allclose(au.avu_curves(u, e, w), repeated, atol=CLOSE)
        np.testing.assert_allclose(au.avu_curves(u, e, 1e-9 * w)[2:], repeated[2:], atol=CLOSE)
    got = au.avu_curves(u, e)
    np.testing.assert_allclose(np.stack(got[2:], axis=1), curve_of(u, e)[1], atol=CLOSE)
    np.testing.assert_allclose(au.avu_curves(0.1 * u + 0.7, e)[2:], got[2:], atol=CLOSE)
    assert au.avu_auc_rows(u, e).mean() == pytest.approx(au.avu_auc(u, e), abs=CLOSE)


def test_a_row_on_a_threshold_is_certain_whatever_rounding_says():
    u = np.array([0.0, 1 - 7 / 10, 0.6])  # the second is more than 0.3
    np.testing.assert_array_equal(au.avu_curves(u, np.zeros(3)).avu[9:11], [1 / 3, 2 / 3])


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("with_units", [False, True])
def test_order_of_rows_changes_no_bit(soft, with_units):
    u, e = problem(301, 2, 1, soft)
    w = np.round(np.random.default_rng(0).exponential(size=301), 1)
    units = np.arange(301) // 7 if with_units else None
    t = au.default_threshold(u, e, w)
    curves = au.avu_curves(u, e, w)
    drawn = au.avu_replicates(u, e, w, units, threshold=t, replicates=9, seed=3)
    for seed in range(3):
        p = np.random.default_rng(seed).permutation(301)
        number = None if units is None else units[p]
        assert au.default_threshold(u[p], e[p], w[p]) == t
        np.testing.assert_array_equal(au.avu_curves(u[p], e[p], w[p]), curves)
        again = au.avu_replicates(
            u[p], e[p], w[p], number, threshold=t, replicates=9, seed=3, threads=1 + seed
        )  # fmt: skip
        np.testing.assert_array_equal(again, drawn)


@pytest.mark.parametrize("with_units", [False, True])
def test_replicates_are_values_of_poisson_weights(with_units):
    """The threshold and the range of uncertainties stay those of all rows."""
    u, e = problem(157, 4, 1)
    order = np.lexsort((e, u))
    units = np.arange(157) % 40 if with_units else None
    got = au.avu_replicates(u, e, None, units, threshold=1.5, replicates=5, seed=11)
    rows = au.avu_auc_rows(u, e)[order]
    for r in range(5):
        counts = (words(11, au.ACCURACY_UNCERTAINTY, r, 40 if with_units else 157)[:, None] >= POISSON_WORDS).sum(1)
        counts = counts[units[order]] if with_units else counts
        expected = shares(*counted(1.5, u[order], e[order], counts))
        assert got[r] == pytest.approx((*expected, np.average(rows, weights=counts)), abs=CLOSE)


def test_default_threshold_lies_between_the_averages():
    u, e, w = np.array([1.0, 3.0, 10.0]), np.array([0.0, 0.0, 1.0]), np.array([3.0, 1.0, 5.0])
    assert au.default_threshold(u, e) == pytest.approx(6.0)
    assert au.default_threshold(u, e, w) == pytest.approx((1.5 + 10) / 2)
    assert au.default_threshold(u, np.array([0.5, 0.0, 1.0])) == pytest.approx((3.5 / 1.5 + 10.5 / 1.5) / 2)
    assert au.default_threshold(u, np.zeros(3)) == pytest.approx(14 / 3)
    assert au.default_threshold(u, np.ones(3)) == pytest.approx(14 / 3)
    assert math.isnan(au.default_threshold(u, e, np.zeros(3)))


# ------------------------------------------------------------------------------------------ degenerate
def test_no_errors_and_all_errors():
    u = np.array([0.0, 1.0, 2.0])
    none, every = au.avu_curves(u, np.zeros(3)), au.avu_curves(u, np.ones(3))
    assert np.isnan(none.p_uncertain_inaccurate).all()
    np.testing.assert_array_equal(none.p_accurate_certain, np.ones(21))
    np.testing.assert_array_equal(every.p_accurate_certain, np.zeros(21))
    np.testing.assert_allclose(none.avu + every.avu, np.ones(21), atol=CLOSE)
    assert every.p_uncertain_inaccurate[-1] == 0.0


def test_no_row_is_certain():
    cells = au.cells_at(-1.0, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert cells == (0, 1, 0, 1)
    assert math.isnan(au.p_accurate_certain(cells))
    assert (float(au.avu(cells)), float(au.p_uncertain_inaccurate(cells))) == (0.5, 1.0)
    drawn = au.avu_replicates(
        np.array([0.0, 1.0]), np.array([0.0, 1.0]), None, None, threshold=-1.0, replicates=4, seed=0
    )
    assert np.isnan(drawn[:, 1]).all()


@pytest.mark.parametrize("u", [[0.0], [3.0, 3.0, 3.0, 3.0]])
def test_equal_uncertainties_give_the_accuracy(u):
    e = np.arange(len(u)) % 4 / 4
    assert au.avu_auc(np.array(u), e) == pytest.approx(1 - e.mean(), abs=CLOSE)
    np.testing.assert_array_equal(au.avu_curves(np.array(u), e).threshold, np.full(21, u[0]))


def test_undefined_without_weight_and_without_a_finite_range():
    u, e = np.array([0.0, 1.0, math.inf]), np.array([0.0, 0.0, 1.0])
    assert math.isnan(au.avu_auc(u, e))
    assert np.isnan(au.avu_auc_rows(u, e)).all()
    assert float(au.avu(au.cells_at(1.0, u, e))) == 1.0
    assert au.avu_auc(u, e, np.array([1.0, 1.0, 0.0])) == pytest.approx(au.avu_auc(u[:2], e[:2]))
    for w, n in ((np.zeros(3), 3), (None, 0)):
        assert math.isnan(au.avu_auc(u[:n], e[:n], w))
        assert math.isnan(au.avu(au.cells_at(1.0, u[:n], e[:n], w)))
        assert np.isnan(au.avu_replicates(u[:n], e[:n], w, None, threshold=1.0, replicates=2, seed=0)).all()


def test_a_threshold_may_lie_below_zero():
    """Energies are negative: a threshold among them is meant, not the one that is chosen by default."""
    rng = np.random.default_rng(0)
    z, labels = rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
    got = cal.measure(cal.Classification.from_logits(z, labels), "avu(score=energy,threshold=-2.5)")
    energy, wrong = -np.log(np.exp(z).sum(axis=1)), z.argmax(axis=1) != labels
    assert list(got.values()) == pytest.approx([((energy > -2.5) == wrong).mean()])
