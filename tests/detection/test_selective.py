"""Risk and coverage: plain loops over orders, integrals by quadrature, and the best order."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma

from calibrant.detection.selective import Areas, aac, aurc, e_aurc, rejection_curve, selective_areas
from calibrant.kernels.loops.detection import harmonic_step

CLOSE = 1e-12


def problem(n=400, seed=0, decimals=1, soft=False):
    rng = np.random.default_rng(seed)
    u = np.round(rng.random(n), decimals)
    e = rng.random(n) * u if soft else (rng.random(n) < 0.1 + 0.5 * u).astype(float)
    return u, e


def in_order(e):
    """The definition, for rows that are in order."""
    return float(np.mean(np.cumsum(e) / np.arange(1, len(e) + 1)))


def over_all_orders(u, e):
    """Its mean over every order of the rows in which u rises."""
    orders = [p for p in permutations(range(len(u))) if all(u[a] <= u[b] for a, b in pairwise(p))]
    return float(np.mean([in_order(e[list(p)]) for p in orders]))


rows = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.25, 1.0]), st.integers(0, 3)), min_size=1, max_size=12
)


def arrays(given_rows):
    u, e, w = map(np.array, zip(*given_rows, strict=True))
    return u.astype(float), e.astype(float), w.astype(float)


# ------------------------------------------------------------------------------------------ definitions
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.3, 1.0])), min_size=1, max_size=5))
@settings(max_examples=80, deadline=None)
def test_ties_are_averaged_over_all_orders(given_rows):
    u, e = map(np.array, zip(*given_rows, strict=True))
    assert aurc(u, e) == pytest.approx(over_all_orders(u, e), abs=CLOSE)
    best = min(in_order(e[list(p)]) for p in permutations(range(len(e))))
    assert e_aurc(u, e) == pytest.approx(aurc(u, e) - best, abs=CLOSE)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("n", [1, 2, 30, 5000])
def test_without_ties_it_is_the_definition(n, soft):
    u, e = problem(n, n, 17, soft)
    got = selective_areas(u, e)
    assert got.aurc == pytest.approx(in_order(e[np.argsort(u)]), abs=CLOSE)
    assert got.e_aurc == pytest.approx(got.aurc - in_order(np.sort(e)), abs=CLOSE)
    assert got == (got.aurc, e_aurc(u, e), aac(u, e))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [0, 1, 17])
def test_aac_is_the_area_above_the_curve(decimals, weighted):
    """A fine trapezoid over the curve; its first piece, from nothing kept, is flat within the first tie."""
    u, e = problem(60, 3, decimals, True)
    w = np.random.default_rng(1).exponential(size=60) if weighted else None
    rejected, accuracy = rejection_curve(u, e, w, 200_001)
    assert aac(u, e, w) == pytest.approx(np.trapezoid(1 - accuracy, rejected), abs=1e-7)
    assert accuracy[0] == pytest.approx(1 - np.average(e, weights=w), abs=CLOSE)
    first = u == u.min()
    assert accuracy[-1] == pytest.approx(1 - np.average(e[first], weights=None if w is None else w[first]), abs=CLOSE)


def test_curve_at_whole_rows_is_the_accuracy_of_those_kept():
    u, e = problem(50, 2, 17)
    rejected, accuracy = rejection_curve(u, e, None, 51)
    kept = e[np.argsort(u)]
    np.testing.assert_allclose(rejected[:50], np.arange(50) / 50, atol=CLOSE)
    np.testing.assert_allclose(accuracy[:50], [1 - kept[:k].mean() for k in range(50, 0, -1)], atol=CLOSE)


def test_aurc_and_aac_meet_in_many_rows():
    gaps = [abs(selective_areas(*problem(n, 1, 17)).aurc - aac(*problem(n, 1, 17))) for n in (100, 10_000, 200_000)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0, 7.5, 15.9, 16.0, 200.25, 1e7])
@pytest.mark.parametrize("step", [1e-6, 0.01, 1.0, 2.0, 13.7, 1e4])
def test_harmonic_numbers_between_whole_ones(a, step):
    b = a + step
    expected = digamma(b + 1) - digamma(a + 1)
    assert harmonic_step(a, b) == pytest.approx(expected, rel=1e-13, abs=8e-15)


# ------------------------------------------------------------------------------------------ weights
@given(rows)
@settings(max_examples=100, deadline=None)
def test_integer_weights_are_repeated_rows_for_aac(given_rows):
    u, e, w = arrays(given_rows)
    k = w.astype(int)
    repeated = aac(np.repeat(u, k), np.repeat(e, k))
    assert aac(u, e, w) == pytest.approx(repeated, abs=CLOSE, nan_ok=True)
    assert aac(np.repeat(u, 2), np.repeat(e, 2)) == pytest.approx(aac(u, e), abs=CLOSE)


@given(rows, st.sampled_from([2.0, 1e-9, 0.1, 1e200]))
@settings(max_examples=100, deadline=None)
def test_the_unit_of_weights_does_not_matter(given_rows, unit):
    u, e, w = arrays(given_rows)
    assert selective_areas(u, e, unit * w) == pytest.approx(selective_areas(u, e, w), abs=CLOSE, nan_ok=True)
    assert selective_areas(u, e, np.full(len(u), unit)) == pytest.approx(selective_areas(u, e), abs=CLOSE)
    some = w > 0
    assert selective_areas(u[some], e[some], w[some]) == pytest.approx(selective_areas(u, e, w), abs=CLOSE, nan_ok=True)


def test_weighted_aurc_counts_effective_rows():
    """Masses scaled to n_eff; each row is a step of its own, by the digamma function."""
    u, e = problem(40, 9, 17)
    w = np.random.default_rng(2).exponential(size=40)
    order = np.argsort(u)
    mass = w[order] * w.sum() / (w**2).sum()
    assert mass.sum() == pytest.approx(w.sum() ** 2 / (w**2).sum())
    total = before = wrong = 0.0
    for m, x in zip(mass, e[order], strict=True):
        total += m * x + (wrong - before * x) * (digamma(before + m + 1) - digamma(before + 1))
        before, wrong = before + m, wrong + m * x
    assert aurc(u, e, w) == pytest.approx(total / before, abs=CLOSE)


# ------------------------------------------------------------------------------------------ order and bounds
@given(rows)
@settings(max_examples=150, deadline=None)
def test_bounds_and_rising_functions(given_rows):
    u, e, w = arrays(given_rows)
    for weights in (None, w if w.any() else None):
        got = selective_areas(u, e, weights)
        assert 0 <= got.e_aurc <= got.aurc + CLOSE <= 1 + 2 * CLOSE
        assert -CLOSE <= got.aac <= 1 + CLOSE
        assert selective_areas(np.exp(u), e, weights) == got
        assert selective_areas(e, e, weights).e_aurc == pytest.approx(0, abs=CLOSE)
        assert selective_areas(-e, e, weights).aurc >= got.aurc - CLOSE


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_order_of_rows_changes_no_bit(soft, weighted):
    u, e = problem(301, 2, 1, soft)
    w = np.round(np.random.default_rng(0).exponential(size=301), 1) if weighted else None
    whole, curve = selective_areas(u, e, w), rejection_curve(u, e, w)[1]
    for seed in range(3):
        p = np.random.default_rng(seed).permutation(301)
        one = None if w is None else w[p]
        assert selective_areas(u[p], e[p], one) == whole
        np.testing.assert_array_equal(rejection_curve(u[p], e[p], one)[1], curve)


# ------------------------------------------------------------------------------------------ degenerate
@pytest.mark.parametrize("u", [[0.0], [1.0, 1.0, 1.0], [0.0, 1.0, math.inf], [-math.inf, 2.0, 1.0, 0.0]])
def test_no_errors_and_all_errors(u):
    u = np.array(u)
    assert selective_areas(u, np.zeros(len(u))) == (0, 0, 0)
    assert selective_areas(u, np.ones(len(u))) == pytest.approx((1, 0, 1), abs=CLOSE)
    np.testing.assert_array_equal(rejection_curve(u, np.zeros(len(u)))[1], np.ones(101))
    np.testing.assert_allclose(rejection_curve(u, np.ones(len(u)))[1], np.zeros(101), atol=CLOSE)


def test_equal_uncertainties_are_a_flat_curve():
    e = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    got = selective_areas(np.full(5, 2.0), e)
    assert (got.aurc, got.aac) == pytest.approx((0.4, 0.4), abs=CLOSE)
    np.testing.assert_allclose(rejection_curve(np.full(5, 2.0), e, points=11)[1], np.full(11, 0.6), atol=CLOSE)


def test_by_hand():
    assert selective_areas(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == pytest.approx(
        Areas(0.25, 0.0, 0.5 - 0.5 * math.log(2)), abs=CLOSE
    )
    assert selective_areas(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(
        Areas(0.75, 0.5, 0.5 + 0.5 * math.log(2)), abs=CLOSE
    )


@pytest.mark.parametrize("w", [None, np.zeros(3)])
def test_without_weight_it_is_undefined(w):
    n = 0 if w is None else 3
    u, e = np.arange(float(n)), np.ones(n)
    assert all(math.isnan(x) for x in selective_areas(u, e, w))
    assert np.isnan(rejection_curve(u, e, w)[1]).all()
