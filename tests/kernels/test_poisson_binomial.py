"""The law of a number of hits against enumeration, the binomial law, and itself in parts."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.checks.distributions import pmf, share_law
from calibrant.kernels.poisson_binomial import laws_of_runs


def full(p):
    """P(hits = h), h = 0 … N."""
    first, law = pmf(p)
    out = np.zeros(len(p) + 1)
    out[first : first + len(law)] = law
    return out


def enumerated(p):
    out = np.zeros(len(p) + 1)
    for hits in itertools.product((0, 1), repeat=len(p)):
        out[sum(hits)] += np.prod(np.where(hits, p, 1 - np.asarray(p)))
    return out


@pytest.mark.parametrize("n", range(13))
def test_it_equals_enumeration(n):
    p = np.random.default_rng(n).beta(0.4, 0.4, n)
    np.testing.assert_allclose(full(p), enumerated(p), rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("p", [1e-6, 0.003, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("n", [31, 32, 33, 64, 1000, 10_000])
def test_equal_chances_give_the_binomial_law(n, p):
    assert np.abs(full(np.full(n, p)) - binom.pmf(np.arange(n + 1), n, p)).max() < 1e-13


def test_moments_of_a_million_rows():
    p = np.random.default_rng(0).random(1_000_000)
    first, law = pmf(p)
    hits = first + np.arange(len(law))
    mean = (law * hits).sum()
    assert law.sum() == pytest.approx(1, abs=1e-10)
    assert mean == pytest.approx(p.sum(), rel=1e-10)
    assert (law * (hits - mean) ** 2).sum() == pytest.approx((p * (1 - p)).sum(), rel=1e-8)
    assert len(law) < 20 * np.sqrt((p * (1 - p)).sum())


@pytest.mark.parametrize("n", [1, 5, 32, 100, 1000])
def test_certain_rows_are_counted_and_no_more(n):
    for chance in (0.0, 1.0):
        first, law = pmf(np.full(n, chance))
        assert first == chance * n
        assert law.tolist() == [1.0]
    some = np.random.default_rng(n).random(40)
    mixed = np.concatenate([np.ones(n), some, np.zeros(n)])
    first, law = pmf(np.random.default_rng(1).permutation(mixed))
    alone, law_alone = pmf(some)
    ahead = np.zeros(2 * n + 41)
    ahead[first : first + len(law)] = law
    expected = np.zeros_like(ahead)
    expected[n + alone : n + alone + len(law_alone)] = law_alone
    np.testing.assert_allclose(ahead, expected, atol=1e-15)


def test_chances_that_are_off_by_rounding_are_put_back():
    p = np.array([1 + 1e-7, 0.5, -1e-9, 1.0], np.float32)
    first, law = pmf(p)
    assert (first, law.tolist()) == (2, [0.5, 0.5])


def test_no_rows_have_no_hits():
    assert [x.tolist() if hasattr(x, "tolist") else x for x in pmf(np.empty(0))] == [0, [1.0]]


def test_runs_are_laws_of_their_own():
    rng = np.random.default_rng(0)
    p, edges = rng.random(500), np.array([0, 0, 1, 34, 34, 400, 500])
    runs = laws_of_runs(p, edges)
    for g, (a, b) in enumerate(itertools.pairwise(edges.tolist())):
        first, law = pmf(p[a:b])
        assert (runs.least[g], runs.law(g).tolist()) == (first, law.tolist())


def test_a_share_mixes_the_members_and_ties_with_what_came_true():
    p = np.stack([np.full(7, 0.2), np.full(7, 0.9)])
    law = share_law(5.0, 7, p)
    expected = (binom.pmf(np.arange(8), 7, 0.2) + binom.pmf(np.arange(8), 7, 0.9)) / 2
    np.testing.assert_allclose(law.probability, expected, atol=1e-15)
    assert law.observed in law.values
    assert np.isnan(share_law(0.0, 0, np.empty((2, 0))).observed)


def test_threads_change_no_bit():
    p = np.random.default_rng(0).random((4, 6000))
    one, two = (share_law(0.0, 6000, p, threads) for threads in (1, 3))
    assert one.values.tolist() == two.values.tolist()
    assert one.probability.tolist() == two.probability.tolist()
