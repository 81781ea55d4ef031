"""Confidence and correctness: answers graded right or wrong, as in LLM evaluations and object detection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import ShapeError, UsageError, ValuesError, show
from calibrant.predictions.arrays import as_array, as_column, as_floats, mean_over_members
from calibrant.predictions.base import Predictions, RowInfo
from calibrant.predictions.frames import from_frame


@dataclass(frozen=True, repr=False)
class Judged(Predictions):
    """Confidences (M, N) of answers, and whether each answer was correct (N,).

    Examples
    --------
    >>> from calibrant import Judged
    >>> Judged.from_confidence([0.9, 0.6, 0.8], correct=[True, False, True], name="gpt")
    Judged('gpt', rows=3, members=1)
    """

    confidence: np.ndarray
    correct: np.ndarray | None
    info: RowInfo
    task = "judged"
    ROW_AXES: ClassVar = {"confidence": 1, "correct": 0}
    MEMBER_ARRAYS = ("confidence",)
    OUTCOMES = ("correct",)

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
        """Answers with a confidence each.

        Parameters
        ----------
        confidence : array_like of shape (N,) or (M, N)
            Probabilities that the answers are correct; ensemble members first.
        correct : array_like of shape (N,), optional
            Booleans, or the integers 0 and 1.
        ids, weights, columns, meta, name
            As in `Classification.from_logits`.

        Returns
        -------
        Judged

        Examples
        --------
        >>> import calibrant as cal
        >>> answers = cal.Judged.from_confidence([0.9, 0.6, 0.8], [True, False, True])
        >>> round(cal.measure(answers, "brier")["brier"], 4)
        0.2733
        """
        values = as_floats(confidence, "confidence")
        if values.ndim not in (1, 2) or values.size == 0:
            expected, hint = "shape (N,) or (M, N) with at least one row", "pass one confidence per row, members first"
            raise ShapeError("confidence", expected=expected, got=f"shape {values.shape}", hint=hint)
        values = values.reshape(-1, values.shape[-1])
        valid = (values >= 0) & (values <= 1)
        if not valid.all():
            hint = "divide percentages by 100, and drop rows without a confidence"
            got = f"{values[~valid][0]}"
            raise ValuesError("confidence", expected="probabilities from 0 to 1", got=got, hint=hint)
        n = values.shape[1]
        info = RowInfo.build(n, ids=ids, weights=weights, columns=columns, meta=meta, name=name)
        if correct is None:
            return cls(values, None, info)
        outcomes = as_column(as_array(correct, "correct"), "correct", n)
        if outcomes.dtype.kind not in "biu" or not np.isin(outcomes, (0, 1)).all():
            invalid = outcomes[~np.isin(outcomes, (0, 1))] if outcomes.dtype.kind in "iuf" else outcomes
            got = f"{show(invalid[0] if invalid.size else outcomes[0])} in {outcomes.dtype}"
            hint = "grade each answer right (1) or wrong (0)"
            raise ValuesError("correct", expected="booleans, or the integers 0 and 1", got=got, hint=hint)
        return cls(values, outcomes.astype(bool), info)

    @classmethod
    def from_correct(
        cls,
        correct: Any,
        *,
        ids: Any = None,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "predictions",
    ) -> Judged:
        """Graded answers without a confidence: they have an accuracy, and their calibration cannot be tested.

        Parameters
        ----------
        correct : array_like of shape (N,)
            Booleans, or the integers 0 and 1.
        ids, weights, columns, meta, name
            As in `Classification.from_logits`.

        Examples
        --------
        >>> import calibrant as cal
        >>> answers = cal.Judged.from_correct([True, False, True, True])
        >>> cal.evaluate(answers)["accuracy"].value
        0.75
        """
        rows = len(as_array(correct, "correct").reshape(-1))
        built = cls.from_confidence(
            np.zeros(rows), correct, ids=ids, weights=weights, columns=columns, meta=meta, name=name
        )  # fmt: skip
        return replace(built, confidence=np.full((1, rows), np.nan))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        correct: str | None = None,
        confidence: str | None = None,
        ids: str | None = None,
        weights: str | None = None,
        name: str = "predictions",
    ) -> Judged:
        """Graded answers from the columns of a pandas or polars data frame.

        Parameters
        ----------
        frame : DataFrame
            One row per answer; columns without a role here are kept to group by.
        correct, confidence : str, optional
            The columns of grades and of confidences; at least one of them.
        ids, weights, name
            As in `Classification.from_frame`.

        Examples
        --------
        >>> import pandas as pd
        >>> from calibrant import Judged
        >>> frame = pd.DataFrame({"sure": [0.9, 0.4], "right": [True, False]})
        >>> Judged.from_frame(frame, confidence="sure", correct="right")
        Judged('predictions', rows=2, members=1)
        """
        if correct is None and confidence is None:
            hint = "write from_frame(frame, confidence='…', correct='…')"
            raise UsageError("from_frame", expected="a column of confidences or grades", got="none", hint=hint)
        options = {"correct": correct, "confidence": confidence}
        answers: Judged = from_frame(frame, options, classes=None, ids=ids, weights=weights, name=name)
        return answers

    @property
    def has_confidence(self) -> bool:
        """Whether the answers have a confidence; without one it is NaN in every row."""
        return not bool(np.isnan(self.confidence[0, 0]))

    def average(self) -> Judged:
        """The mean confidence over members."""
        return replace(self, confidence=mean_over_members(self.confidence)[None])

    def __repr__(self) -> str:
        return f"Judged({self.name!r}, rows={self.n}, members={self.members})"
