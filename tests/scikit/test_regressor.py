"""RecalibratedRegressor: its standard deviations are recalibrated by out-of-fold predictions."""

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

requires_std_method = pytest.mark.skipif(
    "std" not in methods_for("regression"), reason="no method for Gaussian predictions"
)


def make_rows(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_regression(n, 20, n_informative=10, noise=3.0, random_state=0)
    return X, y


@requires_std_method
def test_passes_the_estimator_checks():
    """Except one: BayesianRidge itself predicts no standard deviation for object arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(RecalibratedRegressor(BayesianRidge()), on_fail=None)
    assert {each["check_name"] for each in results if each["status"] == "failed"} <= {"check_dtype_object"}
    X, y = make_rows(40)
    with pytest.raises(TypeError):
        BayesianRidge().fit(X, y).predict(X.astype(object), return_std=True)


@requires_std_method
def test_factor_is_fitted_to_out_of_fold_predictions():
    X, y = make_rows(60)
    model = RecalibratedRegressor(BayesianRidge(), cv=KFold(3)).fit(X, y)
    mean, std = np.empty(60), np.empty(60)
    for train, test in KFold(3).split(X):
        mean[test], std[test] = BayesianRidge().fit(X[train], y[train]).predict(X[test], return_std=True)
    factor = np.sqrt(np.mean((y - mean) ** 2 / std**2))
    whole = BayesianRidge().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    expected = factor * whole.predict(X, return_std=True)[1]
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], expected, rtol=1e-9)


@requires_std_method
def test_frozen_regressor_with_weights():
    X, y = make_rows()
    base, weights = BayesianRidge().fit(X[:50], y[:50]), np.random.default_rng(0).uniform(0.5, 2.0, 250)
    model = RecalibratedRegressor(FrozenEstimator(base), "variance").fit(X[50:], y[50:], sample_weight=weights)
    predictions = cal.Regression.from_gaussian(*base.predict(X[50:], return_std=True), y[50:], weights=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        alone = recalibrator("variance").fit(predictions)
    np.testing.assert_allclose(model.predict(X[50:], return_std=True)[1], alone.transform(predictions).std[0])


@requires_std_method
def test_regressors_without_return_std_are_refused():
    with pytest.raises(UsageError, match="LinearRegression, which has no return_std"):
        RecalibratedRegressor(LinearRegression()).fit(*make_rows())


@requires_std_method
@pytest.mark.parametrize(
    "wrap",
    [
        lambda base: make_pipeline(StandardScaler(), base),
        lambda base: GridSearchCV(base, {"alpha_1": [1e-6, 1e-3]}, cv=2),
        lambda base: GridSearchCV(make_pipeline(StandardScaler(), base), {"bayesianridge__alpha_1": [1e-6]}, cv=2),
        lambda base: make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), base)),
    ],
    ids=["pipeline", "search", "search of a pipeline", "pipeline of a pipeline"],
)
def test_pipelines_and_searches_predict_std(wrap):
    """Cross-fitted and frozen."""
    X, y = make_rows(60)
    model = RecalibratedRegressor(wrap(BayesianRidge()), cv=KFold(3)).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    whole = wrap(BayesianRidge()).fit(X, y)
    before = getattr(whole, "best_estimator_", whole).predict(X, return_std=True)[1]
    np.testing.assert_allclose(mean, whole.predict(X))
    np.testing.assert_allclose(std / before, model.recalibrator_.parameters()[0]["factor"], rtol=1e-6)
    frozen = RecalibratedRegressor(FrozenEstimator(whole)).fit(X, y)
    assert (frozen.predict(X, return_std=True)[1] > 0).all()


@requires_std_method
@pytest.mark.parametrize("wrap", [lambda base: make_pipeline(StandardScaler(), base), lambda base: base])
def test_final_estimators_without_return_std_are_refused(wrap):
    with pytest.raises(UsageError, match="LinearRegression, which has no return_std"):
        RecalibratedRegressor(wrap(LinearRegression())).fit(*make_rows(60))


@pytest.mark.parametrize("method", ["levels", "levels(levels=9)"])
def test_methods_without_a_standard_deviation_are_refused_in_fit(method):
    with pytest.raises(UsageError, match="levels: expected a method whose predictions have a standard deviation"):
        RecalibratedRegressor(BayesianRidge(), method).fit(*make_rows(60))


def test_only_regression_methods_are_suggested():
    with pytest.raises(UsageError, match="choose from") as caught:
        RecalibratedRegressor(BayesianRidge(), "xyzzy").fit(*make_rows(60))
    assert "variance" in str(caught.value)
    assert "temperature" not in str(caught.value)
    with pytest.raises(UsageError, match="a method for regression") as caught:
        RecalibratedRegressor(BayesianRidge(), "temperatur").fit(*make_rows(60))
    assert "did you mean" not in str(caught.value)


def test_classification_methods_are_refused():
    with pytest.raises(UsageError, match="a method for regression"):
        RecalibratedRegressor(BayesianRidge(), "temperature").fit(*make_rows())
