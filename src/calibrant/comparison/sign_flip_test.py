"""The sign-flip test: two-sided p-values under exchangeability of two models.

If the models are exchangeable in every unit, T = Σd_u has the distribution of Σ±d_u. The p-value is the fraction of
flips with |T*| ≥ |T|. It is exact if 2^m, with m units that differ, is at most the number of flips (enumeration), or if
all |d_u| > 0 are equal, as for accuracy (the binomial distribution: McNemar's exact test). Otherwise it is
(1 + #)/(1 + B) for B random flips, with the same signs for all pairs.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.resampling import signed_sums

TOGETHER = 512
"""Pairs whose sums are in memory at a time."""


def exact(d: np.ndarray, most: int) -> float | None:
    """The p-value by enumeration of at most `most` flips, or by the binomial distribution; None if neither applies."""
    d = d[d != 0.0]
    m = len(d)
    if m == 0:
        return 1.0
    size = np.abs(d)
    if size.max() - size.min() <= 1e-12 * size.max():
        from scipy.special import bdtr

        above = int((d > 0).sum())
        return min(1.0, 2.0 * float(bdtr(min(above, m - above), m, 0.5)))
    if m >= 63 or 1 << m > most:
        return None
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.mean(_beyond(sums, float(d.sum()), float(size.sum()))))


def by_flips(a: np.ndarray, pairs: list[tuple[int, int]], *, flips: int, seed: int, threads: int | None) -> np.ndarray:
    """p-values of a[i] − a[j], for columns a (K, U), by random flips."""
    out = np.empty(len(pairs))
    for start in range(0, len(pairs), TOGETHER):
        some = pairs[start : start + TOGETHER]

        def fill(first: int, stop: int, block: np.ndarray, some: list[tuple[int, int]] = some) -> None:
            for k, (i, j) in enumerate(some):
                block[:, k] = a[i, first:stop] - a[j, first:stop]

        sums = signed_sums(fill, a.shape[1], len(some), replicates=flips, seed=seed, threads=threads)
        for k, (i, j) in enumerate(some):
            d = a[i] - a[j]
            count = int(_beyond(sums[:, k], float(d.sum()), float(np.abs(d).sum())).sum())
            out[start + k] = (1 + count) / (1 + flips)
    return out


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's (1979) step-down correction; NaN stays NaN and does not count."""
    out, defined = np.full(len(p), np.nan), np.flatnonzero(~np.isnan(p))
    order = defined[np.argsort(p[defined], kind="stable")]
    steps = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    out[order] = np.minimum(steps, 1.0)
    return out


def _beyond(sums: np.ndarray, total: float, size: float) -> np.ndarray:
    """Whether |T*| ≥ |T|; sums that are equal up to rounding count as equal."""
    return np.abs(sums) >= abs(total) * (1.0 - 1e-12) - 1e-15 * size
