"""The Kolmogorov–Smirnov calibration error: the largest gap between cumulated predictions and cumulated outcomes."""

from __future__ import annotations

import numpy as np


def ks(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """max_k |Σ_{j≤k} (w_j p_j − wy_j)|/Σw over the ends of runs of equal p (Gupta et al. 2021).

    Inside a run the order of rows is arbitrary, so nothing is read off there. Never less than |mean p − mean y|.
    """
    gap = w * p - wy
    np.cumsum(gap, axis=-1, out=gap)
    return np.maximum(gap.max(axis=-1), -gap.min(axis=-1)) / w.sum()
