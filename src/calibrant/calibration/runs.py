"""Pairs (p, y) as runs of equal p, and redrawing the outcomes of runs or other cells.

Notation: run k has the value p[k], rising in k, and the sums over its rows w[k] = Σw, wy[k] = Σwy. A statistic of runs
is a function f(p, w, wy) in which wy may be one outcome (K,) or many (R, K), as when labels are redrawn.

Consistency resampling: a cell is a set of rows of nearly equal p, a run or a bin of one class. Its number of positive
outcomes if its predictions are right is drawn as binomial with the cell's mean p, scaled about its mean to the variance
Σ w²p(1 − p) of the rows: exact where they are equal and unweighted. A cell of large variance has the normal limit. Only
the sums of cells are needed, and random words are counted by cell, so that rows may come in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.philox import uniform_table
from calibrant.kernels.resampling import CELLS, binomial_counts, correlated


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


NORMAL_FROM = 30.0
"""Variance of a cell from which its count is normal."""


def redraw(
    rows: np.ndarray,
    p: np.ndarray,
    w: np.ndarray,
    variance: np.ndarray,
    *,
    replicates: int,
    seed: int,
    correlation: np.ndarray | None = None,
) -> np.ndarray:
    """Σwy (replicates, K) of each cell of `rows` rows, weight w, mean p and variance Σ w²p(1 − p).

    Cells are independent, or joined by a Gaussian copula of this correlation (K, K).
    """
    from scipy.special import ndtr, ndtri

    p = np.clip(p, 0.0, 1.0)
    own = rows * p * (1.0 - p)
    normal = own > NORMAL_FROM
    u = uniform_table(seed, CELLS, replicates, len(p))
    if correlation is None:
        u[:, normal] = ndtri(u[:, normal])
    else:
        u = correlated(ndtri(u), correlation)
        u[:, ~normal] = ndtr(u[:, ~normal])
    u[:, normal] *= np.sqrt(variance[normal])
    binomial_counts(rows, p, normal, u)
    scale = np.sqrt(variance / np.where(own > 0, own, 1.0))
    u[:, ~normal] = (u[:, ~normal] - (rows * p)[~normal]) * scale[~normal]
    return np.clip(w * p + u, 0.0, w)  # of unequal weights the scaled number may leave what is possible
