"""Which pairs (p, y) a metric is taken of, and on what kind of predictions. Pairs of equal settings are equal."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.kernels.detection_rows import DetectionRows
from calibrant.kernels.rows import RANK, Rows
from calibrant.predictions import Classification, Judged
from calibrant.registry.metric import Option, Spec
from calibrant.scores import proper
from calibrant.scores.uncertainty import ROW_SCORES

CLASSES = frozenset({"classification"})
INFINITE = math.inf
OF = Option("of", "top", "the pairs: top = (confidence, correct), or a class by name or number")


class Pairs:
    """The p and y of each row; equal settings make equal pairs."""

    def __call__(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """p and y (N,), in float64."""
        raise NotImplementedError

    def given(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """The same of whatever type they came in, where that saves time."""
        return self(rows)

    def chance(self, rows: Any) -> np.ndarray | None:
        """P(y = 1) (N,) if the predictions are right; None where it is p."""
        del rows
        return None


@dataclass(frozen=True)
class TopPairs(Pairs):
    """(confidence, correct)."""

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.confidence, proper.accuracy(rows)

    def given(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """As they came."""
        return rows.pairs()


@dataclass(frozen=True)
class ClassPairs(Pairs):
    """(p_k, 1{label = k})."""

    k: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["class", self.k], rows.extras["label", self.k]

    def given(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """As they came."""
        return rows.pairs(self.k)


@dataclass(frozen=True)
class TopMassPairs(Pairs):
    """(mass of the k most probable classes, label is among them)."""

    k: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["top_mass", self.k], (rows.extras[RANK] < self.k).astype(np.float64)


@dataclass(frozen=True)
class RankedPairs(Pairs):
    """(probability of the k-th most probable class, label is that class)."""

    k: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["ranked", self.k], (rows.extras[RANK] == self.k - 1).astype(np.float64)


@dataclass(frozen=True)
class UncertaintyPairs(Pairs):
    """(entropy/log C, wrong); a right prediction is wrong with probability 1 − confidence, not with its entropy."""

    classes: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(rows.entropy / math.log(self.classes), 1.0), 1.0 - proper.accuracy(rows)

    def chance(self, rows: Rows) -> np.ndarray | None:
        """One minus the confidence."""
        return 1.0 - rows.confidence


@dataclass(frozen=True)
class ErrorPairs(Pairs):
    """(a row's uncertainty by name, wrong)."""

    score: str

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return ROW_SCORES[self.score].of(rows), 1.0 - proper.accuracy(rows)


@dataclass(frozen=True)
class ScorePairs(Pairs):
    """(score, from outside)."""

    def __call__(self, rows: DetectionRows) -> tuple[np.ndarray, np.ndarray]:
        return rows.score, rows.outside


def of_class(spec: Spec, predictions: Classification | Judged) -> int | None:
    """The class whose probability is meant, or None for the top label."""
    if spec["of"] == "top" or isinstance(predictions, Judged):
        return None
    return predictions.class_index(str(spec["of"]))


def wanted_class(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
    """What the pass must keep for the pairs of this spec."""
    k = of_class(spec, predictions)
    return frozenset() if k is None else frozenset({("class", k)})


def pairs_of(spec: Spec, predictions: Classification | Judged) -> Pairs:
    """(confidence, correct), or the pairs of the class that `of` names."""
    k = of_class(spec, predictions)
    return TopPairs() if k is None else ClassPairs(k)
