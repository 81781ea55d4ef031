"""The law of sums with known moments: against exact laws, SciPy's Pearson III, and simulation."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm, pearson3

from calibrant.calibration.null_mean import p_value, quantile, tails


@pytest.mark.parametrize("skewness", [-1.5, -0.2, 0.01, 0.4, 2.0])
@pytest.mark.parametrize("x", [-3.0, -0.7, 0.0, 1.1, 4.0])
def test_tails_are_those_of_pearsons_third_law(x, skewness):
    lower, upper = tails(x, skewness)
    law = pearson3(skewness)
    assert lower == pytest.approx(law.cdf(x), abs=1e-9)
    assert upper == pytest.approx(law.sf(x), abs=1e-9)
    assert lower + upper == pytest.approx(1.0)


def test_without_skewness_the_law_is_normal():
    assert tails(1.3, 0.0) == (norm.cdf(1.3), norm.sf(1.3))
    assert tails(1.3, 1.1e-3)[0] == pytest.approx(norm.cdf(1.3), abs=3e-4)


@pytest.mark.parametrize("skewness", [-0.8, 0.0, 0.8])
@pytest.mark.parametrize("share", [0.005, 0.5, 0.975])
def test_quantiles_invert_tails(share, skewness):
    assert tails(quantile(share, skewness), skewness)[0] == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize(("n", "p"), [(200, 0.01), (200, 0.5), (1000, 0.003), (60, 0.9)])
def test_the_sum_of_binary_outcomes_is_close_to_its_exact_law(n, p):
    """The two-sided p-value by the correction for continuity against twice the smaller exact tail."""
    variance, third = n * p * (1 - p), n * p * (1 - p) * (1 - 2 * p)
    for count in range(n + 1):
        exact = min(1.0, 2.0 * min(binom.cdf(count, n, p), binom.sf(count - 1, n, p)))
        if 1e-4 < exact < 0.2:
            assert p_value(count - n * p, variance, third, 1.0) == pytest.approx(exact, rel=0.2, abs=0.004)


def test_what_is_certain_and_false_is_impossible():
    assert p_value(1.0, 0.0, 0.0) == 0.0
    assert p_value(0.0, 0.0, 0.0) == 1.0
    assert p_value(math.inf, 1.0, 0.0) == 0.0
    assert math.isnan(p_value(math.nan, 1.0, 0.0))


def test_p_values_of_rare_events_keep_their_level():
    """At most 0.2% of sums of rare events have p ≤ 0.002; without their skewness it would be over 0.4%."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.2, 12.0, 300)
    variance = p * (1 - p)
    v, third = variance.sum(), (variance * (1 - 2 * p)).sum()
    totals = (rng.random((20_000, 300)) < p).sum(1) - p.sum()
    rejected = np.mean([p_value(t, v, third, 1.0) <= 0.002 for t in totals])
    assert rejected <= 0.002 + 3 * math.sqrt(0.002 * 0.998 / 20_000)
    assert np.mean([p_value(t, v, 0.0) <= 0.002 for t in totals]) > 0.004
