"""Per-row records of binary problems with one number per row; columns are computed when a metric reads them.

Records reference the given arrays, so that a few sums over many rows need no copy. The attributes of `Rows` are
computed on first use, in float64, and cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.kernels.records import Record
from calibrant.predictions import Classification
from calibrant.predictions.arrays import mean_over_members


@dataclass
class DetectionRows(Record):
    """OOD detection; `outside` is 1 for OOD rows, 0 for others."""

    score: np.ndarray
    outside: np.ndarray


@dataclass
class JudgedRows(Record):
    """Confidence and correctness as a binary problem: right or wrong, P(right) = confidence."""

    given: np.ndarray
    """Confidences (M, N)."""
    correct: np.ndarray | None = None
    lse = None
    variation_ratio = None

    def pairs(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(confidence, correct), in their original types."""
        del k
        if self.correct is None:
            raise AttributeError("these rows carry no labels")
        return (self.given[0] if len(self.given) == 1 else self.confidence), self.correct

    @cached_property
    def member_p(self) -> np.ndarray | None:
        """Confidences of the members, if there are several."""
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
        """The probability of the observed outcome."""
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


def _binary_entropy(p: np.ndarray) -> np.ndarray:
    from scipy.special import entr

    return entr(p) + entr(1.0 - p)


class _ClassExtras(dict[Hashable, Any]):
    """p_k under ("class", k) and 1{label = k} under ("label", k), computed on first use."""

    def __init__(self, p: np.ndarray, labels: np.ndarray | None, known: dict[Hashable, Any]) -> None:
        super().__init__(known)
        self.p, self.labels = p, labels

    def __missing__(self, key: Any) -> np.ndarray:
        kind, k = key
        if kind == "class":
            p = self.p.astype(np.float64)
            self[key] = p if k == 1 else 1.0 - p
        elif kind == "label" and self.labels is not None:
            self[key] = (self.labels == k).astype(np.float64)
        else:
            raise KeyError(key)
        return self[key]


def is_binary(p: Classification, columns: frozenset[Hashable]) -> bool:
    """Whether one model gives P(class 1) only, without NaN, and only class columns are requested."""
    classes = all(isinstance(key, tuple) and key[0] == "class" for key in columns) and columns
    one = p.scores.shape[0] == p.scores.shape[2] == 1 and p.kind == "probs" and p.label_probs is None
    native = p.scores.dtype in (np.float32, np.float64) and p.scores.dtype.isnative
    return bool(one and classes and native and not np.isnan(p.scores.min()))


@dataclass
class BinaryRows(Record):
    """P(class 1) of one model; attributes of `Rows` other than classes and labels come from the full pass."""

    p: np.ndarray
    labels: np.ndarray | None
    whole_pass: Callable[[np.ndarray, np.ndarray | None], Any]

    def __post_init__(self) -> None:
        self.extras = _ClassExtras(self.p, self.labels, self.extras)

    def pairs(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(p_k, 1{label = k}), in the original types for class 1; or (confidence, correct)."""
        if k is None:
            return self.whole.confidence, self.whole.hit
        if k == 1 and self.labels is not None:
            return self.p, self.labels
        return self.extras["class", k], self.extras["label", k]

    @cached_property
    def whole(self) -> Any:
        """The record of the full pass."""
        return self.whole_pass(self.p, self.labels)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("whole", "whole_pass", "p", "labels", "n"):
            raise AttributeError(name)
        return getattr(self.whole, name)
