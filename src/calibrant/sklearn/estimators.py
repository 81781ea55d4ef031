"""scikit-learn estimators that wrap an estimator, and recalibrate its probabilities or standard deviations."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, _safe_indexing, check_array, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _check_sample_weight, check_is_fitted

from calibrant.errors import LabelsError, ShapeError, UsageError, did_you_mean, show
from calibrant.predictions import Classification, Regression
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.class_rows import as_logits
from calibrant.recalibration.gaussian_rows import SpreadMap
from calibrant.recalibration.lookup import METHODS, methods_for, recalibrator
from calibrant.recalibration.methods.identity import IdentityMap

DEFAULT_FOLDS = 5


class RecalibratingEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of estimators that wrap an `estimator`, recalibrate it by a `method` and split rows by `cv`."""

    estimator: Any
    method: str | Recalibrator
    cv: Any

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata of `fit` to the estimator's `fit` and the splitter's `split`."""
        fit = MethodMapping().add(caller="fit", callee="fit")
        split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=fit).add(splitter=self.cv, method_mapping=split)

    def __sklearn_tags__(self) -> Any:
        """Sparse input and NaN are accepted if the estimator accepts them."""
        tags = super().__sklearn_tags__()
        estimator_tags = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = estimator_tags.sparse, estimator_tags.allow_nan
        return tags

    def _route(self, sample_weight: Any, fit_params: dict[str, Any]) -> Any:
        """`estimator.fit` and `splitter.split`: the keyword arguments of each."""
        if get_config()["enable_metadata_routing"]:
            metadata = fit_params if sample_weight is None else fit_params | {"sample_weight": sample_weight}
            return process_routing(self, "fit", **metadata)
        fit_kwargs = dict(fit_params)
        if sample_weight is not None and not isinstance(self.estimator, FrozenEstimator):
            if "sample_weight" in signature(self.estimator.fit).parameters:
                fit_kwargs["sample_weight"] = sample_weight
            else:
                name = type(self.estimator).__name__
                message = f"{name} does not accept sample_weight: only the recalibrator uses the weights"
                warnings.warn(message, stacklevel=3)
        return Bunch(estimator=Bunch(fit=fit_kwargs), splitter=Bunch(split={}))

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[Any, np.ndarray, Any]:
        """X, y as a vector, and the weights; arrays without rows or columns are refused, as by scikit-learn."""
        X, y = indexable(X, y)
        shape = getattr(X, "shape", None)
        if shape is not None and 0 in tuple(shape):  # a splitter would fail less clearly
            check_array(np.empty(tuple(shape)))
        y = column_or_1d(y, warn=True, **options)
        return X, y, None if sample_weight is None else _check_sample_weight(sample_weight, X)

    def _copy_feature_attributes(self, estimator: Any) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))


def is_auto(method: Any) -> bool:
    return isinstance(method, str) and method.strip() == "auto"


def unfitted_method(method: Any, task: str) -> Recalibrator:
    """An unfitted copy of `method`, a spec or a Recalibrator; refuses methods for other tasks."""
    names = methods_for(task)
    hint = f"choose from {', '.join(names)}"
    name = method.partition("(")[0].strip() if isinstance(method, str) else ""
    if isinstance(method, str) and name not in METHODS:
        raise UsageError("method", expected=f"a method for {task}", got=show(name), hint=did_you_mean(name, names))
    template = recalibrator(method) if isinstance(method, str) else method
    if not isinstance(template, Recalibrator):
        raise UsageError("method", expected="a spec or a Recalibrator", got=type(template).__name__, hint=hint)
    if task not in template.tasks:
        got = f"{show(template.name)}, which is for {', '.join(sorted(template.tasks))}"
        raise UsageError("method", expected=f"a method for {task}", got=got, hint=hint)
    options: dict[str, Any] = dict(template.options())
    return type(template)(**options)


def fit_method(method: Any, predictions: Classification | Regression) -> Recalibrator:
    """Fit `method` to predictions; "auto" selects the method with the best cross-validated score."""
    if is_auto(method):
        from calibrant.recalibration.selection import fit_method as select_and_fit

        return select_and_fit(predictions, "auto")[0]
    return unfitted_method(method, predictions.task).fit(predictions)


def split_rows(
    splitter: Any, X: Any, y: np.ndarray, split_kwargs: dict[str, Any]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) row indices of each fold; splitters may also give masks."""
    rows = np.arange(len(y))
    splits = splitter.split(X, y, **split_kwargs)
    folds = [(rows[np.asarray(train)], rows[np.asarray(test)]) for train, test in splits]
    if not folds or any(len(test) == 0 for _, test in folds):
        got = "an empty test set" if folds else "no folds"
        raise UsageError("cv", expected="folds with test rows", got=got, hint="use cv=5 or a splitter of scikit-learn")
    return folds


# ----------------------------------------------------------------------------------------- classifier
class RecalibratedClassifier(ClassifierMixin, RecalibratingEstimator):  # type: ignore[misc]
    """Wrap a classifier and recalibrate its probabilities with out-of-fold predictions.

    If the classifier has no `predict_proba`, its `decision_function` is used as logits: one per class, or a single one
    for two classes.

    Parameters
    ----------
    estimator : classifier
        Has `predict_proba` or `decision_function`. A `FrozenEstimator` is not fitted again: all rows of `fit` go to the
        recalibrator, and `cv` and `ensemble` are ignored.
    method : str or Recalibrator, default "temperature"
        A spec such as "ets(loss=brier)", or a Recalibrator, which is copied; "auto" selects the method with the best
        cross-validated NLL.
    cv : int, splitter or iterable of splits, optional
        Defaults to 5 folds, or to as many as the rarest class has rows.
    ensemble : bool, default False
        If False, one recalibrator is fitted to the predictions of all folds, and the estimator is fitted again to all
        rows. If True, every fold keeps its own estimator and recalibrator, and their probabilities are averaged.
    n_jobs : int, optional
        Number of folds fitted in parallel.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    estimators_, recalibrators_ : list
        One fitted object each, or one per fold with `ensemble=True`.
    n_features_in_, feature_names_in_
        Copied from the estimator, if it has them.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant.sklearn import RecalibratedClassifier
    >>> X, y = make_classification(400, random_state=0)
    >>> RecalibratedClassifier(GaussianNB()).fit(X, y).predict_proba(X).shape
    (400, 2)
    """

    def __init__(
        self, estimator: Any, method: str | Recalibrator = "temperature", *, cv: Any = None, ensemble: bool = False,
        n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator and the recalibrator; the estimator receives sample weights if it accepts them."""
        X, y, sample_weight = self._check_rows(X, y, sample_weight)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise LabelsError(
                "RecalibratedClassifier", expected="at least two classes", got="one class only",
                hint="pass rows of at least two classes",
            )  # fmt: skip
        routed = self._route(sample_weight, fit_params)

        def fit_recalibrator(kind: str, scores: np.ndarray, rows: Any) -> Recalibrator:
            weights = None if sample_weight is None else sample_weight[rows]
            return fit_method(self.method, Classification.build(kind, scores, labels[rows], weights=weights))

        if isinstance(self.estimator, FrozenEstimator):
            self.estimators_ = [self.estimator]
            self.recalibrators_ = [fit_recalibrator(*_scores(self.estimator, X, self.classes_), slice(None))]
        else:
            rarest = int(np.bincount(labels).min())
            cv = max(2, min(DEFAULT_FOLDS, rarest)) if self.cv is None else self.cv
            n_folds = cv if isinstance(cv, int) else getattr(cv, "n_splits", None)
            if n_folds and rarest < n_folds:
                expected = f"at least {n_folds} rows of every class for {n_folds} folds"
                got = f"{rarest} of the rarest class"
                raise UsageError("cv", expected=expected, got=got, hint="use fewer folds, or leave cv out")
            folds = split_rows(check_cv(cv, y, classifier=True), X, y, routed.splitter.split)
            fits = Parallel(n_jobs=self.n_jobs)(
                delayed(_fit_fold)(clone(self.estimator), X, y, train, test, routed.estimator.fit, self.classes_)
                for train, test in folds
            )
            kinds, scores = [kind for _, kind, _ in fits], [values for _, _, values in fits]
            tests = [test for _, test in folds]
            if self.ensemble:
                self.estimators_ = [estimator for estimator, _, _ in fits]
                self.recalibrators_ = [fit_recalibrator(*each) for each in zip(kinds, scores, tests, strict=True)]
            else:
                if len(set(kinds)) > 1:
                    raise UsageError(
                        "RecalibratedClassifier", expected="the same scores in all folds",
                        got="predict_proba in some folds and decision_function in others", hint="pass ensemble=True",
                    )  # fmt: skip
                self.recalibrators_ = [fit_recalibrator(kinds[0], np.concatenate(scores), np.concatenate(tests))]
                self.estimators_ = [clone(self.estimator).fit(X, y, **routed.estimator.fit)]
        self._copy_feature_attributes(self.estimators_[0])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Recalibrated probabilities (n, C), with columns in the order of `classes_`."""
        check_is_fitted(self)
        pairs = zip(self.estimators_, self.recalibrators_, strict=True)
        return np.mean([_recalibrate(fitted, *_scores(base, X, self.classes_)) for base, fitted in pairs], axis=0)

    def predict(self, X: Any) -> np.ndarray:
        """The class (n,) with the largest recalibrated probability."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _fit_fold(
    estimator: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray, fit_kwargs: Any, classes: np.ndarray
) -> tuple[Any, str, np.ndarray]:
    """The estimator fitted to the training rows, and the kind and values of its scores for the test rows."""
    fold_kwargs = _check_method_params(X, params=fit_kwargs, indices=train)
    estimator.fit(_safe_indexing(X, train), y[train], **fold_kwargs)
    return estimator, *_scores(estimator, _safe_indexing(X, test), classes)


def _scores(estimator: Any, X: Any, classes: np.ndarray) -> tuple[str, np.ndarray]:
    """("probs" or "logits", scores (n, C), or (n,) for two classes); classes missing in a fold get probability 0."""
    kind = "probs" if hasattr(estimator, "predict_proba") else "logits"
    values = np.asarray(estimator.predict_proba(X) if kind == "probs" else estimator.decision_function(X))
    fitted_classes = np.asarray(estimator.classes_)
    subject = type(estimator).__name__
    if np.array_equal(fitted_classes, classes):
        width = 1 if values.ndim == 1 else values.shape[1]
        if width not in ({len(classes)} if len(classes) > 2 else {1, 2}):
            expected = f"one score for each of {len(classes)} classes"
            hint = "if it has decision_function_shape, set it to 'ovr'"
            raise ShapeError(subject, expected=expected, got=f"{width} columns", hint=hint)
        return kind, values[:, 0] if width == 1 and values.ndim == 2 else values
    columns = np.searchsorted(classes, fitted_classes)
    is_subset = (columns < len(classes)).all() and np.array_equal(classes[columns], fitted_classes)
    if kind == "logits" or not is_subset:
        got, hint = f"the classes {fitted_classes.tolist()[:10]}", "fit it to labels of the same classes"
        raise LabelsError(subject, expected=f"the classes of y, {classes.tolist()[:10]}", got=got, hint=hint)
    padded = np.zeros((len(values), len(classes)))
    padded[:, columns] = values
    return kind, padded


def _recalibrate(recalibrator: Recalibrator, kind: str, scores: np.ndarray) -> np.ndarray:
    """Recalibrated probabilities (n, C) in float64."""
    after = recalibrator.transform(Classification.build(kind, scores))
    if after.kind == "probs" and after.scores.shape[2] > 1:
        values = after.scores[0].astype(np.float64)
        return values / values.sum(axis=1, keepdims=True)
    logits = as_logits(after.scores[0], after.kind)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


# ----------------------------------------------------------------------------------------- regressor
class RecalibratedRegressor(RegressorMixin, RecalibratingEstimator):  # type: ignore[misc]
    """Wrap a regressor with `predict(X, return_std=True)` and recalibrate its standard deviations.

    The recalibrator is fitted to out-of-fold predictions, and the estimator is then fitted again to all rows.

    Parameters
    ----------
    estimator : regressor
        Such as BayesianRidge or GaussianProcessRegressor. A `FrozenEstimator` is not fitted again: all rows of `fit` go
        to the recalibrator, and `cv` is ignored.
    method : str or Recalibrator, default "std"
        A method whose predictions are Gaussian: a spec such as "variance", or a Recalibrator, which is copied.
    cv : int, splitter or iterable of splits, optional
        Defaults to 5 folds.
    n_jobs : int, optional
        Number of folds fitted in parallel.

    Attributes
    ----------
    estimator_, recalibrator_
        The fitted objects.
    n_features_in_, feature_names_in_
        Copied from the estimator, if it has them.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sklearn.linear_model import BayesianRidge
    >>> from calibrant.sklearn import RecalibratedRegressor
    >>> X, y = make_regression(200, noise=3.0, random_state=0)
    >>> mean, std = RecalibratedRegressor(BayesianRidge()).fit(X, y).predict(X, return_std=True)
    >>> mean.shape, std.shape
    ((200,), (200,))
    """

    def __init__(
        self, estimator: Any, method: str | Recalibrator = "std", *, cv: Any = None, n_jobs: int | None = None
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator and the recalibrator; the estimator receives sample weights if it accepts them."""
        X, y, sample_weight = self._check_rows(X, y, sample_weight, dtype=np.float64)
        if not is_auto(self.method):
            _check_has_std(unfitted_method(self.method, "regression"))
        routed = self._route(sample_weight, fit_params)
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator_, rows = self.estimator, np.arange(len(y))
            mean, std = _mean_and_std(self.estimator, X)
        else:
            folds = split_rows(check_cv(self.cv, y), X, y, routed.splitter.split)
            parts = Parallel(n_jobs=self.n_jobs)(
                delayed(_predict_fold)(clone(self.estimator), X, y, train, test, routed.estimator.fit)
                for train, test in folds
            )
            rows, (mean, std) = np.concatenate([test for _, test in folds]), np.concatenate(parts, axis=1)
            self.estimator_ = clone(self.estimator).fit(X, y, **routed.estimator.fit)
        weights = None if sample_weight is None else sample_weight[rows]
        self.recalibrator_ = fit_method(self.method, Regression.from_gaussian(mean, std, y[rows], weights=weights))
        _check_has_std(self.recalibrator_)
        self._copy_feature_attributes(self.estimator_)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The estimator's mean (n,); with `return_std`, also the recalibrated standard deviation (n,)."""
        check_is_fitted(self)
        if not return_std:
            return self.estimator_.predict(X)
        after = self.recalibrator_.transform(Regression.from_gaussian(*_mean_and_std(self.estimator_, X)))
        return after.mean[0], after.std[0]


def _predict_fold(
    estimator: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray, fit_kwargs: Any
) -> np.ndarray:
    fold_kwargs = _check_method_params(X, params=fit_kwargs, indices=train)
    return _mean_and_std(estimator.fit(_safe_indexing(X, train), y[train], **fold_kwargs), _safe_indexing(X, test))


def _check_has_std(method: Recalibrator) -> None:
    if not issubclass(method.map_class, SpreadMap | IdentityMap):
        raise UsageError(
            f"RecalibratedRegressor: {method.name}", expected="a method whose predictions have a standard deviation",
            got="one that predicts quantiles", hint="use std or variance",
        )  # fmt: skip


def _mean_and_std(estimator: Any, X: Any) -> np.ndarray:
    """Mean and standard deviation (2, n); pipelines and searches are judged by their final estimator."""
    model = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    model = final = getattr(model, "best_estimator_", model)
    while hasattr(final, "steps"):
        final = final.steps[-1][1]
    predict = getattr(final, "predict", None)
    if predict is None or "return_std" not in signature(predict).parameters:
        raise UsageError(
            "RecalibratedRegressor",
            expected="a regressor with predict(X, return_std=True)",
            got=f"{type(final).__name__}, which has no return_std",
            hint="use BayesianRidge, GaussianProcessRegressor or another regressor that predicts its uncertainty",
        )
    return np.stack(model.predict(X, return_std=True))
