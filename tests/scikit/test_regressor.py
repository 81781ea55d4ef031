"""A regressor around a regressor: its standard deviations are those that rows left out ask for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_regression
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import calibrant as cal
from calibrant.errors import CalibrantWarning, UsageError
from calibrant.recalibration import methods_for, recalibrator
from calibrant.sklearn import RecalibratedRegressor

NEEDED = pytest.mark.skipif(
    "std" not in methods_for("regression"), reason="there is no method for Gaussian predictions"
)


def rows(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_regression(n, 20, n_informative=10, noise=3.0, random_state=0)
    return X, y


@NEEDED
def test_no_estimator_check_fails():
    """But one: BayesianRidge itself finds no standard deviation of an array of objects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(RecalibratedRegressor(BayesianRidge()), on_fail=None)
    assert {each["check_name"] for each in results if each["status"] == "failed"} <= {"check_dtype_object"}
    X, y = rows(40)
    with pytest.raises(TypeError):
        BayesianRidge().fit(X, y).predict(X.astype(object), return_std=True)


@NEEDED
def test_the_factor_is_that_of_what_was_predicted_out_of_fold():
    X, y = rows(60)
    made = RecalibratedRegressor(BayesianRidge(), cv=KFold(3)).fit(X, y)
    mean, std = np.empty(60), np.empty(60)
    for train, test in KFold(3).split(X):
        mean[test], std[test] = BayesianRidge().fit(X[train], y[train]).predict(X[test], return_std=True)
    factor = np.sqrt(np.mean((y - mean) ** 2 / std**2))
    whole = BayesianRidge().fit(X, y)
    np.testing.assert_array_equal(made.predict(X), whole.predict(X))
    expected = factor * whole.predict(X, return_std=True)[1]
    np.testing.assert_allclose(made.predict(X, return_std=True)[1], expected, rtol=1e-9)


@NEEDED
def test_frozen_regressors_and_weights():
    X, y = rows()
    base, weights = BayesianRidge().fit(X[:50], y[:50]), np.random.default_rng(0).uniform(0.5, 2.0, 250)
    made = RecalibratedRegressor(FrozenEstimator(base), "variance").fit(X[50:], y[50:], sample_weight=weights)
    given = cal.Regression.from_gaussian(*base.predict(X[50:], return_std=True), y[50:], weights=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        alone = recalibrator("variance").fit(given)
    np.testing.assert_allclose(made.predict(X[50:], return_std=True)[1], alone.transform(given).std[0])


@NEEDED
def test_regressors_without_a_spread_are_refused():
    with pytest.raises(UsageError, match="LinearRegression has no return_std"):
        RecalibratedRegressor(LinearRegression()).fit(*rows())


@NEEDED
@pytest.mark.parametrize(
    "around",
    [
        lambda base: make_pipeline(StandardScaler(), base),
        lambda base: GridSearchCV(base, {"alpha_1": [1e-6, 1e-3]}, cv=2),
        lambda base: GridSearchCV(make_pipeline(StandardScaler(), base), {"bayesianridge__alpha_1": [1e-6]}, cv=2),
        lambda base: make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), base)),
    ],
    ids=["pipeline", "search", "search of a pipeline", "pipeline of a pipeline"],
)
def test_pipelines_and_searches_have_a_spread(around):
    """As they are, frozen, and with the factor of what they predict out of fold."""
    X, y = rows(60)
    made = RecalibratedRegressor(around(BayesianRidge()), cv=KFold(3)).fit(X, y)
    mean, std = made.predict(X, return_std=True)
    whole = around(BayesianRidge()).fit(X, y)
    before = getattr(whole, "best_estimator_", whole).predict(X, return_std=True)[1]
    np.testing.assert_allclose(mean, whole.predict(X))
    np.testing.assert_allclose(std / before, made.recalibrator_.parameters()[0]["factor"], rtol=1e-6)
    frozen = RecalibratedRegressor(FrozenEstimator(whole)).fit(X, y)
    assert (frozen.predict(X, return_std=True)[1] > 0).all()


@NEEDED
@pytest.mark.parametrize("around", [lambda base: make_pipeline(StandardScaler(), base), lambda base: base])
def test_what_has_no_spread_is_refused_wherever_it_stands(around):
    with pytest.raises(UsageError, match="LinearRegression has no return_std"):
        RecalibratedRegressor(around(LinearRegression())).fit(*rows(60))


@pytest.mark.parametrize("method", ["levels", "levels(levels=9)"])
def test_methods_without_a_standard_deviation_are_refused_in_fit(method):
    with pytest.raises(UsageError, match="levels: expected a method whose predictions have a standard deviation"):
        RecalibratedRegressor(BayesianRidge(), method).fit(*rows(60))


def test_only_methods_for_numbers_are_listed():
    with pytest.raises(UsageError, match="choose from") as caught:
        RecalibratedRegressor(BayesianRidge(), "xyzzy").fit(*rows(60))
    assert "variance" in str(caught.value)
    assert "temperature" not in str(caught.value)
    with pytest.raises(UsageError, match="a method for regression") as caught:
        RecalibratedRegressor(BayesianRidge(), "temperatur").fit(*rows(60))
    assert "did you mean" not in str(caught.value)


def test_methods_for_classes_are_refused():
    with pytest.raises(UsageError, match="a method for regression"):
        RecalibratedRegressor(BayesianRidge(), "temperature").fit(*rows())
