"""Statistics of the labels themselves: not scores, but a well-specified model reproduces them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import NotApplicable
from calibrant.registry.metric import Option
from calibrant.results import check as names


@dataclass(frozen=True)
class LabelStatistic:
    """A statistic of the labels that is not a metric of the registry."""

    name: str
    title: str
    definition: str
    tasks: frozenset[str]
    function: Callable[..., Any]
    options: tuple[Option, ...] = ()
    """The options of `function`; without a class option, the statistic expands to all classes."""


def class_frequency(labels: np.ndarray, predictions: Any, of: int) -> Any:
    """The fraction of rows whose label is the class; labels (…, N)."""
    return _mean(labels == of, predictions)


def confusion(labels: np.ndarray, predictions: Any, true: int, predicted: int) -> Any:
    """The fraction of all rows with this label and this predicted class."""
    return _mean((labels == true) & (predictions.scores[0].argmax(axis=-1) == predicted), predictions)


def entropy(labels: np.ndarray, predictions: Any) -> Any:
    """−Σ f_c log f_c of the label frequencies, smallest first, so that permuted classes give the same bits."""
    shares = np.sort([class_frequency(labels, predictions, of) for of in range(predictions.classes)], axis=0)
    return sum(-f * np.log(np.where(f > 0, f, 1.0)) for f in map(np.asarray, shares))


def mean(y: np.ndarray, predictions: Any) -> Any:
    """The mean outcome."""
    return _mean(y, predictions)


def smallest(y: np.ndarray, predictions: Any) -> Any:
    """The smallest outcome; rows of weight 0 do not count."""
    return _with_weight(y, predictions).min(axis=-1)


def largest(y: np.ndarray, predictions: Any) -> Any:
    """The largest outcome; rows of weight 0 do not count."""
    return _with_weight(y, predictions).max(axis=-1)


def quantile(y: np.ndarray, predictions: Any, level: float) -> Any:
    """The quantile of the outcomes, interpolated linearly."""
    if predictions.weights is not None:
        raise NotApplicable(
            "quantile", expected="rows without weights", got="weighted rows", hint="omit quantile, or the weights"
        )
    return np.quantile(y, level, axis=-1)


def _with_weight(y: np.ndarray, predictions: Any) -> np.ndarray:
    return y if predictions.weights is None else y[..., predictions.weights > 0]


def _mean(values: np.ndarray, predictions: Any) -> Any:
    return np.average(values, axis=-1, weights=predictions.weights)


CLASSIFICATION, REGRESSION = frozenset({"classification"}), frozenset({"regression"})
CLASS_FREQUENCY = LabelStatistic(
    names.CLASS_FREQUENCY,
    "Class frequency",
    "Fraction of rows whose label is the class of=; without it, one statistic for every class.",
    CLASSIFICATION,
    class_frequency,
    (Option("of", "", "a class, by name or number"),),
)
CONFUSION = LabelStatistic(
    "confusion",
    "Confusion",
    "Fraction of all rows with label true= and predicted class predicted=; without them, one for every cell.",
    CLASSIFICATION,
    confusion,
    (Option("true", "", "the class of the label"), Option("predicted", "", "the predicted class")),
)
ENTROPY = LabelStatistic(
    "entropy",
    "Entropy of the labels",
    "−Σ f_c log f_c of the label frequencies f. (The mean entropy of the predictions cannot be checked, "
    "because it does not depend on labels.)",
    CLASSIFICATION,
    entropy,
)
MEAN = LabelStatistic(names.MEAN, "Mean", "Mean outcome.", REGRESSION, mean)
MIN = LabelStatistic("min", "Smallest value", "Smallest outcome.", REGRESSION, smallest)
MAX = LabelStatistic("max", "Largest value", "Largest outcome.", REGRESSION, largest)
QUANTILE = LabelStatistic(
    "quantile",
    "Quantile",
    "Quantile of the outcomes at level=, interpolated linearly.",
    REGRESSION,
    quantile,
    (Option("level", 0.5, "the level of the quantile", at_least=0.0, at_most=1.0),),
)
OWN = {own.name: own for own in (CLASS_FREQUENCY, CONFUSION, ENTROPY, MEAN, MIN, MAX, QUANTILE)}
"""Statistics of the labels themselves, by name."""
