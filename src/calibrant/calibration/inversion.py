"""An interval for a binned calibration error that covers where a bootstrap does not.

The plug-in T = norm(gaps) is biased, most at a perfect model, so its bootstrap misses the truth there every time. The
interval keeps each θ whose central `level` range of simulated T contains the observed one, where T is simulated from
gaps of size θ along a profile, plus normal errors of the observed variance. Two profiles are tried and their ranges
united: the observed gaps, and these soft-thresholded at 1.5 standard errors. If T lies under the upper end of the null,
the interval begins at 0; the null is that of the redrawn labels where the caller has it, for bins without a single miss
make the observed variance too small to judge by.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibration.binned import Statistic
from calibrant.intervals import NONE, Interval
from calibrant.kernels.philox import normals
from calibrant.kernels.resampling import INVERSION

THRESHOLD = 1.5
HALVINGS = 30


def union_of_inversions(
    signed: np.ndarray,
    share: np.ndarray,
    covariance: np.ndarray,
    statistic: Statistic,
    *,
    level: float,
    draws: int,
    seed: int,
    null_upper: float | None = None,
) -> Interval:
    """The interval of statistic(signed, share) when `signed` has the given covariance (B,) or (B, B)."""
    filled = share > 0
    signed, share = signed[filled], share[filled]
    covariance = covariance[filled] if covariance.ndim == 1 else covariance[np.ix_(filled, filled)]
    noise = _coloured(normals(seed, INVERSION, draws, filled.size)[:, filled], covariance)
    observed = float(statistic(signed, share))
    if not np.isfinite(observed):
        return NONE
    tails = (0.5 - level / 2, 0.5 + level / 2)
    errors = np.sqrt(np.maximum(covariance if covariance.ndim == 1 else np.diag(covariance), 0.0))
    soft = np.sign(signed) * np.maximum(np.abs(signed) - THRESHOLD * errors, 0.0)
    if null_upper is None:
        null_upper = float(np.quantile(statistic(noise, share), tails[1]))

    def reach(unit: np.ndarray, tail: float) -> float:
        """The θ along a unit profile at which this quantile of simulated T is the observed value."""
        return _crossing(lambda theta: float(np.quantile(statistic(theta * unit + noise, share), tail)), observed)

    units = [_unit(profile, signed, share, statistic) for profile in (signed, soft)]
    lows = [reach(unit, tails[1]) for unit in units]
    highs = [reach(unit, tails[0]) for unit in units]
    low = 0.0 if observed <= null_upper else min(lows)
    return Interval(low, max(highs), "test-inversion")


def _coloured(white: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Standard normal draws given a covariance, by its symmetric root: eigenvectors alone may turn on a rounding."""
    if covariance.ndim == 1:
        return white * np.sqrt(np.maximum(covariance, 0.0))
    values, vectors = np.linalg.eigh(covariance)
    root = np.einsum("ik,k,jk->ij", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)
    return np.einsum("rb,bc->rc", white, root)


def _unit(profile: np.ndarray, signed: np.ndarray, share: np.ndarray, statistic: Statistic) -> np.ndarray:
    """The profile at size one; where nothing stands out, the same gap in every bin with the observed signs."""
    if not profile.any():
        profile = np.where(signed < 0, -1.0, 1.0) * share
    return profile / float(statistic(profile, share))


def _crossing(curve: Callable[[float], float], observed: float) -> float:
    """The θ at which a rising curve reaches the observed value; 0 where it starts above."""
    if curve(0.0) >= observed:
        return 0.0
    low, high = 0.0, max(observed, 1e-12)
    while curve(high) < observed and high < 4.0:
        low, high = high, 2.0 * high
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if curve(middle) < observed else (low, middle)
    return 0.5 * (low + high)
