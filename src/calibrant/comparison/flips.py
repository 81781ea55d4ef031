"""Two-sided p-values of exchangeable models: signs of unit differences d_u are flipped at random.

If either model might as well have been the other in every unit, T = Σd_u has the law of Σ±d_u. The p-value is the share
of flips with |T*| ≥ |T|: exact, by enumeration of all 2^m where m units differ and 2^m is at most the number of flips
asked for, and by the binomial law where all |d_u| > 0 are equal, as those of accuracy are (McNemar's exact test).
Otherwise (1 + #)/(1 + B) of B random flips, with the same signs for all pairs.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.paired import signed_sums

TOGETHER = 512
"""Pairs whose sums lie in memory at one time."""


def exact(d: np.ndarray, most: int) -> float | None:
    """The p-value by enumeration of at most `most` flips, or by the binomial law; None where neither can be."""
    d = d[d != 0.0]
    m = len(d)
    if m == 0:
        return 1.0
    size = np.abs(d)
    if size.max() - size.min() <= 1e-12 * size.max():
        return _binomial(int((d > 0).sum()), m)
    if m >= 63 or 1 << m > most:
        return None
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.mean(_beyond(sums, float(d.sum()), float(size.sum()))))


def by_flips(a: np.ndarray, pairs: list[tuple[int, int]], *, flips: int, seed: int, threads: int | None) -> np.ndarray:
    """p-values of columns a[i] − a[j] (K, U) by random flips."""
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
    """Holm's (1979) step-down correction over the p-values that are there; NaN stays NaN and does not count."""
    out, known = np.full(len(p), np.nan), np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    out[order] = np.minimum(steps, 1.0)
    return out


def _beyond(sums: np.ndarray, total: float, size: float) -> np.ndarray:
    """Whether |T*| ≥ |T|, where sums that differ by rounding alone count as equal."""
    return np.abs(sums) >= abs(total) * (1.0 - 1e-12) - 1e-15 * size


def _binomial(above: int, m: int) -> float:
    from scipy.special import bdtr

    return min(1.0, 2.0 * float(bdtr(min(above, m - above), m, 0.5)))
