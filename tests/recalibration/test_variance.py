"""Scaling of variances and standard deviations against other optimisers, closed forms and what a fit promises."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

import calibrant as cal
from calibrant.errors import CalibrantError, CalibrantWarning, ShapeError
from calibrant.recalibration import StdScaling, VarianceScaling
from calibrant.recalibration.methods.variance import LOWER_BOUND, VarianceMap


def rows(n=400, w=2.5, b=0.7, seed=0, spread=1.0, **known):
    """Gaussian predictions whose outcomes have the variance wσ² + b."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(0.0, 2.0, n), np.exp(spread * rng.normal(size=n))
    return cal.Regression.from_gaussian(mean, std, mean + np.sqrt(w * std**2 + b) * rng.normal(size=n), **known)


def dss(w, b, predictions, weights=None):
    variance = w * predictions.std[0].astype(float) ** 2 + b
    terms = (predictions.y - predictions.mean[0]) ** 2 / variance + np.log(variance)
    return float(np.average(terms, weights=weights))


def quietly(method, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return method.fit(predictions)


# ----------------------------------------------------------------------------------- other optimisers
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("w", "b"), [(2.5, 0.7), (0.3, 4.0), (1.0, 0.0), (0.0, 1.0)])
def test_no_other_optimiser_finds_a_lower_score(seed, w, b):
    predictions = rows(w=w, b=b, seed=seed)
    found = quietly(VarianceScaling(), predictions)
    made = found.maps[0]
    assert found.converged
    assert found.report.gradient < 1e-8
    assert found.report.before == pytest.approx(dss(1.0, 0.0, predictions), rel=1e-12)
    assert found.report.after == pytest.approx(dss(made.w, made.b, predictions), rel=1e-12)
    unit = np.mean((predictions.y - predictions.mean[0]) ** 2)
    bounds = [(LOWER_BOUND, None), (LOWER_BOUND * unit, None)]
    for start in [(1.0, 0.1), (0.1, 5.0), (5.0, 0.001)]:
        other = minimize(lambda x: dss(*x, predictions), start, method="L-BFGS-B", bounds=bounds, tol=1e-14)
        assert found.report.after <= other.fun + 1e-9


def test_the_truth_is_found_from_many_rows():
    made = VarianceScaling().fit(rows(n=60_000, w=2.5, b=0.7)).maps[0]
    assert made.w == pytest.approx(2.5, rel=0.03)
    assert made.b == pytest.approx(0.7, rel=0.06)


def test_two_valleys_are_told_apart():
    """Half of the rows have errors as said and half all of one size: two minima; a grid over (w, b) finds no better."""
    rng = np.random.default_rng(4)
    std = np.concatenate([np.full(30, 1e-3), np.full(30, 1.0)])
    y = np.concatenate([np.full(29, 1e-3), [30.0], np.full(30, 1e-2)]) * rng.choice([-1, 1], 60)
    predictions = cal.Regression.from_gaussian(np.zeros(60), std, y)
    found = quietly(VarianceScaling(), predictions).report.after
    lowest = min(dss(w, b, predictions) for w in np.geomspace(1e-9, 1e9, 73) for b in np.geomspace(1e-9, 1e4, 53))
    assert found <= lowest + 1e-9


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.sampled_from([1e-3, 0.5, 3.0, 6.0]), st.sampled_from([1, 3, 30]))
def test_it_settles_whatever_the_rows(seed, n, spread, freedom):
    rng = np.random.default_rng(seed)
    std = np.exp(spread * rng.normal(size=n))
    predictions = cal.Regression.from_gaussian(np.zeros(n), std, std ** rng.choice([0, 1]) * rng.standard_t(freedom, n))
    found = quietly(VarianceScaling(), predictions)
    assert found.converged
    assert found.report.after <= found.report.before + 1e-9
    starts = [(1.0, 1.0), (1e-3, 1.0), (1.0, 1e-3)]
    unit = np.mean((predictions.y - predictions.mean[0]) ** 2)
    for start in starts:
        ends = minimize(lambda x: dss(*np.exp(x), predictions), np.log(start), method="Nelder-Mead").x
        w, b = np.exp(ends)
        if w * np.mean(std**2) > LOWER_BOUND * unit and b > LOWER_BOUND * unit:
            assert found.report.after <= dss(w, b, predictions) + 1e-9


def test_std_scaling_is_the_likelihood():
    predictions = rows(b=0.0)
    made = StdScaling().fit(predictions)
    best = minimize_scalar(lambda t: dss(np.exp(t), 0.0, predictions), bounds=(-5, 5), options={"xatol": 1e-12})
    assert made.factor**2 == pytest.approx(np.exp(best.x), rel=1e-6)
    after = cal.measure(made.transform(predictions), ["nll", "se_var_ratio"])
    assert after["nll"] == pytest.approx(made.report.after, rel=1e-12)
    assert after["se_var_ratio"] == pytest.approx(1.0, rel=1e-12)
    assert made.report.before == pytest.approx(cal.measure(predictions, ["nll"])["nll"], rel=1e-12)


def test_scaling_alone_when_b_is_at_its_bound_is_std_scaling():
    """b at its bound is the usual case and no reason to warn; it is recorded."""
    usual = rows(n=2000, spread=0.5)
    errors = 2 * usual.std[0] ** 1.3 * np.random.default_rng(0).normal(size=2000)
    predictions = replace(usual, y=usual.mean[0] + errors)
    made = VarianceScaling().fit(predictions)
    found = made.maps[0]
    assert found.pure_scaling
    assert made.injective
    assert np.sqrt(found.w) == pytest.approx(StdScaling().fit(predictions).factor, rel=1e-6)


def test_variances_that_say_nothing_are_warned_of():
    predictions = rows(w=0.0, b=1.0, n=5000, spread=2.0)
    with pytest.warns(CalibrantWarning, match="variance: w ended at its lower bound.*not injective"):
        made = VarianceScaling().fit(predictions)
    assert not made.injective
    np.testing.assert_allclose(made.transform(predictions).std, made.transform(predictions).std[0, 0], rtol=1e-4)
    assert made.accuracy_preserving


def test_equal_variances_are_scaled():
    rng = np.random.default_rng(0)
    predictions = cal.Regression.from_gaussian(np.zeros(100), np.full(100, 0.3), rng.normal(size=100))
    with pytest.warns(CalibrantWarning, match="cannot be separated"):
        made = VarianceScaling().fit(predictions)
    assert made.maps[0].pure_scaling
    assert cal.measure(made.transform(predictions), ["se_var_ratio"])["se_var_ratio"] == pytest.approx(1.0, rel=1e-9)


# ------------------------------------------------------------------------------------------ invariances
@pytest.mark.parametrize("factor", [1e-120, 1e-6, 1e6, 1e120])
@pytest.mark.parametrize("method", [VarianceScaling, StdScaling])
def test_units_do_not_matter(method, factor):
    predictions = rows()
    other = cal.Regression.from_gaussian(factor * predictions.mean, factor * predictions.std, factor * predictions.y)
    first, scaled = (method().fit(each) for each in (predictions, other))
    np.testing.assert_allclose(scaled.transform(other).std, factor * first.transform(predictions).std, rtol=1e-9)
    shift = 2.0 if method is VarianceScaling else 1.0
    assert scaled.report.after == pytest.approx(first.report.after + shift * np.log(factor), abs=1e-8)


def test_spreads_in_other_units_do_not_matter():
    predictions = rows()
    other = replace(predictions, std=1e-30 * predictions.std)
    first, scaled = (VarianceScaling().fit(each) for each in (predictions, other))
    np.testing.assert_allclose(scaled.transform(other).std, first.transform(predictions).std, rtol=1e-9)


def test_what_numbers_cannot_hold_is_refused():
    predictions = rows()
    far = replace(predictions, y=1e200 * predictions.y)
    with pytest.raises(CalibrantError, match="in other units"):
        VarianceScaling().fit(far)


@pytest.mark.parametrize("method", [VarianceScaling, StdScaling])
def test_a_fitted_map_leaves_nothing_to_do(method):
    predictions = rows(n=3000)
    first = method().fit(predictions)
    again = quietly(method(), first.transform(predictions))
    np.testing.assert_allclose(
        again.transform(first.transform(predictions)).std, first.transform(predictions).std, rtol=1e-6
    )


# --------------------------------------------------------------------------------------------- members
def mixture(seed=0, n=300):
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=n)
    mean, std = centre + 0.5 * rng.normal(size=(3, n)), np.exp(0.5 * rng.normal(size=(3, n)))
    y = centre + np.sqrt(np.square(std).mean(axis=0) + 0.5) * rng.normal(size=n)
    return cal.Regression.from_gaussian(mean, std, y, member_names=["a", "b", "c"])


@pytest.mark.parametrize("method", [VarianceScaling, StdScaling])
def test_members(method):
    three = mixture()
    average = method().fit(three)
    out = average.transform(three)
    assert (out.members, out.member_names) == (1, None)
    np.testing.assert_array_equal(out.mean, three.moment_matched().mean)
    same = method().fit(three.moment_matched())
    np.testing.assert_array_equal(out.std, same.transform(three.moment_matched()).std)
    each = method(members="each").fit(three)
    out = each.transform(three)
    assert (out.members, out.member_names) == (3, ("a", "b", "c"))
    alone = method().fit(three.member(1))
    np.testing.assert_array_equal(out.std[1], alone.transform(three.member(1)).std[0])
    with pytest.raises(ShapeError, match="the 3 members of the fit"):
        each.transform(three.member(0))


@pytest.mark.parametrize("method", [VarianceScaling, StdScaling])
def test_samples_are_matched_and_quantiles_refused(method):
    rng = np.random.default_rng(0)
    drawn = cal.Regression.from_samples(rng.normal(size=(50, 200)), 2 * rng.normal(size=200))
    out = quietly(method(), drawn).transform(drawn)
    assert out.kind == "gaussian"
    assert out.samples is None
    np.testing.assert_array_equal(out.mean, drawn.moment_matched().mean)
    cut = cal.Regression.from_quantiles(np.tile([-1.0, 0.0, 1.0], (5, 1)), [0.1, 0.5, 0.9], np.zeros(5))
    with pytest.raises(CalibrantError, match=r"got quantiles in 'predictions'; give mean and std"):
        method().fit(cut)


def test_outcomes_without_error_are_refused():
    perfect = replace(rows(), y=rows().mean[0])
    for method in (VarianceScaling, StdScaling):
        with pytest.raises(CalibrantError, match="fit on held-out rows"):
            method().fit(perfect)


def test_few_rows_are_said():
    with pytest.warns(CalibrantWarning, match="rests on 5 rows"):
        StdScaling().fit(rows()[:5])


@pytest.mark.parametrize("odd", [(0.0, 1.0), (np.nan, 1.0), (1.0, -1.0), (1.0, np.inf), (1.0, 1.0, 2.0)])
def test_maps_that_cannot_be_are_refused(odd):
    message = "bounds must be between 0 and w or b" if len(odd) == 3 else "w must be positive and b at least 0"
    with pytest.raises(ValueError, match=message):
        VarianceMap(*odd)
