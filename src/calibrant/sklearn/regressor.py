"""A regressor of scikit-learn whose standard deviations are recalibrated, by rows that it was not fitted to."""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _check_sample_weight, check_is_fitted

from calibrant.errors import UsageError
from calibrant.predictions.regression import Regression
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.gaussian_rows import SpreadMap
from calibrant.recalibration.identity import IdentityMap
from calibrant.sklearn.fitting import (
    fitted_method,
    folds_of,
    is_auto,
    keep_features,
    refuse_nothing,
    routed,
    router_of,
    unfitted,
)


class RecalibratedRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor with `predict(X, return_std=True)`, and a recalibrator of its standard deviations.

    Parameters
    ----------
    estimator : a regressor such as BayesianRidge or GaussianProcessRegressor. One in a `FrozenEstimator` is not fitted
        again: all rows of `fit` then serve the recalibrator, and `cv` is not looked at.
    method : a method whose predictions are Gaussian, as text such as "variance", or as a Recalibrator, which is copied.
    cv : the number of folds, a splitter, or splits; None stands for 5. The predictions of all folds fit one
        recalibrator, and the estimator is fitted again to all rows.
    n_jobs : folds that are fitted at a time.

    Attributes
    ----------
    estimator_, recalibrator_ : what was fitted.
    n_features_in_, feature_names_in_ : as the estimator has them.
    """

    def __init__(
        self, estimator: Any, method: str | Recalibrator = "std", *, cv: Any = None, n_jobs: int | None = None
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit estimator and recalibrator; sample weights serve both where the estimator takes them."""
        X, y = indexable(X, y)
        refuse_nothing(X)
        y = column_or_1d(y, warn=True, dtype=np.float64)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        if not is_auto(self.method):
            _refuse_without_std(unfitted(self.method, "regression"))
        given = routed(self, sample_weight, fit_params)
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator_, rows = self.estimator, np.arange(len(y))
            made = _spread(self.estimator, X)
        else:
            rows, made = self._cross_fitted(X, y, given)
            self.estimator_ = clone(self.estimator).fit(X, y, **given.estimator.fit)
        weights = None if sample_weight is None else sample_weight[rows]
        mean, std = made
        self.recalibrator_ = fitted_method(self.method, Regression.from_gaussian(mean, std, y[rows], weights=weights))
        _refuse_without_std(self.recalibrator_)
        keep_features(self, self.estimator_)
        return self

    def _cross_fitted(self, X: Any, y: np.ndarray, given: Any) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all folds, and their means and standard deviations (2, n)."""
        folds = folds_of(check_cv(self.cv, y), X, y, given)
        parts = Parallel(n_jobs=self.n_jobs)(
            delayed(_of_fold)(clone(self.estimator), X, y, *fold, given.estimator.fit) for fold in folds
        )
        return np.concatenate([test for _, test in folds]), np.concatenate(parts, axis=1)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean (n,) as the estimator gives it; with return_std, also the recalibrated standard deviation (n,)."""
        check_is_fitted(self)
        if not return_std:
            return self.estimator_.predict(X)
        after = self.recalibrator_.transform(Regression.from_gaussian(*_spread(self.estimator_, X)))
        return after.mean[0], after.std[0]

    def get_metadata_routing(self) -> MetadataRouter:
        """Where what is given to `fit` goes: to the estimator and to the splitter."""
        return router_of(self)

    def __sklearn_tags__(self) -> Any:
        """What the estimator takes, this takes."""
        tags = super().__sklearn_tags__()
        of_estimator = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = of_estimator.sparse, of_estimator.allow_nan
        return tags


def _of_fold(estimator: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray, given: Any) -> np.ndarray:
    passed = _check_method_params(X, params=given, indices=train)
    return _spread(estimator.fit(_safe_indexing(X, train), y[train], **passed), _safe_indexing(X, test))


def _refuse_without_std(method: Recalibrator) -> None:
    """Refuse methods whose predictions are quantiles."""
    if not issubclass(method.map_class, SpreadMap | IdentityMap):
        raise UsageError(
            f"RecalibratedRegressor: {method.name}",
            expected="a method whose predictions have a standard deviation",
            came="they are quantiles",
            do="use std or variance",
        )


def _spread(estimator: Any, X: Any) -> np.ndarray:
    """Mean and standard deviation (2, n), of pipelines by their last step and of searches by what they found."""
    whole = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    whole = inner = getattr(whole, "best_estimator_", whole)
    while hasattr(inner, "steps"):
        inner = inner.steps[-1][1]
    predict = getattr(inner, "predict", None)
    if predict is None or "return_std" not in signature(predict).parameters:
        raise UsageError(
            "RecalibratedRegressor",
            expected="a regressor with predict(X, return_std=True)",
            came=f"that of {type(inner).__name__} has no return_std",
            do="use one that predicts its spread, such as BayesianRidge",
        )
    return np.stack(whole.predict(X, return_std=True))
