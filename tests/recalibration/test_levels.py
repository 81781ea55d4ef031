"""Recalibrated levels: by hand, against brute force, and on distributions whose levels are known."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import calibrant as cal
from calibrant.calibration.uniformity import cramer_von_mises
from calibrant.errors import CalibrantWarning, UsageError
from calibrant.recalibration import IsotonicLevels
from calibrant.recalibration.methods.levels import LevelCurve, LevelsMap, level_ends, observed_levels, quantiles_at


def gaussian(n=4000, members=1, seed=0, factor=2.0):
    """Predicted spread, and outcomes that spread `factor` times as much."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(0.0, 2.0, (members, n)), rng.uniform(0.5, 2.0, (members, n))
    return cal.Regression.from_gaussian(mean, std, mean[0] + factor * std[0] * rng.normal(size=n))


def quiet(predictions, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return IsotonicLevels(**options).fit(predictions)


def shares_below(predictions):
    """How often y is at or below each predicted quantile."""
    return (predictions.y[:, None] <= predictions.quantiles).mean(axis=0)


# ------------------------------------------------------------------------------- what should come out
def test_quantiles_are_those_of_the_wider_normal():
    """F is N(μ, σ²) where N(μ, 4σ²) is true: R∘F is the latter, up to sampling."""
    made = IsotonicLevels().fit(gaussian(40_000))
    test = gaussian(50, seed=1)
    after = made.transform(test)
    inner = (after.levels > 0.02) & (after.levels < 0.98)
    z = (after.quantiles - test.mean[0][:, None]) / test.std[0][:, None]
    np.testing.assert_allclose(z[:, inner], np.tile(2.0 * norm.ppf(after.levels[inner]), (50, 1)), atol=0.12)


@pytest.mark.parametrize("kind", ["gaussian", "mixture", "samples", "quantiles"])
def test_quantiles_come_true_as_often_as_they_say(kind):
    """Predictions that are too wide, of each kind: new rows come out right at every level."""

    def of(seed):
        p = gaussian(6000, members=3 if kind == "mixture" else 1, seed=seed, factor=0.6)
        if kind == "samples":
            draws = p.mean + p.std * np.random.default_rng(seed).normal(size=(200, p.n))
            return cal.Regression.from_samples(draws, p.y)
        if kind == "quantiles":
            levels = np.arange(1, 40) / 40
            return cal.Regression.from_quantiles((p.mean[0] + norm.ppf(levels)[:, None] * p.std[0]).T, levels, p.y)
        return p

    made, test = IsotonicLevels().fit(of(1)), of(2)
    after = made.transform(test)
    assert after.kind == "quantiles"
    ends = [0.025, 0.975] if kind == "quantiles" else [0.005, 0.995]  # quantiles keep their levels
    assert after.levels[[0, -1]] == pytest.approx(ends)
    assert (np.diff(after.quantiles, axis=1) >= 0).all()
    np.testing.assert_allclose(shares_below(after), after.levels, atol=0.03)
    assert np.abs(shares_below(replace(after, quantiles=quantiles_at(test, after.levels))) - after.levels).max() > 0.05


def test_mixtures_by_root_finding():
    made = quiet(gaussian(300, members=3), levels=9)
    test = gaussian(5, members=3, seed=3)
    after = made.transform(test)
    for row in range(5):
        for j, level in enumerate(made.maps[0].inverse(after.levels)):

            def short(x, row=row, level=level):
                return norm.cdf(x, test.mean[:, row], test.std[:, row]).mean() - level

            assert after.quantiles[row, j] == pytest.approx(brentq(short, -50, 50, xtol=1e-12), abs=1e-7)


def test_the_fitted_rows_come_out_at_middle_ranks():
    given = gaussian(101)
    found = quiet(given).maps[0]
    u = observed_levels(given)[0]
    np.testing.assert_allclose(np.sort(found.apply(u)), (np.arange(101) + 0.5) / 101, atol=1e-12)
    np.testing.assert_allclose(found.inverse(found.apply(u)), u, atol=1e-12)


# ------------------------------------------------------------------------------------- mathematics
def test_the_loss_is_the_statistic_of_cramer_and_von_mises():
    given = gaussian(200)
    report, u = quiet(given).report, np.sort(observed_levels(given)[0])
    assert report.before == pytest.approx(cramer_von_mises(u) / 200, rel=1e-9)
    assert report.after == pytest.approx(1 / (12 * 200**2), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=12))
def test_the_observed_share_and_its_error_by_brute_force(rows):
    low = np.array([a for a, _, _ in rows]) / 10
    high = np.minimum(low + np.array([b for _, b, _ in rows]) / 10, 1.0)
    shares = np.array([float(c) for _, _, c in rows])
    shares /= shares.sum()
    seen = LevelCurve.of(low, high, shares)
    p = (np.arange(20_000) + 0.5) / 20_000
    wide = np.where(high > low, high - low, 1.0)
    below = np.where((high > low)[:, None], ((p - low[:, None]) / wide[:, None]).clip(0.0, 1.0), p >= low[:, None])
    exact = float(np.mean((p - shares @ below) ** 2))
    assert seen.squared_error(seen.levels) == pytest.approx(exact, abs=2e-4)
    found = seen.map()
    np.testing.assert_allclose(found.inverse(found.apply(p)), p, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=20), st.integers(0, 2**32 - 1))
def test_no_rising_map_of_the_levels_does_better(u, seed):
    at = np.array(u)
    seen = LevelCurve.of(at, at, np.full(len(at), 1 / len(at)))
    best = seen.squared_error(seen.map().apply(seen.levels))
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = np.concatenate([[0.0], np.sort(rng.random(len(seen.levels) - 2)), [1.0]])
        assert best <= seen.squared_error(other) + 1e-12
    assert best <= seen.squared_error(seen.levels) + 1e-12


def test_ends_of_levels_by_hand():
    values = np.array([[0.0, 0.0, 0.0, 4.0]] * 7)
    y = np.array([-1.0, 0.0, 2.0, 4.0, 5.0, 1.0, 3.0])
    low, high = level_ends(values, np.array([0.2, 0.4, 0.6, 0.8]), y)
    np.testing.assert_allclose(low, [0.0, 0.0, 0.7, 0.8, 0.8, 0.65, 0.75])
    np.testing.assert_allclose(high, [0.2, 0.6, 0.7, 0.8, 1.0, 0.65, 0.75])
    low, high = level_ends(np.array([[0.0, 1.0, 1.0, 2.0]] * 2), np.array([0.2, 0.4, 0.6, 0.8]), np.array([1.0, 0.0]))
    np.testing.assert_allclose(low, [0.4, 0.2])
    np.testing.assert_allclose(high, [0.6, 0.2])


def test_point_masses_that_are_right_leave_levels_alone():
    """Half of the samples are 0 and so are half of the outcomes: R is the identity, up to sampling."""
    rng = np.random.default_rng(0)
    n, count = 20_000, 99

    def draw(*shape):
        return np.where(rng.random(shape) < 0.5, 0.0, rng.exponential(size=shape))

    found = quiet(cal.Regression.from_samples(draw(count, n), draw(n))).maps[0]
    p = np.linspace(0.02, 0.98, 49)
    np.testing.assert_allclose(found.apply(p), p, atol=0.015)


def test_weights_may_have_any_unit():
    given = gaussian(60)
    weights = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    many, few = (quiet(replace(given, info=replace(given.info, weights=w))) for w in (weights, weights / 1000))
    np.testing.assert_allclose(many.maps[0].observed, few.maps[0].observed, atol=1e-12)


# ------------------------------------------------------------------------------------- what is said
def test_outcomes_beyond_reach_are_told_and_quantiles_finite():
    given = gaussian(200)
    with pytest.warns(CalibrantWarning, match="level 0 or 1"):
        made = IsotonicLevels().fit(replace(given, y=given.y + 1e6))
    after = made.transform(given)
    assert np.isfinite(after.quantiles).all()


def test_short_tails_of_samples_are_told():
    rng = np.random.default_rng(0)
    with pytest.warns(CalibrantWarning, match="beyond the outermost sample"):
        IsotonicLevels().fit(cal.Regression.from_samples(rng.normal(size=(10, 500)), 3.0 * rng.normal(size=500)))


def test_few_rows_are_told():
    with pytest.warns(CalibrantWarning, match="5 rows are few"):
        IsotonicLevels().fit(gaussian(5))


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageError, match="average"):
        IsotonicLevels(members="each")
    with pytest.raises(UsageError, match="two samples"):
        IsotonicLevels().fit(cal.Regression.from_samples(np.zeros((1, 5)), np.zeros(5)))
    for predicted, observed in (([0, 0.5, 0.5, 1], [0, 0.2, 0.3, 1]), ([0, 1], [0.1, 1]), ([0, 0.5, 1], [0, 1])):
        with pytest.raises(ValueError, match="points"):
            LevelsMap(np.array(predicted, float), np.array(observed, float))


def test_precipitation_ensembles_cover_more(data_folder):
    """52 values a day that are far too close together: coverage rises as far as their reach allows."""
    stored = np.load(data_folder / "regression_ensembles" / "precip_frankfurt_ecmwf_ens.npz")
    y, draws = stored["obs_lead5"], stored["ens_lead5"].T
    with pytest.warns(CalibrantWarning, match="beyond the outermost sample"):
        made = IsotonicLevels().fit(cal.Regression.from_samples(draws[:, :2896], y[:2896]))
    test = cal.Regression.from_samples(draws[:, 2896:], y[2896:])
    was, now = (next(iter(cal.measure(each, ["picp(level=0.9)"]).values())) for each in (test, made.transform(test)))
    assert was < 0.78
    assert now > was + 0.05
