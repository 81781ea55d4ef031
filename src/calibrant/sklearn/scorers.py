"""Metrics of classification as scikit-learn's scorers: greater is better, whatever the metric."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from calibrant.errors import UsageError, show
from calibrant.evaluation.evaluate import measure
from calibrant.predictions.classification import Classification
from calibrant.registry import parse

SIGNS = {"higher": 1.0, "lower": -1.0}


class Scorer:
    """`scorer(estimator, X, y)`: a metric of `predict_proba`, with its sign such that greater is better.

    Classes are those of the estimator, whether or not these rows have them all. A label that the estimator does not
    know has probability 0.
    """

    def __init__(self, metric: str) -> None:
        """metric: a spec such as "nll" or "ece(bins=10)"."""
        spec = parse(metric)
        if "classification" not in spec.metric.tasks or spec.metric.direction not in SIGNS:
            raise UsageError(
                "scorer",
                expected="a metric of class predictions that is better when higher or when lower",
                came=f"got {show(spec.text)}",
                do="see `calibrant metrics`, or take nll, brier or ece",
            )
        self.metric, self.sign = spec.text, SIGNS[spec.metric.direction]
        self._requested: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The metric of the estimator's probabilities for these rows."""
        return self.sign * measure(_predictions(estimator, X, y, sample_weight), [self.metric])[self.metric]

    def __repr__(self) -> str:
        return f"scorer({self.metric!r})"

    def set_score_request(self, *, sample_weight: bool | str | None = UNCHANGED) -> Self:
        """Whether sample weights are asked for, where metadata routing is on."""
        if sample_weight != UNCHANGED:
            self._requested = sample_weight
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """What is asked for."""
        requests = MetadataRequest(owner=self)
        requests.score.add_request(param="sample_weight", alias=self._requested)
        return requests


def scorer(metric: str) -> Scorer:
    """A scorer for `cross_val_score` and the like, of any metric of class predictions: scorer("ece(bins=10)")."""
    return Scorer(metric)


def _predictions(estimator: Any, X: Any, y: Any, weights: Any) -> Classification:
    if not hasattr(estimator, "predict_proba"):
        raise UsageError(
            "scorer",
            expected="a classifier with predict_proba",
            came=f"got {type(estimator).__name__}",
            do="wrap it: calibrant.sklearn.Recalibrated(estimator)",
        )
    probs, known = np.asarray(estimator.predict_proba(X)), np.asarray(estimator.classes_)
    values = np.asarray(y)
    strange = np.setdiff1d(values, known)
    classes = np.concatenate([known, strange]) if len(strange) else known
    order = np.argsort(classes)
    labels = order[np.searchsorted(classes, values, sorter=order)]
    wide = np.hstack([probs, np.zeros((len(probs), len(strange)), probs.dtype)])
    return Classification.from_probs(wide, labels, classes=classes, weights=weights, name=type(estimator).__name__)
