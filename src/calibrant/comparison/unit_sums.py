"""Scores of rows, added up by unit: what paired statistics are made of.

Notation: units u = 1 … U are rows, or groups of dependent rows; m_u = Σ w of the rows of a unit and a_u = Σ w·s of a
model's scores s there, so that its value is Σa/Σm. Of two models d_u = a_u − b_u, and D = Σd/Σm. Rows of weight 0 are
left out before anything else, as though they had never been there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrant.errors import ShapeError, UsageError, ValuesError

Rows = Mapping[str, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Table:
    """The rows that count: scores by (score, model), their weights, and the unit of each."""

    scores: dict[str, dict[str, np.ndarray]]
    weights: np.ndarray | None
    units: np.ndarray | None
    """Numbers 0 … U − 1; None where rows are independent."""

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Every (score, model)."""
        return [(score, model) for score, models in self.scores.items() for model in models]

    @property
    def terms(self) -> int:
        """Rows, or units where rows depend on each other."""
        first = next(iter(next(iter(self.scores.values())).values()))
        return len(first) if self.units is None else int(self.units.max(initial=-1)) + 1

    def mass(self) -> np.ndarray:
        """(U,) Σw of each unit."""
        one = next(iter(next(iter(self.scores.values())).values()))
        weights = np.ones(len(one)) if self.weights is None else self.weights
        return weights if self.units is None else np.bincount(self.units, weights)

    def sums(self, score: str, model: str) -> np.ndarray:
        """(U,) Σw·s of each unit; zeros where a score is not finite, which no resampling can mend."""
        s = self.scores[score][model]
        if not np.isfinite(s).all():
            return np.zeros(self.terms)
        weighted = s if self.weights is None else s * self.weights
        return weighted if self.units is None else np.bincount(self.units, weighted)


def table_of(rows: Rows, weights: np.ndarray | None, units: np.ndarray | None) -> Table:
    """Check the rows, and leave out those of weight 0."""
    found = {
        score: {model: _numbers(f"{score} of {model}", s) for model, s in models.items()}
        for score, models in rows.items()
    }
    sizes = {len(s) for models in found.values() for s in models.values()}
    if len(sizes) != 1 or sizes == {0}:
        came = "there are none" if sizes <= {0} else f"there are {', '.join(map(str, sorted(sizes)))}"
        raise ShapeError(
            "comparison", expected="the same rows of every model, at least one", came=came, do="align them"
        )
    (n,) = sizes
    weights, units = _checked(weights, n), _codes(units, n)
    if weights is not None and not weights.all():
        keep = weights > 0
        found = {score: {model: s[keep] for model, s in models.items()} for score, models in found.items()}
        weights, units = weights[keep], None if units is None else units[keep]
    if units is not None:
        units = np.unique(units, return_inverse=True)[1].ravel()
    return Table(found, weights, units)


def _numbers(subject: str, s: np.ndarray) -> np.ndarray:
    s = np.asarray(s, np.float64)
    if s.ndim != 1:
        raise ShapeError(subject, expected="one score a row, (N,)", came=f"its shape is {s.shape}", do="give a vector")
    if np.isnan(s).any():
        came = f"row {int(np.flatnonzero(np.isnan(s))[0])} has none"
        raise ValuesError(subject, expected="a score of every row", came=came, do="leave such rows out for all models")
    return s


def _checked(weights: np.ndarray | None, n: int) -> np.ndarray | None:
    if weights is None:
        return None
    weights = np.asarray(weights, np.float64)
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        said = f"{n} weights from 0, finite and not all 0"
        raise ValuesError("weights", expected=said, came=f"got {weights.shape} other ones", do="give one a row")
    return weights


def _codes(units: np.ndarray | None, n: int) -> np.ndarray | None:
    if units is None:
        return None
    units = np.asarray(units)
    if units.shape != (n,) or units.dtype.kind not in "iu":
        came = f"got {units.dtype} of shape {units.shape}"
        raise UsageError(
            "units", expected=f"the whole number of the unit of each of {n} rows", came=came, do="code them"
        )
    return units
