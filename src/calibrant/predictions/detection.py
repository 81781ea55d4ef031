"""Scores of in-distribution and out-of-distribution rows; high means out-of-distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import ShapeError, ValuesError
from calibrant.predictions.arrays import as_floats
from calibrant.predictions.base import Predictions, RowInfo


@dataclass(frozen=True, repr=False)
class Detection(Predictions):
    """OOD scores (N,) and whether each row is out-of-distribution (N,).

    Examples
    --------
    >>> from calibrant import Detection
    >>> Detection.from_scores(inside=[0.1, 0.4, 0.2], outside=[0.3, 0.9])
    Detection('detection', inside=3, outside=2)
    """

    score: np.ndarray
    outside: np.ndarray
    info: RowInfo
    task = "detection"
    ROW_AXES: ClassVar = {"score": 0, "outside": 0}
    OUTCOMES = ("outside",)

    @classmethod
    def from_scores(
        cls,
        inside: Any,
        outside: Any,
        *,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "detection",
    ) -> Detection:
        """Detection scores of two sets of rows.

        Parameters
        ----------
        inside, outside : array_like of shape (N_in,) and (N_out,)
            Scores of in-distribution and out-of-distribution rows; high means out-of-distribution.
        weights : array_like of shape (N_in + N_out,), optional
            Sampling weights, in-distribution rows first.
        columns : mapping of str to array_like of shape (N_in + N_out,), optional
            Values to group by, in-distribution rows first.
        meta : mapping, optional
            JSON values to keep with the scores.
        name : str
            The name in results.

        Returns
        -------
        Detection

        Examples
        --------
        >>> import calibrant as cal
        >>> scores = cal.Detection.from_scores([0.1, 0.2, 0.6], [0.5, 0.9])
        >>> cal.measure(scores, "auroc")
        {'auroc': 0.8333333333333334}
        """
        parts = []
        for what, value in (("inside scores", inside), ("outside scores", outside)):
            scores = as_floats(value, what).astype(np.float64)
            if scores.ndim != 1 or scores.size == 0:
                hint = "pass one score per row, high meaning out-of-distribution"
                expected = "shape (N,) with at least one row"
                raise ShapeError(what, expected=expected, got=f"shape {scores.shape}", hint=hint)
            if np.isnan(scores).any():
                got = f"NaN in row {int(np.argmax(np.isnan(scores)))}"
                raise ValuesError(what, expected="numbers", got=got, hint="drop the rows without a score")
            parts.append(scores)
        score = np.concatenate(parts)
        info = RowInfo.build(len(score), weights=weights, columns=columns, meta=meta, name=name)
        return cls(score, np.arange(len(score)) >= len(parts[0]), info)

    def __repr__(self) -> str:
        outside = int(self.outside.sum())
        return f"Detection({self.name!r}, inside={self.n - outside}, outside={outside})"
