"""ECE_sweep (Roelofs et al. 2022): as many equal-mass bins as the outcomes allow that rise with the prediction.

b* is the largest b for which every number of bins up to b has non-decreasing mean outcomes. Bins are cut as in
`binning.equal_mass_edges`: between runs only, nearest to the equal split (of two equally near the lower), those that
fall together counted once. There is no use in more bins than distinct predictions, so b* is at most their number, and
at most `MOST_BINS`.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.sweep import binned_gap, prefix_sums, rising_bins

MOST_BINS = 1 << 13
"""Where sweeps end that outcomes all but sorted by p would let go on: the work grows with the square of b."""


def sweep_ece(p: np.ndarray, w: np.ndarray, wy: np.ndarray, order: float = 1.0) -> np.ndarray:
    """(Σ_b share_b |ȳ_b − p̄_b|^order)^(1/order) over b* equal-mass bins."""
    return _swept(p, w, wy, order)[1]


def sweep_bins(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """b*, the number of bins asked for; fewer are left where cuts fall together."""
    return _swept(p, w, wy, 1.0)[0]


def _swept(p: np.ndarray, w: np.ndarray, wy: np.ndarray, order: float) -> tuple[np.ndarray, np.ndarray]:
    """b* and the error for each outcome."""
    outcomes = np.ascontiguousarray(np.atleast_2d(wy), np.float64)
    below, mass, expected = w.cumsum(), _prefix(w), _prefix(w * p)
    bins, errors = np.empty(len(outcomes), np.int64), np.empty(len(outcomes))

    def work(start: int, stop: int) -> None:
        hits = np.empty(len(p) + 1)
        for r in range(start, stop):
            prefix_sums(outcomes[r], hits)
            bins[r] = rising_bins(below, mass, hits, MOST_BINS)
            errors[r] = binned_gap(below, mass, expected, hits, bins[r], order)

    over_rows(work, len(outcomes), outcomes.size)
    return (bins, errors) if wy.ndim == 2 else (bins[0], errors[0])


def _prefix(values: np.ndarray) -> np.ndarray:
    out = np.empty(len(values) + 1)
    prefix_sums(values, out)
    return out
