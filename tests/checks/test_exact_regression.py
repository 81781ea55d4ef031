"""Computed laws of Gaussian regressions against enumeration, quadrature, SciPy and drawn outcomes."""

import itertools
from functools import partial

import numpy as np
import pytest
from checks.engines import computed
from scipy.optimize import brentq
from scipy.stats import ncx2, norm

from calibrant.checks.exact_regression import ExactGaussians
from calibrant.checks.label_statistics import OWN
from calibrant.checks.plan import Targets
from calibrant.checks.statistics import Statistic, statistics_of
from calibrant.predictions import Regression
from calibrant.results.check import BAYESIAN, INDEPENDENT

READINGS = [BAYESIAN, INDEPENDENT]
laws = partial(computed, ExactGaussians)


def problem(members, n, seed=0):
    rng = np.random.default_rng(seed)
    mean = 3 * rng.standard_normal(n) + 0.7 * rng.standard_normal((members, n))
    std = rng.uniform(0.3, 1.5, (members, n))
    return mean, std, mean[0] + std[0] * rng.standard_normal(n)


def quantile(mean, std, level):
    """Of the mixture of one row, by bisection."""
    ends = (mean - 12 * std).min(), (mean + 12 * std).max()
    return brentq(lambda x: norm.cdf(x, mean, std).mean() - level, *ends, xtol=1e-13)


# --------------------------------------------------------------------------------------- coverage
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("n", [1, 8])
def test_coverage_by_enumeration(n, members, level, reading):
    mean, std, y = problem(members, n, seed=n)
    ends = np.array(
        [[quantile(mean[:, i], std[:, i], q) for i in range(n)] for q in ((1 - level) / 2, (1 + level) / 2)]
    )
    chance = norm.cdf(ends[1], mean, std) - norm.cdf(ends[0], mean, std)
    chance = chance if reading == BAYESIAN else chance.mean(axis=0, keepdims=True)
    inside = np.array(list(itertools.product((0, 1), repeat=n)))
    probability = np.mean([np.where(inside == 1, c, 1 - c).prod(axis=1) for c in chance], axis=0)
    (found,) = laws(Regression.from_gaussian(mean, std, y), [f"picp(level={level})"], reading)[0].values()
    for share in np.arange(n + 1) / n:
        expected = probability[inside.mean(axis=1) == share].sum()
        assert found.probability[found.values == share].sum() == pytest.approx(expected, abs=1e-8)
    assert found.observed == ((ends[0] <= y) & (y <= ends[1])).mean()
    if reading == INDEPENDENT:
        np.testing.assert_allclose(chance, level, atol=1e-8)


# ------------------------------------------------------------------------------------------ means
@pytest.mark.parametrize("weighted", [False, True])
def test_squared_errors_of_members_are_noncentral_chi_squares(weighted):
    mean, std, y = problem(3, 60, seed=1)
    weights = np.random.default_rng(0).integers(0, 4, 60).astype(float) if weighted else np.ones(60)
    predictions = Regression.from_gaussian(mean, std, y, weights=weights if weighted else None)
    found = laws(predictions, ["mse"])[0]["mse"]
    centre = mean.mean(axis=0)
    first, variance, skewness = ncx2.stats(1, ((mean - centre) / std) ** 2, moments="mvs")
    share = weights / weights.sum()
    total = ((share * std**2) ** 2 * variance).sum(axis=1)
    third = ((share * std**2) ** 3 * skewness * variance**1.5).sum(axis=1)
    np.testing.assert_allclose(found.mean, (share * std**2 * first).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.sd, np.sqrt(total), rtol=1e-9)
    np.testing.assert_allclose(found.skewness, third / total**1.5, rtol=1e-8)
    assert found.observed == pytest.approx((share * (centre - y) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("name", ["mse", "mean"])
@pytest.mark.parametrize("members", [1, 4])
def test_independent_rows_are_of_the_mixture(members, name):
    """Quadrature that is exact for polynomials: raw moments of each row's mixture."""
    mean, std, y = problem(members, 40, seed=2)
    nodes, mass = np.polynomial.hermite_e.hermegauss(12)
    mass = mass / mass.sum() / members
    drawn = mean[..., None] + std[..., None] * nodes
    value = drawn if name == "mean" else (drawn - mean.mean(axis=0)[:, None]) ** 2
    centre = (mass * value).sum(axis=(0, 2))
    off = value - centre[:, None]
    variance, third = ((mass * off**k).sum(axis=(0, 2)).sum() for k in (2, 3))
    found = laws(Regression.from_gaussian(mean, std, y), [name], INDEPENDENT)[0][name]
    assert found.mean == pytest.approx(centre.mean(), rel=1e-9)
    assert found.sd == pytest.approx(np.sqrt(variance) / 40, rel=1e-9)
    assert found.skewness == pytest.approx(third / variance**1.5, rel=1e-7, abs=1e-12)


def test_the_mean_by_a_member_is_normal():
    mean, std, y = problem(3, 50, seed=3)
    weights = np.random.default_rng(1).random(50)
    found = laws(Regression.from_gaussian(mean, std, y, weights=weights), ["mean"])[0]["mean"]
    share = weights / weights.sum()
    np.testing.assert_allclose(found.mean, (share * mean).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.sd, np.sqrt((share**2 * std**2).sum(axis=1)), rtol=1e-9)
    assert (found.skewness == 0).all()
    assert found.observed == pytest.approx((share * y).sum(), rel=1e-12)


@pytest.mark.parametrize("reading", READINGS)
def test_laws_are_those_of_drawn_outcomes(reading):
    mean, std, y = problem(4, 120, seed=4)
    draws, rng = 20_000, np.random.default_rng(5)
    source = rng.integers(0, 4, (draws, 1 if reading == BAYESIAN else 120))
    columns = np.arange(120)
    drawn = mean[source, columns] + std[source, columns] * rng.standard_normal((draws, 120))
    found = laws(Regression.from_gaussian(mean, std, y), ["mse", "mean", "picp(level=0.8)"], reading)[0]
    for name, values in (("mse", ((drawn - mean.mean(axis=0)) ** 2).mean(axis=1)), ("mean", drawn.mean(axis=1))):
        mine = found[name]
        assert values.mean() == pytest.approx(mine.mean.mean(), abs=5 * values.std() / np.sqrt(draws))
        second = mine.sd**2 + (mine.mean - mine.mean.mean()) ** 2
        error = ((values - values.mean()) ** 2).std() / np.sqrt(draws)
        assert values.var() == pytest.approx(second.mean(), abs=5 * error)
    ends = np.array([[quantile(mean[:, i], std[:, i], q) for i in columns] for q in (0.1, 0.9)])
    covered = ((drawn >= ends[0]) & (drawn <= ends[1])).sum(axis=1)
    mine = found["picp(level=0.8)"]
    for value, below in zip(mine.values, mine.probability.cumsum(), strict=True):
        share = (covered <= round(120 * value)).mean()
        assert share == pytest.approx(below, abs=5 * np.sqrt(below * abs(1 - below) / draws) + 1e-3)


# ----------------------------------------------------------------------------- blocks, targets, limits
EVERY = ["picp", "picp(level=0.5)", "mse", "mean"]


def same_bits(one, other):
    for key, mine in one.items():
        for name, value in vars(mine).items():
            np.testing.assert_array_equal(value, getattr(other[key], name), err_msg=f"{key}: {name}")


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_threads_and_targets(dtype, reading):
    mean, std, y = (x.astype(dtype) for x in problem(3, 200, seed=6))
    predictions = Regression.from_gaussian(mean, std, y)
    cells = np.random.default_rng(0).integers(0, 3, 200)
    targets = Targets(5, (np.arange(5), np.array([1]), np.array([0, 2]), np.array([4])))
    whole = laws(predictions, EVERY, reading, cells=cells, targets=targets)
    cut = laws(predictions, EVERY, reading, cells=cells, targets=targets, block=37, threads=3)
    for part, one, other in zip(targets.parts[:3], whole[:3], cut[:3], strict=True):
        same_bits(one, other)
        alone = laws(predictions[np.isin(cells, part)], EVERY, reading)[0]
        for key, mine in one.items():
            assert mine.observed == pytest.approx(alone[key].observed, rel=1e-14)
            for name in ("values", "probability") if key.startswith("picp") else ("mean", "sd"):
                np.testing.assert_allclose(getattr(mine, name), getattr(alone[key], name), rtol=1e-12)
    for empty in whole[3].values():
        assert np.isnan(empty.observed)


@pytest.mark.parametrize("unit", [1e-30, 1e25])
def test_the_unit_of_outcomes_does_not_matter(unit):
    mean, std, y = problem(2, 30, seed=7)
    found = laws(Regression.from_gaussian(mean, std, y), EVERY)[0]
    other = laws(Regression.from_gaussian(unit * mean, unit * std, unit * y), EVERY)[0]
    np.testing.assert_allclose(other["mse"].sd, unit**2 * found["mse"].sd, rtol=1e-9)
    np.testing.assert_allclose(other["mse"].skewness, found["mse"].skewness, rtol=1e-9)
    np.testing.assert_allclose(other["mean"].mean, unit * found["mean"].mean, rtol=1e-9)
    np.testing.assert_allclose(other["picp"].probability, found["picp"].probability, rtol=1e-6)


def test_what_is_not_taken():
    mean, std, y = problem(2, 6)
    gaussian = Regression.from_gaussian(mean, std, y)
    weighted = Regression.from_gaussian(mean, std, y, weights=np.ones(6))
    samples = Regression.from_samples(mean, y)
    for spec in ("mse(root=true)", "nll", "crps", "min", "quantile(level=0.5)", "calibration_error"):
        assert not ExactGaussians.supports(statistics_of(spec, gaussian)[0], gaussian)
    assert not ExactGaussians.supports(statistics_of("picp", weighted)[0], weighted)
    assert not ExactGaussians.supports(statistics_of("mse", samples)[0], samples)
    assert "mean" in OWN
    assert not ExactGaussians.supports(Statistic(np.mean, name="mean"), gaussian)
