"""Answers that someone has judged: a confidence and whether the answer was correct (LLM evaluations, detectors)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.errors import ShapeError, ValuesError
from calibrant.predictions.arrays import as_array, as_column, as_floats, mean_over_members
from calibrant.predictions.base import Predictions, RowInfo


@dataclass(frozen=True, repr=False)
class Judged(Predictions):
    """Confidences (M, N) that the answers are right, and whether they were, `correct` (N,)."""

    confidence: np.ndarray
    correct: np.ndarray | None
    info: RowInfo
    task = "judged"

    @classmethod
    def from_confidence(
        cls,
        confidence: Any,
        correct: Any = None,
        *,
        ids: Any = None,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "predictions",
    ) -> Judged:
        """Confidences (N,), or (M, N) for members, in [0, 1]; `correct` (N,) booleans or 0 and 1."""
        values = as_floats(confidence, "confidence")
        if values.ndim not in (1, 2) or values.size == 0:
            raise ShapeError(
                "confidence",
                expected="shape (N,) or (M, N) with at least one row",
                came=f"its shape is {values.shape}",
                do="give one confidence per row, members first",
            )
        values = values.reshape(-1, values.shape[-1])
        if not ((values >= 0) & (values <= 1)).all():
            worst = values[~((values >= 0) & (values <= 1))][0]
            raise ValuesError(
                "confidence",
                expected="probabilities from 0 to 1",
                came=f"one of them is {worst}",
                do="divide percentages by 100, and drop rows without a confidence",
            )
        n = values.shape[1]
        info = RowInfo.build(n, ids=ids, weights=weights, columns=columns, meta=meta, name=name)
        return cls(values, None if correct is None else _as_correct(correct, n), info)

    @property
    def members(self) -> int:
        """The number of members; a single model is one."""
        return self.confidence.shape[0]

    @property
    def has_labels(self) -> bool:
        """Whether it is known which answers were right."""
        return self.correct is not None

    def member(self, k: int) -> Judged:
        """One member as predictions of its own."""
        return replace(self, confidence=self.confidence[[self._member_index(k)]])

    def subset(self, members: Iterable[int]) -> Judged:
        """Some members, in the order that is given, as predictions of their own."""
        return replace(self, confidence=self.confidence[self._member_places(members)])

    def average(self) -> Judged:
        """The mean confidence over members."""
        return replace(self, confidence=mean_over_members(self.confidence)[None])

    def _take(self, rows: np.ndarray) -> Self:
        correct = None if self.correct is None else self.correct[rows]
        return replace(self, confidence=self.confidence[:, rows], correct=correct, info=self.info.select(rows))

    def _with_info(self, info: RowInfo) -> Self:
        return replace(self, info=info)

    def __repr__(self) -> str:
        return f"Judged({self.name!r}, rows={self.n}, members={self.members})"


def _as_correct(value: Any, n: int) -> np.ndarray:
    """Booleans, or whole numbers 0 and 1."""
    correct = as_column(as_array(value, "correct"), "correct", n)
    if correct.dtype.kind == "b":
        return correct
    if correct.dtype.kind not in "iu" or not np.isin(correct, (0, 1)).all():
        odd = correct[~np.isin(correct, (0, 1))] if correct.dtype.kind in "iuf" else correct
        example = odd[0] if odd.size else correct[0]
        raise ValuesError(
            "correct",
            expected="booleans, or whole numbers 0 and 1",
            came=f"its items are {correct.dtype}, such as {example}",
            do="judge each answer right (1) or wrong (0)",
        )
    return correct.astype(bool)
