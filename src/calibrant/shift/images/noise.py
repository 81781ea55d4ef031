"""Noise per pixel and channel: Gaussian, Poisson, salt and pepper, multiplicative.

Here and in the other files of corruptions: x are images (N, C, H, W) in levels 0 … 255 as float32, p the parameters of
a severity, and the result is in levels too, before it is clipped and truncated.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from calibrant.shift.backend import Array, Backend
from calibrant.shift.images.parameters import Setting
from calibrant.shift.philox import Draws


def gaussian_noise(x: Array, p: Setting, draws: Draws) -> Array:
    """Normal noise of standard deviation p on [0, 1]."""
    return x + (255.0 * p[0]) * draws.normal("noise", *x.shape[1:])


def speckle_noise(x: Array, p: Setting, draws: Draws) -> Array:
    """Normal noise of standard deviation p·x."""
    return x + x * (p[0] * draws.normal("noise", *x.shape[1:]))


def impulse_noise(x: Array, p: Setting, draws: Draws) -> Array:
    """A share p of the values becomes 0 or 255, with equal probability."""
    xp, u = draws.arrays.xp, draws.uniform("noise", *x.shape[1:])
    x = xp.where(u < p[0] / 2, draws.arrays.zeros(()), x)
    return xp.where(u >= 1 - p[0] / 2, draws.arrays.put(255.0, "float32"), x)


def shot_noise(x: Array, p: Setting, draws: Draws) -> Array:
    """Poisson numbers of mean p·x, divided by p: the smallest k with F(k) ≥ u."""
    arrays, photons = draws.arrays, p[0]
    cumulative, start, guide = (arrays.put(each) for each in poisson_table(photons))
    levels = arrays.cast(x, "int64").reshape(-1)
    u = draws.uniform("noise", *x.shape[1:]).reshape(-1)
    at = guide[levels * BINS + arrays.cast(u * BINS, "int64")]
    target = u + arrays.cast(levels, "float64")
    below = _where(cumulative[at] < target, arrays)
    while len(below):
        at[below] += 1
        below = below[_where(cumulative[at[below]] < target[below], arrays)]
    return arrays.cast(at - start[levels], "float32").reshape(x.shape) * (255.0 / photons)


def _where(condition: Array, arrays: Backend) -> Array:
    """The indices at which a condition on a vector holds."""
    found = arrays.xp.nonzero(condition)
    return found[0] if isinstance(found, tuple) else found[:, 0]


BINS = 1024
"""Bins of u whose first quantile is tabulated."""


@lru_cache(maxsize=16)
def poisson_table(photons: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson distribution functions of the means photons·v/255 for all levels v, in one sorted array of v + F(k).

    Also returns where the values of each level start, and where the search starts for each level and bin of u. The last
    value of a level is v + 1.
    """
    from scipy.stats import poisson

    parts = []
    for level in range(256):
        mean = photons * level / 255.0
        parts.append(level + poisson.cdf(np.arange(int(mean + 8.0 * np.sqrt(mean) + 12.0 * (level > 0)) + 1), mean))
        parts[-1][-1] = level + 1.0
    cumulative, start = np.concatenate(parts), np.cumsum([0] + [len(part) for part in parts[:-1]])
    edges = np.arange(256)[:, None] + np.arange(BINS) / BINS
    guide = np.maximum(np.searchsorted(cumulative, edges), start[:, None]).reshape(-1)
    return cumulative, start, guide
