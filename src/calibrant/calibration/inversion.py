"""An interval for a calibration error that covers where a bootstrap does not, and what an error of this n can detect.

The plug-in T = statistic(gaps) is biased, most at a perfect model, so its bootstrap misses the truth there every time.
The interval keeps each θ whose central `level` range of simulated T contains the observed one, where T is simulated
from gaps of size θ along a profile, plus normal errors of the observed variance. Profiles are tried and their ranges
united: the observed gaps, these soft-thresholded at 1.5 standard errors, and others that the caller names. If T lies
under the upper end of the null, the interval begins at 0; the null is that of the redrawn labels where the caller has
it, for bins without a single miss make the observed variance too small to judge by.
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
"""Simulated gaps that are held at a time: of many bins, fewer replicates are drawn."""
FEWEST = 200
TOLERANCE = 1e-5
SMALL = 0.01
"""Size of gaps at which a profile is measured: not every statistic grows in proportion to them for ever."""


def replicates_for(bins: int, wanted: int) -> int:
    """How many replicates of so many bins are drawn."""
    return min(wanted, max(MOST_NUMBERS // bins, FEWEST))


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

    null_holds: whether redrawn labels give as much, so that the interval begins at 0; judged by the normal noise where
    it is not known. also: further profiles, as the same gap everywhere where gaps of opposite sign cancel. noise: draws
    (R, B) of errors of this covariance, where there is a shorter way to them; its diagonal is then enough.
    """
    observed = float(statistic(signed))
    if not np.isfinite(observed):
        return NONE
    if noise is None:
        noise = _coloured(normals(seed, INVERSION, replicates_for(len(signed), draws), len(signed)), covariance)
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
    return Interval(low, max(highs) or observed, "test-inversion")  # less than noise alone gives is no proof of nothing


def detectable(null: np.ndarray, share: np.ndarray, statistic: Statistic, upper: float) -> float:
    """The smallest error that this many rows show in four of five cases: T above the null's upper end.

    Of a model that is over-confident by the same amount everywhere; `null` (R, B) are gaps of redrawn labels.
    """
    unit = -_unit(share, share, share, statistic)
    size = _crossing(lambda size: float(np.quantile(statistic(size * unit + null), 1.0 - POWER)), upper)
    return float(statistic(size * unit))


def _coloured(white: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Standard normal draws given a covariance, by its symmetric root: eigenvectors alone may turn on a rounding."""
    if covariance.ndim == 1:
        return white * np.sqrt(np.maximum(covariance, 0.0))
    values, vectors = np.linalg.eigh(covariance)
    root = np.einsum("ik,k,jk->ij", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)
    return np.einsum("rb,bc->rc", white, root)


def _unit(profile: np.ndarray, signed: np.ndarray, share: np.ndarray, statistic: Statistic) -> np.ndarray:
    """The profile at about size one; where nothing stands out, the same gap in every bin with the observed signs."""
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
