"""Statistics of the gaps of bins: plug-in norms, and the debiased square.

Notation: signed_b = n_b/N·(ȳ_b − p̄_b), share_b = n_b/N, gap_b = signed_b/share_b. A statistic maps signed gaps (…, B),
observed or redrawn, to values (…); the bins with their shares are bound when it is made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibration.binning import BinTable

Statistic = Callable[[np.ndarray], np.ndarray]


def power_norm(share: np.ndarray, power: float) -> Statistic:
    """(Σ_b share_b |gap_b|^p)^(1/p): ECE for p = 1, the root of the mean square for p = 2."""
    if power == 1.0:
        return lambda signed: np.abs(signed).sum(axis=-1)
    filled = np.where(share > 0, share, np.inf)
    if power == 2.0:
        return lambda signed: np.sqrt((signed * signed / filled).sum(axis=-1))
    scale = np.where(share > 0, share, 0.0)
    return lambda signed: (scale * (np.abs(signed) / filled) ** power).sum(axis=-1) ** (1.0 / power)


def largest(share: np.ndarray) -> Statistic:
    """max_b |gap_b|."""
    filled = np.where(share > 0, share, np.inf)
    return lambda signed: (np.abs(signed) / filled).max(axis=-1)


def debiased_square(table: BinTable) -> Statistic:
    """(Σ_b share_b (gap_b² − ȳ_b(1 − ȳ_b)/(n_b − 1)))^½, clipped at 0 before the root (Kumar, Liang & Ma 2019).

    Bins of fewer than two rows contribute nothing.
    """
    share, rows = table.share, table.rows
    kept = rows > 1
    filled = np.where(share > 0, share, 1.0)
    mean_p = table.wp / np.where(table.w > 0, table.w, 1.0)
    others = np.where(kept, rows - 1.0, 1.0)

    def statistic(signed: np.ndarray) -> np.ndarray:
        gap = signed / filled
        mean_y = np.clip(mean_p + gap, 0.0, 1.0)
        terms = gap * gap - mean_y * (1.0 - mean_y) / others
        return np.sqrt(np.maximum(np.where(kept, share * terms, 0.0).sum(axis=-1), 0.0))

    return statistic


NORMS: dict[str, float] = {"l1": 1.0, "l2": 2.0, "max": np.inf}


def norm(share: np.ndarray, power: float) -> Statistic:
    """The norm of this power; the largest gap for infinity."""
    return largest(share) if np.isinf(power) else power_norm(share, power)
