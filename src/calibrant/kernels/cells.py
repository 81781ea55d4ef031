"""Binomial numbers of many cells, from uniform numbers."""

from __future__ import annotations

import numpy as np

from calibrant.kernels.loops import cells as loops


def binomial_counts(rows: np.ndarray, p: np.ndarray, skip: np.ndarray, u: np.ndarray) -> None:
    """Replace u[r, k] by the binomial number of rows[k] trials of p[k] whose distribution function it is."""
    loops.binomial_counts(rows.astype(np.int64), p, skip, u)
