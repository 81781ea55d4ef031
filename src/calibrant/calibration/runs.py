"""Pairs (p, y) as runs of equal p: all that errors without bins of their own need to know of the rows.

Notation: run k has the value p[k], rising in k, and the sums over its rows w[k] = Σw, wy[k] = Σwy. A statistic of runs
is a function f(p, w, wy) in which wy may be one outcome (K,) or many (R, K), as when labels are redrawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Runs:
    """Runs of equal p in rising order; joined runs have the mean of theirs."""

    p: np.ndarray
    rows: np.ndarray
    w: np.ndarray
    wy: np.ndarray
    squares: np.ndarray
    """Σw²."""
    variance: np.ndarray
    """Σ w²p(1 − p): the variance of wy if the predictions are right."""

    @classmethod
    def of(cls, p: np.ndarray, y: np.ndarray, w: np.ndarray | None = None) -> Runs:
        """The runs of rows in any order; sums are taken in an order of their own, so that it shows nowhere."""
        whole = w is None and bool(((y == 0) | (y == 1)).all())  # then sums are exact in any order
        order = np.argsort(p) if whole else np.lexsort((y, p) if w is None else (y, w, p))
        p, y = p[order], y[order]
        first = np.flatnonzero(np.append(True, p[1:] != p[:-1]))
        rows = np.diff(np.append(first, len(p)))
        values, mass, squares = p[first], rows.astype(np.float64), rows.astype(np.float64)
        if w is not None:
            w = w[order]
            mass, squares, y = np.add.reduceat(w, first), np.add.reduceat(w * w, first), w * y
        return cls(values, rows, mass, np.add.reduceat(y, first), squares, squares * values * (1.0 - values))

    @property
    def mass(self) -> float:
        """Σw of all rows."""
        return float(self.w.sum())

    def joined(self, most: int) -> Runs:
        """Neighbouring runs joined until at most `most` are left, of about equal weight and spread.

        By weight alone, the few doubtful rows of a model that is nearly always certain would be thrown together.
        """
        return self.joined_with(self.wy, most)[0]

    def joined_with(self, outcomes: np.ndarray, most: int) -> tuple[Runs, np.ndarray]:
        """The same, and outcomes (…, K) of the runs joined in the same way."""
        if len(self.p) <= most:
            return self, outcomes
        first = self.first_of(most)
        return self.joined_at(first), np.add.reduceat(outcomes, first, axis=-1)

    def first_of(self, most: int) -> np.ndarray:
        """The first run of each of at most `most` cells of about equal weight and spread."""
        spread = float(self.variance.sum())
        shares = [(x.cumsum() - x / 2) / total for x, total in ((self.w, self.mass), (self.variance, spread)) if total]
        return first_of_cells(np.mean(shares, axis=0), most)

    def joined_at(self, first: np.ndarray) -> Runs:
        """Runs joined into cells that begin at these."""
        sums = (self.rows, self.w, self.w * self.p, self.wy, self.squares, self.variance)
        rows, w, wp, wy, squares, variance = (np.add.reduceat(x, first) for x in sums)
        return Runs(wp / w, rows, w, wy, squares, variance)


def first_of_cells(middle: np.ndarray, most: int) -> np.ndarray:
    """The first run of each of at most `most` cells; `middle` (K,) is the share that lies below a run's middle."""
    cell = np.minimum((middle * most).astype(np.int64), most - 1)
    return np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
