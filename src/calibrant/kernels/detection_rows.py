"""The record of rows from inside and outside: their scores, as they came."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from calibrant.predictions import Detection


@dataclass
class DetectionRows:
    """The record of n rows; `outside` is 1 for rows from outside, 0 for others."""

    n: int
    score: np.ndarray
    outside: np.ndarray
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    deviation: float = 0.0
    extras: dict[Hashable, np.ndarray] = field(default_factory=dict)


def detection_rows(detection: Detection) -> DetectionRows:
    """The record of all rows."""
    weights = None if detection.weights is None else detection.weights / detection.info.weight_unit
    return DetectionRows(detection.n, detection.score, detection.outside.astype(np.float64), weights)
