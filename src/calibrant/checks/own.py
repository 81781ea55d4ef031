"""Statistics of the labels themselves: no metric judges by them, but a model that fits reproduces them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import NotApplicable
from calibrant.registry.metric import Option


@dataclass(frozen=True)
class Own:
    """A statistic of labels that is no metric: nothing is judged by it, but a model that fits reproduces it."""

    name: str
    title: str
    definition: str
    tasks: frozenset[str]
    function: Callable[..., Any]
    options: tuple[Option, ...] = ()
    """The options of `function`; those that name classes may be left out, and all classes are meant."""


def class_frequency(labels: np.ndarray, predictions: Any, of: int) -> Any:
    """The share of rows whose label is the class; labels (…, N)."""
    return _mean(labels == of, predictions)


def confusion(labels: np.ndarray, predictions: Any, true: int, predicted: int) -> Any:
    """The share of all rows whose label is one class and whose predicted class is another."""
    return _mean((labels == true) & (_predicted(predictions) == predicted), predictions)


def entropy(labels: np.ndarray, predictions: Any) -> Any:
    """−Σ f_c log f_c of the frequencies of the labels, the smallest first: the same ones of other classes tie."""
    shares = np.sort([class_frequency(labels, predictions, of) for of in range(predictions.classes)], axis=0)
    return sum(-f * np.log(np.where(f > 0, f, 1.0)) for f in map(np.asarray, shares))


def mean(y: np.ndarray, predictions: Any) -> Any:
    """The mean of what came true."""
    return _mean(y, predictions)


def smallest(y: np.ndarray, predictions: Any) -> Any:
    """The smallest value; rows without weight do not count."""
    return _counting(y, predictions).min(axis=-1)


def largest(y: np.ndarray, predictions: Any) -> Any:
    """The largest value; rows without weight do not count."""
    return _counting(y, predictions).max(axis=-1)


def quantile(y: np.ndarray, predictions: Any, level: float) -> Any:
    """The quantile of what came true, linear between neighbours."""
    if predictions.weights is not None:
        raise NotApplicable(
            "quantile", expected="rows that count alike", came="these have weights", do="leave it, or the weights, out"
        )
    return np.quantile(y, level, axis=-1)


def _counting(y: np.ndarray, predictions: Any) -> np.ndarray:
    return y if predictions.weights is None else y[..., predictions.weights > 0]


def _mean(values: np.ndarray, predictions: Any) -> Any:
    weights = predictions.weights
    return np.average(values, axis=-1, weights=weights)


def _predicted(predictions: Any) -> np.ndarray:
    return predictions.scores[0].argmax(axis=-1)


CLASSES, NUMBERS = frozenset({"classification"}), frozenset({"regression"})
OWN = {
    own.name: own
    for own in (
        Own(
            "class_frequency",
            "Class frequency",
            "Share of rows whose label is the class of=; without it, of every class.",
            CLASSES,
            class_frequency,
            (Option("of", "", "a class, by name or number"),),
        ),
        Own(
            "confusion",
            "Confusion",
            "Share of all rows with label true= and predicted class predicted=; without them, of every cell.",
            CLASSES,
            confusion,
            (Option("true", "", "the class of the label"), Option("predicted", "", "the predicted class")),
        ),
        Own(
            "entropy",
            "Entropy of the labels",
            "−Σ f_c log f_c of the frequencies f of the labels. (The mean entropy of predictions does not depend on "
            "labels: there is nothing to check.)",
            CLASSES,
            entropy,
        ),
        Own("mean", "Mean", "Mean of what came true.", NUMBERS, mean),
        Own("min", "Smallest value", "Smallest of what came true.", NUMBERS, smallest),
        Own("max", "Largest value", "Largest of what came true.", NUMBERS, largest),
        Own(
            "quantile",
            "Quantile",
            "Quantile of what came true at level=, linear between neighbours.",
            NUMBERS,
            quantile,
            (Option("level", 0.5, "its level", at_least=0.0, at_most=1.0),),
        ),
    )
}
"""Statistics of the labels themselves, by name."""
