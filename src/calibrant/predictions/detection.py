"""Scores of rows from inside and outside the distribution that a model was made for; high means outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.errors import ShapeError, ValuesError
from calibrant.predictions.arrays import as_floats
from calibrant.predictions.base import Predictions, RowInfo


@dataclass(frozen=True, repr=False)
class Detection(Predictions):
    """Scores (N,) and whether each row is from outside (N,)."""

    score: np.ndarray
    outside: np.ndarray
    info: RowInfo
    task = "detection"

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
        """Scores (N_in,) of inside rows and (N_out,) of outside rows; weights and columns are of both, inside first."""
        parts = [_as_scores(inside, "inside scores"), _as_scores(outside, "outside scores")]
        score = np.concatenate(parts)
        info = RowInfo.build(len(score), weights=weights, columns=columns, meta=meta, name=name)
        return cls(score, np.arange(len(score)) >= len(parts[0]), info)

    @property
    def members(self) -> int:
        """A score is of one model."""
        return 1

    @property
    def has_labels(self) -> bool:
        """Where a row is from is always known."""
        return True

    def _take(self, rows: np.ndarray) -> Self:
        return replace(self, score=self.score[rows], outside=self.outside[rows], info=self.info.select(rows))

    def _with_info(self, info: RowInfo) -> Self:
        return replace(self, info=info)

    def __repr__(self) -> str:
        outside = int(self.outside.sum())
        return f"Detection({self.name!r}, inside={self.n - outside}, outside={outside})"


def _as_scores(value: Any, what: str) -> np.ndarray:
    scores = as_floats(value, what).astype(np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise ShapeError(
            what,
            expected="shape (N,) with at least one row",
            came=f"its shape is {scores.shape}",
            do="give one score per row, high meaning outside",
        )
    if np.isnan(scores).any():
        raise ValuesError(
            what,
            expected="numbers",
            came=f"row {int(np.argmax(np.isnan(scores)))} is NaN",
            do="drop the rows that have no score",
        )
    return scores
