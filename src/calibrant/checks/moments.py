"""Laws of means by their moments."""

from __future__ import annotations

import numpy as np

from calibrant.checks.laws import Mixture
from calibrant.kernels.exact import GroupSums


def mixture_of_sums(observed: float, moments: np.ndarray, total: float, least: float = -np.inf) -> Mixture:
    """The law of a sum over `total` from its mean, variance and third central moment (M, 3) by each member."""
    if not total > 0.0:
        undefined = np.full(len(moments), np.nan)
        return Mixture(np.nan, undefined, undefined, undefined)
    mean, variance, third = moments.T
    variance = np.maximum(variance, 0.0)
    spread = np.sqrt(variance)
    cube = variance * spread
    skewness = np.where(cube > 0, third / np.where(cube > 0, cube, 1.0), 0.0)
    return Mixture(observed / total, mean / total, spread / total, skewness, least=least)


def by_cell(sums: GroupSums, groups: int) -> np.ndarray:
    """The sums of all groups; of those that no row came in, 0."""
    values = sums.values()
    return np.append(values, np.zeros(groups - len(values)))
