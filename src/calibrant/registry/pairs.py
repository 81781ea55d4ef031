"""What entries of the registry share: which pairs (p, y) a metric is taken of, and on what kind of predictions."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from calibrant.kernels.rows import Rows
from calibrant.predictions import Classification, Judged
from calibrant.registry.binned_error import Pairs
from calibrant.registry.metric import Option, Spec
from calibrant.scores import proper

CLASSES = frozenset({"classification"})
INFINITE = math.inf
OF = Option("of", "top", "the pairs: top = (confidence, correct), or a class by name or number")


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
    if k is None:
        return lambda rows: (rows.confidence, proper.accuracy(rows))
    return class_pairs(k)


def class_pairs(k: int) -> Pairs:
    """(p_k, 1{label = k})."""

    def pairs(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["class", k], rows.extras["label", k]

    return pairs
