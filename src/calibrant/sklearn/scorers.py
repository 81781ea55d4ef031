"""Classification metrics as scikit-learn scorers, where greater is better for every metric."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from calibrant.errors import UsageError, show
from calibrant.pipeline.measure import measure
from calibrant.predictions.classification import Classification
from calibrant.registry.lookup import parse

SIGNS = {"higher": 1.0, "lower": -1.0}


class Scorer:
    """A metric of `predict_proba`, called as `scorer(estimator, X, y)`; negated if lower is better.

    The classes are the estimator's, even if some of them have no rows. A label that the estimator does not know has
    probability 0.

    Parameters
    ----------
    metric : str
        A spec such as "nll" or "ece(bins=10)".
    """

    def __init__(self, metric: str) -> None:
        spec = parse(metric)
        if "classification" not in spec.metric.tasks or spec.metric.direction not in SIGNS:
            raise UsageError(
                "scorer", expected="a classification metric for which higher or lower is better", got=show(spec.text),
                hint="use nll, brier or ece, or list all with `calibrant metrics`",
            )  # fmt: skip
        self.metric, self.sign = spec.text, SIGNS[spec.metric.direction]
        self._sample_weight_request: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The signed metric of the estimator's probabilities for these rows."""
        if not hasattr(estimator, "predict_proba"):
            raise UsageError(
                "scorer", expected="a classifier with predict_proba", got=type(estimator).__name__,
                hint="wrap it: calibrant.sklearn.RecalibratedClassifier(estimator)",
            )  # fmt: skip
        probs, classes = np.asarray(estimator.predict_proba(X)), np.asarray(estimator.classes_)
        values = np.asarray(y)
        new_classes = np.setdiff1d(values, classes)
        classes = np.concatenate([classes, new_classes]) if len(new_classes) else classes
        order = np.argsort(classes)
        labels = order[np.searchsorted(classes, values, sorter=order)]
        padded = np.hstack([probs, np.zeros((len(probs), len(new_classes)), probs.dtype)])
        name = type(estimator).__name__
        rows = Classification.from_probs(padded, labels, classes=classes, weights=sample_weight, name=name)
        return self.sign * measure(rows, [self.metric])[self.metric]

    def __repr__(self) -> str:
        return f"scorer({self.metric!r})"

    def set_score_request(self, *, sample_weight: bool | str | None = UNCHANGED) -> Self:
        """Set whether sample weights are requested when metadata routing is enabled."""
        if sample_weight != UNCHANGED:
            self._sample_weight_request = sample_weight
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """The metadata that this scorer requests."""
        requests = MetadataRequest(owner=self)
        requests.score.add_request(param="sample_weight", alias=self._sample_weight_request)
        return requests


def scorer(metric: str) -> Scorer:
    """Make a scorer for `cross_val_score`, `GridSearchCV` and the like from a classification metric.

    Examples
    --------
    >>> from calibrant.sklearn import scorer
    >>> scorer("ece(bins=10)")
    scorer('ece(bins=10)')
    """
    return Scorer(metric)
