"""Statistics of uniform numbers and their laws, beside SciPy and plain loops."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from calibrant.calibration.uniformity import TESTS, anderson_darling_exceeds, cramer_von_mises_exceeds


@pytest.fixture(scope="module")
def samples():
    return np.sort(np.random.default_rng(0).random((300, 100)), axis=1)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_statistics_are_those_of_scipy_and_of_a_loop(n):
    u = np.sort(np.random.default_rng(n).random(n))
    assert TESTS["ks"].statistic(u) == pytest.approx(stats.kstest(u, "uniform").statistic, abs=1e-14)
    if n > 1:
        assert TESTS["cvm"].statistic(u) == pytest.approx(stats.cramervonmises(u, "uniform").statistic, abs=1e-13)
    total = sum((2 * i + 1) * (math.log(u[i]) + math.log(1 - u[n - 1 - i])) for i in range(n))
    assert TESTS["ad"].statistic(u) == pytest.approx(-n - total / n, rel=1e-12)


def test_p_values_are_near_those_of_scipy(samples):
    for u in samples[:40]:
        ours = {name: test.p_value(test.statistic(u), 100) for name, test in TESTS.items()}
        exact = stats.kstest(u, "uniform").pvalue
        assert ours["ks"] == pytest.approx(exact, abs=0.002 if exact < 0.1 else 0.012)
        near = stats.cramervonmises(u, "uniform").pvalue
        assert ours["cvm"] == pytest.approx(near, abs=0.002 if near < 0.1 else 0.03)


@pytest.mark.parametrize(("point", "share"), [(0.347, 0.10), (0.461, 0.05), (0.743, 0.01), (1.168, 0.001)])
def test_limit_of_cramer_von_mises_has_its_tabled_points(point, share):
    """Anderson & Darling (1952), table 1."""
    assert cramer_von_mises_exceeds(point) == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(("point", "share"), [(1.933, 0.10), (2.492, 0.05), (3.857, 0.01)])
def test_limit_of_anderson_darling_has_its_tabled_points(point, share):
    """Anderson & Darling (1954), table 1; the last is printed a little low."""
    assert anderson_darling_exceeds(point) == pytest.approx(share, rel=0.03)


def test_laws_fall_from_one_to_nothing():
    for exceeds in (cramer_von_mises_exceeds, anderson_darling_exceeds):
        found = [exceeds(x) for x in np.linspace(0, 70, 300)]
        assert found[0] == 1.0
        assert found[-1] == 0.0
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(found))


@pytest.mark.parametrize("name", TESTS)
def test_level_is_held_and_quantiles_invert_the_law(name, samples):
    """300 simulations of n = 100: the share of p < 0.05 within three standard errors."""
    test = TESTS[name]
    p = np.array([test.p_value(test.statistic(u), 100) for u in samples])
    assert abs((p < 0.05).mean() - 0.05) < 3 * math.sqrt(0.05 * 0.95 / 300)
    assert stats.kstest(p, "uniform").pvalue > 0.001
    for share in (0.025, 0.5, 0.975):
        assert test.p_value(test.quantile(share, 100), 100) == pytest.approx(1 - share, abs=1e-9)


def test_a_pit_of_zero_is_infinitely_far():
    u = np.array([0.0, 0.3, 0.8, 0.85, 0.9])
    assert TESTS["ad"].statistic(u) == math.inf
    assert TESTS["ad"].p_value(math.inf, 5) == 0.0
