"""A classifier of scikit-learn whose probabilities are recalibrated, by rows that it was not fitted to.

Where the estimator has `predict_proba`, its probabilities are recalibrated; otherwise its `decision_function` counts as
logits, of which there must be one per class, or one in all for two classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _check_sample_weight, check_is_fitted

from calibrant.predictions.classification import Classification
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.class_rows import as_logits
from calibrant.sklearn.fitting import fitted_method, folds_of, keep_features, refuse_nothing, routed, router_of

FOLDS = 5


class Recalibrated(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier and a recalibrator of what it predicts for rows that it was not fitted to.

    Parameters
    ----------
    estimator : a classifier with `predict_proba` or `decision_function`. One in a `FrozenEstimator` is not fitted
        again: all rows of `fit` then serve the recalibrator, and `cv` and `ensemble` are not looked at.
    method : the method of recalibration, as text such as "ets(loss=brier)", or as a Recalibrator, which is copied;
        "auto" takes the one with the best cross-validated NLL.
    cv : the number of folds, a splitter, or splits, as everywhere in scikit-learn. None stands for 5, or for as
        many as the rarest class has rows.
    ensemble : False: predictions of all folds fit one recalibrator, and the estimator is fitted again to all rows.
        True: an estimator and a recalibrator for each fold, whose probabilities are averaged.
    n_jobs : folds that are fitted at a time.

    Attributes
    ----------
    classes_ : the class labels (C,).
    estimators_, recalibrators_ : what was fitted; of each one, or one for each fold of an ensemble.
    n_features_in_, feature_names_in_ : as the estimator has them.
    """

    def __init__(
        self,
        estimator: Any,
        method: str | Recalibrator = "temperature",
        *,
        cv: Any = None,
        ensemble: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit estimator and recalibrator; sample weights serve both where the estimator takes them."""
        X, y = indexable(X, y)
        refuse_nothing(X)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Recalibrated needs at least two classes; the labels are of one class only")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        job = _Job(X, y, labels, self.classes_, sample_weight, routed(self, sample_weight, fit_params))
        if isinstance(self.estimator, FrozenEstimator):
            self._fit_frozen(job)
        else:
            self._fit_folds(job)
        keep_features(self, self.estimators_[0])
        return self

    def _fit_frozen(self, job: _Job) -> None:
        self.estimators_ = [self.estimator]
        self.recalibrators_ = [job.recalibrator(self.method, job.scores(self.estimator), None)]

    def _fit_folds(self, job: _Job) -> None:
        folds = self._folds(job)
        pairs = Parallel(n_jobs=self.n_jobs)(delayed(job.of_fold)(clone(self.estimator), *fold) for fold in folds)
        if self.ensemble:
            self.estimators_ = [estimator for estimator, _ in pairs]
            fitted = zip(pairs, folds, strict=True)
            self.recalibrators_ = [job.recalibrator(self.method, scores, test) for (_, scores), (_, test) in fitted]
            return
        _refuse_two_kinds([kind for _, (kind, _) in pairs])
        scores = np.concatenate([values for _, (_, values) in pairs])
        tests = np.concatenate([test for _, test in folds])
        self.recalibrators_ = [job.recalibrator(self.method, (pairs[0][1][0], scores), tests)]
        self.estimators_ = [job.of_all(clone(self.estimator))]

    def _folds(self, job: _Job) -> list[tuple[np.ndarray, np.ndarray]]:
        """(train, test) row numbers; a class must not be rarer than there are folds."""
        rarest = int(np.bincount(job.labels).min())
        wanted = max(2, min(FOLDS, rarest)) if self.cv is None else self.cv
        n_folds = wanted if isinstance(wanted, int) else getattr(wanted, "n_splits", None)
        if n_folds and rarest < n_folds:
            raise ValueError(f"{n_folds} folds need {n_folds} rows of every class, but the rarest class has {rarest}")
        splitter = check_cv(wanted, job.y, classifier=True)
        return folds_of(splitter, job.X, job.y, job.routed)

    # -------------------------------------------------------------------------------------- predict
    def predict_proba(self, X: Any) -> np.ndarray:
        """Recalibrated probabilities (n, C), the classes in the order of `classes_`."""
        check_is_fitted(self)
        parts = zip(self.estimators_, self.recalibrators_, strict=True)
        return np.mean([_recalibrated(made, _scores(estimator, X, self.classes_)) for estimator, made in parts], axis=0)

    def predict(self, X: Any) -> np.ndarray:
        """The class (n,) of the largest recalibrated probability."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    # -------------------------------------------------------------------------------------- routing
    def get_metadata_routing(self) -> MetadataRouter:
        """Where what is given to `fit` goes: to the estimator and to the splitter."""
        return router_of(self)

    def __sklearn_tags__(self) -> Any:
        """What the estimator takes, this takes."""
        tags = super().__sklearn_tags__()
        of_estimator = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = of_estimator.sparse, of_estimator.allow_nan
        return tags


class _Job:
    """The rows of one fit, and what is done with some of them."""

    def __init__(self, X: Any, y: np.ndarray, labels: np.ndarray, classes: np.ndarray, weights: Any, routed: Any):
        self.X, self.y, self.labels, self.classes = X, y, labels, classes
        self.weights, self.routed = weights, routed

    def of_all(self, estimator: Any) -> Any:
        """The estimator, fitted to all rows."""
        return estimator.fit(self.X, self.y, **self.routed.estimator.fit)

    def of_fold(self, estimator: Any, train: np.ndarray, test: np.ndarray) -> tuple[Any, tuple[str, np.ndarray]]:
        """The estimator, fitted to some rows, and its scores of others."""
        passed = _check_method_params(self.X, params=self.routed.estimator.fit, indices=train)
        estimator.fit(_safe_indexing(self.X, train), self.y[train], **passed)
        return estimator, _scores(estimator, _safe_indexing(self.X, test), self.classes)

    def scores(self, estimator: Any) -> tuple[str, np.ndarray]:
        """The scores of all rows."""
        return _scores(estimator, self.X, self.classes)

    def recalibrator(self, method: str | Recalibrator, scores: tuple[str, np.ndarray], rows: Any) -> Recalibrator:
        """The method, fitted to the scores of these rows; None stands for all."""
        kind, values = scores
        part = slice(None) if rows is None else rows
        weights = None if self.weights is None else self.weights[part]
        return fitted_method(method, Classification.build(kind, values, self.labels[part], weights=weights))


# ------------------------------------------------------------------------------------------- scores
def _scores(estimator: Any, X: Any, classes: np.ndarray) -> tuple[str, np.ndarray]:
    """("probs" or "logits", scores (n, C), or (n,) of two classes), with columns for classes that were not seen."""
    kind = "probs" if hasattr(estimator, "predict_proba") else "logits"
    values = np.asarray(estimator.predict_proba(X) if kind == "probs" else estimator.decision_function(X))
    known = np.asarray(estimator.classes_)
    if np.array_equal(known, classes):
        width = 1 if values.ndim == 1 else values.shape[1]
        if width not in ({len(classes)} if len(classes) > 2 else {1, 2}):
            raise ValueError(f"expected one score for each of {len(classes)} classes, but there are {width} columns")
        return kind, values[:, 0] if width == 1 and values.ndim == 2 else values
    at = np.searchsorted(classes, known)
    if kind == "logits" or (at >= len(classes)).any() or not np.array_equal(classes[at], known):
        raise ValueError(f"the estimator knows the classes {known.tolist()[:10]}, the labels {classes.tolist()[:10]}")
    wide = np.zeros((len(values), len(classes)))
    wide[:, at] = values
    return kind, wide


def _recalibrated(made: Recalibrator, scores: tuple[str, np.ndarray]) -> np.ndarray:
    """Probabilities (n, C) in float64."""
    after = made.transform(Classification.build(scores[0], scores[1]))
    if after.kind == "probs" and after.scores.shape[2] > 1:
        values = after.scores[0].astype(np.float64)
        return values / values.sum(axis=1, keepdims=True)
    logits = as_logits(after.scores[0], after.kind)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _refuse_two_kinds(kinds: Iterable[str]) -> None:
    if len(set(kinds)) > 1:
        raise ValueError("some folds have predict_proba and some have not")
