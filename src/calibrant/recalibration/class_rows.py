"""What maps of class predictions see: logarithms of probabilities, labels, and the share that each row has.

One gauge: whether logits, log-probabilities or probabilities were given, a map acts on ℓ = log softmax(logits), so that
all three give the same fit. What is less than 2⁻¹⁰²² counts as that; of probabilities what is less than 2⁻¹²⁶, the
smallest normal number of single precision, for it does not matter then in which precision they were kept.
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
from calibrant.predictions.checking import check_scores
from calibrant.predictions.classification import Classification, two_classes
from calibrant.predictions.judged import Judged
from calibrant.recalibration.base import Fitted, Map, Recalibrator
from calibrant.recalibration.report import Fit
from calibrant.recalibration.shares import shares_of

FLOOR = -1022.0 * float(np.log(2.0))
PROBS_FLOOR = -126.0 * float(np.log(2.0))
"""Of probabilities: smaller ones are 0 in single precision, or nearly so."""
BLOCK = 1 << 20
"""Scores that are widened at a time."""


# ----------------------------------------------------------------------------------------- the gauge
def as_logits(block: np.ndarray, kind: str) -> np.ndarray:
    """Scores (…, n, C) as logits in float64: log-probabilities are such, a lone P(class 1) becomes two of them."""
    block = block.astype(np.float64)
    if block.shape[-1] == 1:
        block = two_classes(block[..., 0], kind)
    if kind != "probs":
        return block
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(block)


def all_logits(predictions: Classification) -> np.ndarray:
    """All logits (M, N, C) in C order, float32 or float64; those given where they are that already."""
    p, out = predictions, np.empty((0, 0, 0))
    for start, block in p.score_blocks(None if p.kind != "probs" else _block_rows(p)):
        if p.kind == "probs":
            block = as_logits(block, "probs").astype(block.dtype)
        if block.shape[1] == p.n:
            return block
        if not out.size:
            out = np.empty((p.members, p.n, p.classes), block.dtype)
        out[:, start : start + block.shape[1]] = block
    return out


def check_rows(predictions: Classification) -> None:
    """Refuse rows that are no predictions, in the words of `predictions.checking`."""
    for start, block in predictions.score_blocks(_block_rows(predictions)):
        check_scores(block, predictions.kind, start)


def _block_rows(predictions: Classification) -> int:
    return max(1, BLOCK // (predictions.members * predictions.classes))


def floor_of(kind: str) -> float:
    """The least log-probability that scores of a kind tell apart."""
    return PROBS_FLOOR if kind == "probs" else FLOOR


def log_blocks(predictions: Classification, member: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, ℓ (n, C) in float64) of one member, some rows at a time; what is no prediction is refused."""
    step = max(1, BLOCK // predictions.classes)
    for start in range(0, predictions.n, step):
        block = predictions.scores[member : member + 1, start : start + step]
        wide = two_classes(block[..., 0], predictions.kind) if block.shape[-1] == 1 else block
        check_scores(wide, predictions.kind, start)
        yield start, np.maximum(log_softmax(as_logits(block, predictions.kind)[0], axis=-1), floor_of(predictions.kind))


def as_classes(predictions: Classification | Judged) -> Classification:
    """Judged answers as two classes, wrong and right; class predictions as they are."""
    if isinstance(predictions, Classification):
        return predictions
    labels = None if predictions.correct is None else predictions.correct.astype(np.int64)
    return Classification(
        kind="probs",
        scores=predictions.confidence[:, :, None],
        labels=labels,
        label_probs=None,
        class_names=None,
        member_names=None,
        info=predictions.info,
    )


@dataclass(frozen=True)
class ClassRows:
    """The rows of one member, or of an average, that a map is fitted to."""

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
                f"recalibration: {self.predictions.name}",
                expected="a label for each row",
                came="there are only soft labels",
                do="give labels of held-out rows",
            )
        return np.ascontiguousarray(self.predictions.labels, np.int64)

    @cached_property
    def shares(self) -> np.ndarray:
        """The weight (n,) of each row, all together one: a loss is Σ shares · loss of the row."""
        return shares_of(self.predictions)

    @cached_property
    def logs(self) -> np.ndarray:
        """ℓ (n, C) in float64."""
        out = np.empty((self.n, self.classes))
        for start, block in log_blocks(self.predictions):
            out[start : start + len(block)] = block
        return out

    def at_label(self, scores: np.ndarray) -> np.ndarray:
        """The entry (n,) of each row's label."""
        return scores[np.arange(self.n), self.labels]

    def nll(self, logs: np.ndarray) -> float:
        """The weighted mean negative log-likelihood of log-probabilities (n, C)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(self.shares > 0, -self.shares * self.at_label(logs), 0.0)
        return exact_sum(terms) if np.isfinite(terms).all() else float("inf")


# ------------------------------------------------------------------------------------------- methods
@dataclass(frozen=True)
class ClassMap(Map):
    """A map of the log-probabilities of C classes."""

    kind: ClassVar[str] = "log_probs"
    """What `apply` returns: log_probs, or probs."""

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """Recalibrated predictions (n, C), whose rows sum to one, of ℓ (n, C)."""
        raise NotImplementedError


@dataclass(eq=False, kw_only=True)
class ClassRecalibrator(Recalibrator):
    """A method for class predictions and judged answers; it says how a map is fitted to some rows."""

    tasks = frozenset({"classification", "judged"})

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[Any, Fit]:
        """The map that is best for these rows, and how it was found."""
        raise NotImplementedError

    def _fitted(self, predictions: Any, threads: int | None) -> Fitted:
        known = as_classes(predictions)
        results = [self.fit_rows(ClassRows(part), threads) for part in self._parts(known)]
        return Fitted(
            maps=tuple(made for made, _ in results),
            fits=tuple(fit for _, fit in results),
            task=predictions.task,
            classes=known.classes if isinstance(predictions, Classification) else None,
            class_names=known.class_names,
            member_names=known.member_names if self.members == "each" else None,
            name=predictions.name,
        )

    def _parts(self, predictions: Classification) -> list[Classification]:
        if self.members == "average":
            return [predictions.average()]
        return [predictions.member(m) for m in range(predictions.members)]

    def _transformed(self, predictions: Any) -> Any:
        parts = self._parts(as_classes(predictions))
        made = [self._apply(each, part) for each, part in zip(self.found.maps, parts, strict=True)]
        scores = np.stack([part.scores[0] for part in made])
        if isinstance(predictions, Judged):
            right = scores[:, :, 1] if made[0].kind == "probs" else np.exp(log_softmax(scores, axis=2)[:, :, 1])
            return replace(predictions, confidence=np.clip(right, 0.0, 1.0))
        names = predictions.member_names if len(made) == predictions.members else None
        return replace(predictions, kind=made[0].kind, scores=scores, member_names=names)

    def _apply(self, found: Any, part: Classification) -> Classification:
        """One member, recalibrated."""
        out = np.empty((1, part.n, part.classes))
        for start, logs in log_blocks(part):
            out[0, start : start + len(logs)] = found.apply(logs)
        return replace(part, kind=found.kind, scores=out)
