"""The inputs of maps of class predictions: log-probabilities, labels and row weights.

A map acts on ℓ = log softmax(logits) whether logits, log-probabilities or probabilities were given, so that all three
give the same fit. ℓ is clipped from below at log 2⁻¹⁰²²; for probabilities at log 2⁻¹²⁶, the smallest normal number in
single precision, so that the precision in which they were stored does not matter.
Judged answers are two classes, wrong (0) and right (1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.errors import LabelsError
from calibrant.kernels.exact import exact_sum
from calibrant.predictions.arrays import check_scores
from calibrant.predictions.classification import Classification, two_class_scores
from calibrant.predictions.judged import Judged
from calibrant.recalibration.base import FitState, Map, Recalibrator, normalized_weights
from calibrant.recalibration.fit_report import FitReport

FLOOR = -1022.0 * float(np.log(2.0))
PROBS_FLOOR = -126.0 * float(np.log(2.0))
"""For probabilities: smaller ones are 0 in single precision, or nearly so."""
BLOCK = 1 << 20
"""Scores that are converted to float64 at a time."""
SUM_TOLERANCE = 1e-6
"""How far the probabilities of a trial row may be from summing to one."""
MARGIN = 4e-15
"""How far the predicted class is kept above those before it, relative to max(1, |log g|)."""


# ------------------------------------------------------------------------------- log-probabilities
def as_logits(block: np.ndarray, kind: str) -> np.ndarray:
    """Scores (…, n, C) as logits in float64; a single P(class 1) becomes two columns."""
    block = block.astype(np.float64)
    if block.shape[-1] == 1:
        block = two_class_scores(block[..., 0], kind)
    if kind != "probs":
        return block
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(block)


def all_logits(predictions: Classification) -> np.ndarray:
    """All logits (M, N, C) in C order, float32 or float64; without a copy if they are stored like that."""
    p, out = predictions, np.empty((0, 0, 0))
    step = max(1, BLOCK // (p.members * p.classes)) if p.kind == "probs" else None
    for start, block in p.score_blocks(step):
        if p.kind == "probs":
            block = as_logits(block, "probs").astype(block.dtype)
        if block.shape[1] == p.n:
            return block
        if not out.size:
            out = np.empty((p.members, p.n, p.classes), block.dtype)
        out[:, start : start + block.shape[1]] = block
    return out


def check_rows(predictions: Classification) -> None:
    """Refuse invalid scores, with the messages of `predictions.arrays`."""
    for start, block in predictions.score_blocks(max(1, BLOCK // (predictions.members * predictions.classes))):
        check_scores(block, predictions.kind, start)


def log_floor(kind: str) -> float:
    """The lower limit of log-probabilities for a kind of scores."""
    return PROBS_FLOOR if kind == "probs" else FLOOR


def log_blocks(predictions: Classification, member: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, ℓ (n, C) in float64) of one member in blocks of rows; invalid scores are refused."""
    step = max(1, BLOCK // predictions.classes)
    for start in range(0, predictions.n, step):
        block = predictions.scores[member : member + 1, start : start + step]
        wide = two_class_scores(block[..., 0], predictions.kind) if block.shape[-1] == 1 else block
        check_scores(wide, predictions.kind, start)
        log_probs = log_softmax(as_logits(block, predictions.kind)[0], axis=-1)
        yield start, np.maximum(log_probs, log_floor(predictions.kind))


def as_classification(predictions: Classification | Judged) -> Classification:
    """Judged answers as two classes, wrong and right; class predictions unchanged."""
    if isinstance(predictions, Classification):
        return predictions
    labels = None if predictions.correct is None else predictions.correct.astype(np.int64)
    return Classification(
        kind="probs", scores=predictions.confidence[:, :, None], labels=labels, label_probs=None, class_names=None,
        member_names=None, info=predictions.info,
    )  # fmt: skip


def keep_top_class(output: np.ndarray, log_probs: np.ndarray) -> np.ndarray:
    """Raise the predicted class of `log_probs` (n, C) above the others in `output`, in place, where rounding lost it.

    Of equal log-probabilities the first class is predicted: it stays above those before it by a margin.
    """
    top, rows = log_probs.argmax(axis=1), np.arange(len(log_probs))
    before = np.where(np.arange(log_probs.shape[1]) < top[:, None], output, -np.inf).max(axis=1)
    highest = output.max(axis=1)
    margin = MARGIN * np.maximum(1.0, np.abs(highest))
    low = (output[rows, top] < before + margin) | (output[rows, top] < highest)
    output[rows[low], top[low]] = (highest + margin)[low]
    return output


@dataclass(frozen=True)
class ClassRows:
    """The rows of one member, or of the average, that a map is fitted to."""

    predictions: Classification
    """One member."""

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.predictions.n

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.predictions.classes

    @cached_property
    def labels(self) -> np.ndarray:
        """The label (n,) of each row."""
        if self.predictions.labels is None:
            raise LabelsError(
                f"recalibration: {self.predictions.name}", expected="a label for each row", got="soft labels only",
                hint="fit on held-out rows with hard labels",
            )  # fmt: skip
        return np.ascontiguousarray(self.predictions.labels, np.int64)

    @cached_property
    def row_weights(self) -> np.ndarray:
        """The weight (n,) of each row, normalised to sum to one: a loss is Σ row_weights · loss of the row."""
        return normalized_weights(self.predictions)

    @cached_property
    def log_probs(self) -> np.ndarray:
        """ℓ (n, C) in float64."""
        out = np.empty((self.n, self.classes))
        for start, block in log_blocks(self.predictions):
            out[start : start + len(block)] = block
        return out

    @cached_property
    def class_counts(self) -> np.ndarray:
        """The number of rows with positive weight (C,) of each class."""
        return np.bincount(self.labels[self.row_weights > 0], minlength=self.classes)

    def at_label(self, scores: np.ndarray) -> np.ndarray:
        """The score (n,) of each row's label."""
        return scores[np.arange(self.n), self.labels]

    def nll(self, log_probs: np.ndarray) -> float:
        """The weighted mean negative log-likelihood of log-probabilities (n, C)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(self.row_weights > 0, -self.row_weights * self.at_label(log_probs), 0.0)
        return exact_sum(terms) if np.isfinite(terms).all() else float("inf")


# ------------------------------------------------------------------------------------------- methods
@dataclass(frozen=True)
class ClassMap(Map):
    """A map of the log-probabilities of C classes."""

    kind: ClassVar[str] = "log_probs"
    """What `apply` returns: "log_probs" or "probs"."""

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        """Recalibrated predictions (n, C), which sum to one, from ℓ (n, C)."""
        raise NotImplementedError

    def is_usable(self, classes: int) -> bool:
        rows = np.vstack([np.zeros(classes), np.random.default_rng(0).normal(0.0, 2.0, (3, classes))])
        output = self.apply(log_softmax(rows, axis=1))
        probs = np.exp(output) if self.kind == "log_probs" else output
        normalised = probs.shape == rows.shape and (np.abs(probs.sum(axis=1) - 1.0) < SUM_TOLERANCE).all()
        return bool(normalised and (probs >= 0.0).all())


@dataclass(eq=False, kw_only=True)
class ClassRecalibrator(Recalibrator):
    """A method for class predictions and judged answers: subclasses implement `fit_rows`."""

    tasks = frozenset({"classification", "judged"})

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[Any, FitReport]:
        """Fit a map to the rows of one member, or of the average, and report how that went."""
        raise NotImplementedError

    def _fit(self, predictions: Any, threads: int | None) -> FitState:
        parts = self._split_members(as_classification(predictions))
        results = [self.fit_rows(ClassRows(part), threads) for part in parts]
        return FitState.of(predictions, [fitted for fitted, _ in results], [fit for _, fit in results], self.members)

    def _split_members(self, predictions: Classification) -> list[Classification]:
        if self.members == "average":
            return [predictions.average()]
        return [predictions.member(m) for m in range(predictions.members)]

    def _transform(self, predictions: Any) -> Any:
        parts = self._split_members(as_classification(predictions))
        after = [self._apply(each, part) for each, part in zip(self.maps, parts, strict=True)]
        scores = np.stack([part.scores[0] for part in after])
        if isinstance(predictions, Judged):
            right = scores[:, :, 1] if after[0].kind == "probs" else np.exp(log_softmax(scores, axis=2)[:, :, 1])
            return replace(predictions, confidence=np.clip(right, 0.0, 1.0))
        names = predictions.member_names if len(after) == predictions.members else None
        return replace(predictions, kind=after[0].kind, scores=scores, member_names=names)

    def _apply(self, fitted_map: Any, part: Classification) -> Classification:
        """Recalibrate one member."""
        out = np.empty((1, part.n, part.classes))
        for start, log_probs in log_blocks(part):
            out[0, start : start + len(log_probs)] = fitted_map.apply(log_probs)
        return replace(part, kind=fitted_map.kind, scores=out)
