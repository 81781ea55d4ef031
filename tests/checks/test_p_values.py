"""One check: p-values of replicates and of laws, against their definitions and against each other."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant.checks.distributions import Lattice, Mixture, Replicates
from calibrant.checks.p_values import check_against, nearest_member
from calibrant.results.check import Check

NUMBERS = st.integers(-5, 5).map(float)


@given(st.lists(NUMBERS, min_size=1, max_size=40), NUMBERS, st.floats(0.0, 1.0))
def test_p_values_are_their_definitions(values, observed, place):
    found = check_against(Replicates(observed, np.array(values)), 7, place)
    below, ties, n = sum(v < observed for v in values), sum(v == observed for v in values), len(values)
    assert found.p_value == below / n
    assert found.mid_p == pytest.approx((below + ties / 2) / n)
    assert found.two_sided == pytest.approx(min(1, 2 * min(found.mid_p, 1 - found.mid_p)))
    assert found.randomised == pytest.approx((below + place * (ties + 1)) / (n + 1))
    assert found.passed_range == (min(values) <= observed <= max(values))
    assert found.passed_interval == (np.quantile(values, 0.025) <= observed <= np.quantile(values, 0.975))
    assert found.sharpness == pytest.approx(np.quantile(values, 0.95) - np.quantile(values, 0.05))
    assert (found.draws, found.n, found.undefined) == (n, 7, 0)
    assert 0 < found.se <= 0.5 / math.sqrt(n) + 1e-12


def test_the_randomised_p_is_uniform_where_observed_and_replicates_are_exchangeable():
    rng = np.random.default_rng(0)
    p = [
        check_against(Replicates(x[0], x[1:]), 1, rng.random()).randomised
        for x in rng.integers(0, 4, (4000, 20)).astype(float)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_the_monte_carlo_error_is_that_of_repeated_draws():
    rng = np.random.default_rng(1)
    found = [check_against(Replicates(0.7, rng.normal(size=200)), 1, 0.5) for _ in range(400)]
    assert np.std([c.mid_p for c in found]) == pytest.approx(np.mean([c.se for c in found]), rel=0.15)


def test_a_lattice_is_the_limit_of_its_draws():
    rng = np.random.default_rng(2)
    values, probability = np.arange(11) / 10, stats.binom(10, 0.3).pmf(np.arange(11))
    exact = check_against(Lattice(0.5, values, probability), 10, 0.25)
    drawn = check_against(Replicates(0.5, rng.choice(values, 200_000, p=probability)), 10, 0.25)
    for name in ("p_value", "mid_p", "two_sided", "mean", "sd", "randomised"):
        assert getattr(exact, name) == pytest.approx(getattr(drawn, name), abs=0.006)
    for name in ("q025", "q05", "q25", "q50", "q75", "q95", "q975"):
        assert getattr(exact, name) == pytest.approx(getattr(drawn, name))
    assert (exact.draws, exact.method, exact.se) == ("exact", "exact", 0.0)


def test_values_of_a_lattice_that_differ_by_rounding_are_ties():
    third = np.array([0.0, 0.1 + 0.2, 1.0])
    found = check_against(Lattice(0.3, third, np.array([0.25, 0.5, 0.25])), 3, 0.5)
    assert found.p_value == pytest.approx(0.25)
    assert found.mid_p == pytest.approx(0.5)


def test_a_mixture_follows_skewed_sums():
    """The mean of 60 exponentials, of two scales: the corrected normal is within 0.003 of the gamma law."""
    n, scales = 60, np.array([1.0, 1.3])
    law = Mixture(1.1, scales, scales / math.sqrt(n), np.full(2, 2 / math.sqrt(n)))
    truth = np.mean([stats.gamma(n, scale=scale / n).cdf(1.1) for scale in scales])
    assert check_against(law, n, 0.5).p_value == pytest.approx(truth, abs=0.003)
    plain = check_against(Mixture(1.1, law.mean, law.sd, np.zeros(2)), n, 0.5).p_value
    assert abs(plain - truth) > abs(check_against(law, n, 0.5).p_value - truth)
    for level, name in ((0.05, "q05"), (0.5, "q50"), (0.975, "q975")):
        found = getattr(check_against(law, n, 0.5), name)
        assert np.mean([stats.gamma(n, scale=s / n).cdf(found) for s in scales]) == pytest.approx(level, abs=0.004)


def test_a_mixture_without_spread_is_single_values():
    law = Mixture(2.0, np.array([1.0, 2.0, 2.0, 3.0]), np.zeros(4), np.zeros(4))
    found = check_against(law, 5, 0.5)
    assert (found.p_value, found.mid_p) == (0.25, 0.5)
    assert found.passed_interval
    assert found.passed_range


def test_replicates_without_a_value_are_left_out_and_counted():
    found = check_against(Replicates(1.0, np.array([0.0, np.nan, 2.0, np.nan])), 3, 0.5)
    assert (found.undefined, found.p_value, found.draws) == (2, 0.5, 4)


@pytest.mark.parametrize("law", [
    Replicates(math.nan, np.arange(3.0)),
    Replicates(1.0, np.full(3, np.nan)),
    Lattice(math.nan, np.arange(2.0), np.full(2, 0.5)),
    Mixture(1.0, np.array([np.nan]), np.array([np.nan]), np.array([0.0])),
])  # fmt: skip
def test_what_has_no_value_has_no_verdict(law):
    found = check_against(law, 3, 0.5)
    assert math.isnan(found.p_value)
    assert found.passed_range is found.passed_interval is None
    assert found.surprise() == "undefined"
    assert Check.from_json(found.to_json()).to_json() == found.to_json()


def test_an_infinite_value_is_above_all_replicates():
    found = check_against(Replicates(math.inf, np.arange(5.0)), 5, 0.5)
    assert found.p_value == 1.0
    assert found.surprise() == found.surprise("range") == "higher"
    stored = found.to_json()
    assert (stored["observed"], stored["status"]) == (None, "infinite")
    assert Check.from_json(stored) == found


def test_the_p_value_for_many_groups_is_never_zero():
    found = check_against(Replicates(9.0, np.arange(5.0)), 5, 0.5)
    assert found.two_sided == 0.0
    assert found.test_p == pytest.approx(math.erfc((9.0 - 2.0) / math.sqrt(2.0) / math.sqrt(8.0)))
    near = check_against(Replicates(4.5, np.arange(5.0)), 5, 0.5)
    assert near.test_p == pytest.approx(2 / 6)
    assert check_against(Replicates(math.inf, np.arange(5.0)), 5, 0.5).test_p == 0.0


@pytest.mark.parametrize("law", [stats.norm(), stats.expon(), stats.gumbel_r(), stats.logistic()])
def test_the_p_value_far_beyond_all_replicates_is_no_smaller_than_that_of_an_exponential_tail(law):
    """Down to the levels at which a family of some dozens of statistics decides."""
    for away in np.arange(5.2, 30.0, 0.1):
        bound = math.erfc(away / math.sqrt(8.0))
        assert bound >= law.sf(law.mean() + away * law.std()) or bound < 5e-4


def test_a_value_between_the_members_is_told():
    """Two members expect 0 and 10; 5 lies within the replicates, and neither expects it."""
    rng = np.random.default_rng(3)
    source = np.arange(400) % 2
    values = 10.0 * source + rng.normal(size=400)
    for observed, distance in ((5.0, 5.0), (0.5, 0.5), (12.0, 2.0)):
        law = Replicates(observed, values)
        assert nearest_member(law, source, 2) == pytest.approx(distance, rel=0.15)
        found = dataclasses.replace(check_against(law, 1, 0.5), nearest=nearest_member(law, source, 2))
        assert found.between == (observed == 5.0)
    exact = Mixture(5.0, np.array([0.0, 10.0]), np.ones(2), np.zeros(2))
    assert nearest_member(exact, source, 2) == 5.0
    assert math.isnan(nearest_member(Replicates(5.0, values[:10]), source[:10], 2))
    assert math.isnan(nearest_member(Replicates(5.0, values), source, 1))


@pytest.mark.parametrize("k", [1, 2, 3, 5, 12, 50])
def test_a_law_by_moments_is_no_further_off_than_it_says(k):
    """The sum of the squares of k normals, over the whole range of its values."""
    law, truth = (
        Mixture(0.0, np.array([1.0]), np.array([math.sqrt(2 / k)]), np.array([math.sqrt(8 / k)])),
        stats.chi2(k),
    )
    for x in np.linspace(0.01, 4.0, 200):
        found = check_against(dataclasses.replace(law, observed=float(x)), k, 0.5)
        assert abs(found.p_value - truth.cdf(k * x)) <= found.se + 1e-9
