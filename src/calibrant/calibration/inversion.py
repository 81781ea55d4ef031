"""Confidence intervals for calibration errors by test inversion, and the smallest error that n rows can detect.

The plug-in T = statistic(gaps) is biased, most at a perfect model, so its bootstrap misses the truth there every time.
The interval keeps each θ whose central `level` range of simulated T contains the observed one, where T is simulated
from gaps of size θ along a profile, plus normal errors of the observed variance. The interval is the union over several
profiles: the observed gaps, these soft-thresholded at 1.5 standard errors, and others passed by the caller. If T lies
below the upper end of the null, the interval begins at 0. The null comes from redrawn labels if the caller has them,
because bins without a single miss make the observed variance too small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibrant.calibration.norms import Statistic
from calibrant.intervals import NONE, Interval
from calibrant.kernels.philox import normals
from calibrant.kernels.resampling import INVERSION

THRESHOLD = 1.5
POWER = 0.8
MOST_NUMBERS = 1 << 22
"""Maximum number of simulated gaps in memory: with many bins, fewer replicates are drawn."""
FEWEST = 200
TOLERANCE = 1e-5
SMALL = 0.01
"""Size of gaps at which a profile is normalised: not every statistic stays proportional to larger gaps."""


def replicates_for(bins: int, requested: int) -> int:
    """The number of replicates to draw for this number of bins."""
    return min(requested, max(MOST_NUMBERS // bins, FEWEST))


def union_of_inversions(
    signed: np.ndarray,
    share: np.ndarray,
    covariance: np.ndarray,
    statistic: Statistic,
    *,
    level: float,
    draws: int,
    seed: int,
    null_holds: bool | None = None,
    also: Sequence[np.ndarray] = (),
    noise: np.ndarray | None = None,
) -> Interval:
    """The interval of statistic(signed) when `signed` (B,) has the given covariance (B,) or (B, B).

    null_holds: whether redrawn labels give values as large, so that the interval begins at 0; decided by the normal
    noise if None. also: further profiles, such as the same gap everywhere, for statistics in which gaps of opposite
    sign cancel. noise: draws (R, B) of errors of this covariance, if the caller has them; the diagonal of the
    covariance is then enough.
    """
    observed = float(statistic(signed))
    if not np.isfinite(observed):
        return NONE
    if noise is None:
        noise = normals(seed, INVERSION, replicates_for(len(signed), draws), len(signed))
        if covariance.ndim == 1:
            noise = noise * np.sqrt(np.maximum(covariance, 0.0))
        else:  # by the symmetric root, because eigenvectors alone may flip with rounding
            values, vectors = np.linalg.eigh(covariance)
            root = np.einsum("ik,k,jk->ij", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)
            noise = np.einsum("rb,bc->rc", noise, root)
    tails = (0.5 - level / 2, 0.5 + level / 2)
    errors = np.sqrt(np.maximum(covariance if covariance.ndim == 1 else np.diag(covariance), 0.0))
    soft = np.sign(signed) * np.maximum(np.abs(signed) - THRESHOLD * errors, 0.0)
    if null_holds is None:
        null_holds = observed <= float(np.quantile(statistic(noise), tails[1]))

    def reach(unit: np.ndarray, tail: float) -> float:
        """The error along a profile at which this quantile of simulated T is the observed value."""
        size = _crossing(lambda size: float(np.quantile(statistic(size * unit + noise), tail)), observed)
        return float(statistic(size * unit)) if size > 0 else 0.0

    units = [_unit(profile, signed, share, statistic) for profile in (signed, soft, *also)]
    highs = [reach(unit, tails[0]) for unit in units]
    low = 0.0 if null_holds else min(reach(unit, tails[1]) for unit in units)
    return Interval(low, max(highs) or observed, "test-inversion")  # a value below the noise does not exclude itself


def detectable(null: np.ndarray, share: np.ndarray, statistic: Statistic, upper: float) -> float:
    """The smallest error that is detected with 80% power: T above the null's upper end.

    For a model that is overconfident by the same amount everywhere; `null` (R, B) are gaps of redrawn labels.
    """
    unit = -_unit(share, share, share, statistic)
    size = _crossing(lambda size: float(np.quantile(statistic(size * unit + null), 1.0 - POWER)), upper)
    return float(statistic(size * unit))


def _unit(profile: np.ndarray, signed: np.ndarray, share: np.ndarray, statistic: Statistic) -> np.ndarray:
    """The profile scaled to a statistic of about one; if it is 0, the same gap in every bin with the observed signs."""
    if not profile.any():
        profile = np.where(signed < 0, -1.0, 1.0) * share
    small = SMALL * profile / np.abs(profile).sum()
    size = float(statistic(small))
    return small / size if size > 0 else profile / np.abs(profile).sum()


def _crossing(curve: Callable[[float], float], target: float) -> float:
    """Where a rising curve reaches the target, by the Illinois form of the false position; 0 if it starts above."""
    low, high = 0.0, max(target, 1e-12)
    below = curve(low) - target
    if below >= 0:
        return 0.0
    above = curve(high) - target
    while above < 0 and high < 4.0:
        low, below, high = high, above, 2.0 * high
        above = curve(high) - target
    if above <= 0:
        return high
    side = 0
    for _ in range(60):
        middle = (low * above - high * below) / (above - below)
        value = curve(middle) - target
        if high - low < TOLERANCE * high or abs(value) < TOLERANCE * target:
            return middle
        if value < 0:
            low, below, above = middle, value, above / 2 if side == -1 else above
            side = -1
        else:
            high, above, below = middle, value, below / 2 if side == 1 else below
            side = 1
    return 0.5 * (low + high)
