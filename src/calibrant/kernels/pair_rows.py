"""Records of binary problems in one number a row: what no metric reads is not computed.

Both hold the numbers as they came, so that a few sums over many rows need no copy of them; what is asked for by the
names of `Rows` is made then, in float64, and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.predictions import Classification, Judged
from calibrant.predictions.arrays import mean_over_members


@dataclass
class JudgedRows:
    """A judged answer is a binary problem: right or wrong, P(right) = confidence."""

    n: int
    given: np.ndarray
    """Confidences (M, N)."""
    correct: np.ndarray | None = None
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    deviation: float = 0.0
    extras: dict[Hashable, Any] = field(default_factory=dict)
    lse = None
    variation_ratio = None

    def pairs(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(confidence, correct), of whatever type they came in."""
        del k
        if self.correct is None:
            raise AttributeError("these rows carry no labels")
        return (self.given[0] if len(self.given) == 1 else self.confidence), self.correct

    @cached_property
    def member_p(self) -> np.ndarray | None:
        """The members' confidences, of several members."""
        return self.given.astype(np.float64) if len(self.given) > 1 else None

    @cached_property
    def confidence(self) -> np.ndarray:
        """The mean confidence."""
        return mean_over_members(self.given.astype(np.float64, copy=False))

    @cached_property
    def predicted(self) -> np.ndarray:
        """Always "right"."""
        return np.ones(self.n, np.int32)

    @cached_property
    def hit(self) -> np.ndarray | None:
        """1 where the answer is right."""
        return None if self.correct is None else self.correct.astype(np.float64)

    @cached_property
    def label_p(self) -> np.ndarray | None:
        """The probability of what was so."""
        return None if self.correct is None else np.where(self.correct, self.confidence, 1.0 - self.confidence)

    @cached_property
    def log_label(self) -> np.ndarray | None:
        """Its logarithm."""
        with np.errstate(divide="ignore"):
            return None if self.label_p is None else np.log(self.label_p)

    @cached_property
    def entropy(self) -> np.ndarray:
        """Of right and wrong."""
        return _binary_entropy(self.confidence)

    @cached_property
    def sum_squares(self) -> np.ndarray:
        """p² + (1 − p)²."""
        return self.confidence**2 + (1.0 - self.confidence) ** 2

    @cached_property
    def expected_entropy(self) -> np.ndarray | None:
        """The mean entropy of several members."""
        return None if self.member_p is None else mean_over_members(_binary_entropy(self.member_p))


def judged_rows(judged: Judged) -> JudgedRows:
    """The record of judged answers."""
    weights = None if judged.weights is None else judged.weights / judged.info.weight_unit
    return JudgedRows(judged.n, judged.confidence, judged.correct, weights)


def _binary_entropy(p: np.ndarray) -> np.ndarray:
    from scipy.special import entr

    return entr(p) + entr(1.0 - p)


class _ClassExtras(dict[Hashable, Any]):
    """p_k under ("class", k) and 1{label = k} under ("label", k), made when they are asked for."""

    def __init__(self, p: np.ndarray, labels: np.ndarray | None, known: dict[Hashable, Any]) -> None:
        super().__init__(known)
        self.p, self.labels = p, labels

    def __missing__(self, key: Any) -> np.ndarray:
        what, k = key
        if what == "class":
            p = self.p.astype(np.float64)
            self[key] = p if k == 1 else 1.0 - p
        elif what == "label" and self.labels is not None:
            self[key] = (self.labels == k).astype(np.float64)
        else:
            raise KeyError(key)
        return self[key]


def is_binary(p: Classification, wanted: frozenset[Hashable]) -> bool:
    """Whether P(class 1) of one model is all that is given, and no more than classes is wanted; NaN is for the pass."""
    classes = all(isinstance(want, tuple) and want[0] == "class" for want in wanted) and wanted
    one = p.scores.shape[0] == p.scores.shape[2] == 1 and p.kind == "probs" and p.label_probs is None
    native = p.scores.dtype in (np.float32, np.float64) and p.scores.dtype.isnative
    return bool(one and classes and native and not np.isnan(p.scores.min()))


@dataclass
class BinaryRows:
    """P(class 1) of one model, given as such; anything of `Rows` but classes and labels comes from the whole pass."""

    n: int
    p: np.ndarray
    labels: np.ndarray | None
    whole_pass: Callable[[np.ndarray, np.ndarray | None], Any]
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    deviation: float = 0.0
    extras: dict[Hashable, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.extras = _ClassExtras(self.p, self.labels, self.extras)

    def pairs(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(p_k, 1{label = k}), of class 1 as they came; or (confidence, correct)."""
        if k is None:
            return self.whole.confidence, self.whole.hit
        if k == 1 and self.labels is not None:
            return self.p, self.labels
        return self.extras["class", k], self.extras["label", k]

    @cached_property
    def whole(self) -> Any:
        """The record of the whole pass."""
        return self.whole_pass(self.p, self.labels)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("whole", "whole_pass", "p", "labels", "n"):
            raise AttributeError(name)
        return getattr(self.whole, name)
