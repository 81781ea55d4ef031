"""Consistency resampling of cells: how many outcomes of each cell come true when its predictions are right.

A cell is a set of rows of nearly equal p: a run, or a bin of one class. The number that come true is drawn as binomial
with the cell's mean p, scaled about its mean to the variance Σ w²p(1 − p) of the rows: exact where they are equal and
unweighted. A cell of large variance takes the normal limit. Nothing but the sums of cells is needed, and words are
counted by cell, so that rows may come in any order.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.cells import binomial_counts
from calibrant.kernels.philox import uniform_table
from calibrant.kernels.resampling import CELLS

NORMAL_FROM = 30.0
"""Variance of a cell from which its count is normal."""


def redraw(
    rows: np.ndarray, p: np.ndarray, w: np.ndarray, variance: np.ndarray, *, replicates: int, seed: int
) -> np.ndarray:
    """Σwy (replicates, K) of each cell of `rows` rows, weight w, mean p and variance Σ w²p(1 − p)."""
    from scipy.special import ndtri

    u = uniform_table(seed, CELLS, replicates, len(p))
    p = np.clip(p, 0.0, 1.0)
    own = rows * p * (1.0 - p)
    normal = own > NORMAL_FROM
    u[:, normal] = ndtri(u[:, normal]) * np.sqrt(variance[normal])
    binomial_counts(rows, p, normal, u)
    scale = np.sqrt(variance / np.where(own > 0, own, 1.0))
    u[:, ~normal] = (u[:, ~normal] - (rows * p)[~normal]) * scale[~normal]
    return np.clip(w * p + u, 0.0, w)  # of unequal weights the scaled number may leave what is possible
