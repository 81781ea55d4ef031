"""Scaling of the standard deviation: σ → sσ with one s > 0.

The likelihood is largest at s² = mean of (y − μ)²/σ², the ratio of squared errors to predicted variances, in closed
form. Laves, Ihler, Fast, Kahrs & Ortmaier (2020), Well-calibrated regression uncertainty in medical imaging with deep
learning, MIDL; Levi, Gispan, Giladi & Fetaya (2022), Evaluating and calibrating uncertainty prediction in regression
tasks, Sensors 22.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.errors import ValuesError, show
from calibrant.recalibration.gaussian_rows import GaussianRows, SpreadMap, SpreadRecalibrator
from calibrant.recalibration.report import Fit


@dataclass(frozen=True)
class StdMap(SpreadMap):
    """sσ."""

    factor: float

    n_parameters: ClassVar[int] = 1
    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.factor < math.inf:
            raise ValueError(f"a factor of {self.factor}")

    def apply(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        """sσ."""
        return np.multiply(std, self.factor, dtype=np.float64)


@dataclass(eq=False, kw_only=True)
class StdScaling(SpreadRecalibrator):
    """One factor for all standard deviations, the one of the largest likelihood."""

    name = "std"
    title = "Scaling of the standard deviation"
    reference = (
        "Laves, Ihler, Fast, Kahrs & Ortmaier (2020), Well-calibrated regression uncertainty in medical imaging with "
        "deep learning, MIDL"
    )
    map_class = StdMap

    @property
    def factor(self) -> float:
        """The factor s that was found; of several members, the first one's."""
        return self.found.maps[0].factor  # type: ignore[attr-defined]

    def fit_rows(self, rows: GaussianRows) -> tuple[StdMap, Fit]:
        """s² = Σ shares · (y − μ)²/σ²."""
        ratios = np.abs(rows.y - rows.mean) / rows.std
        largest = float(ratios.max(initial=0.0, where=rows.shares > 0))
        if not 0.0 < largest < math.inf:
            raise ValuesError(
                f"{self.name}: {show(rows.name)}",
                expected="outcomes that differ from their predicted mean",
                came="they equal it in every row, or differ beyond what numbers can hold",
                do="fit on held-out rows: no standard deviation above 0 is the best",
            )
        ratio = rows.total(np.square(ratios / largest))
        factor = largest * math.sqrt(ratio)
        logs = 0.5 * math.log(2 * math.pi) + rows.total(np.log(rows.std))
        before = logs + 0.5 * ratio * largest**2 if largest < 1e150 else math.inf
        fit = Fit(n=rows.n, loss="nll", before=before, after=logs + math.log(factor) + 0.5, passes=1, said=rows.few())
        return StdMap(factor), fit
