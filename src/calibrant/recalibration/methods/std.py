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
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.gaussian_rows import GaussianRows, SpreadMap, SpreadRecalibrator


@dataclass(frozen=True)
class StdMap(SpreadMap):
    """sσ."""

    factor: float

    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.factor < math.inf:
            raise ValueError(f"factor must be positive, got {self.factor}")

    def apply(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        return np.multiply(std, self.factor, dtype=np.float64)


@dataclass(eq=False, kw_only=True)
class StdScaling(SpreadRecalibrator):
    """Multiply all standard deviations by one factor, fitted by maximum likelihood.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Regression.from_gaussian([0.0] * 40, [1.0] * 40, y=[-3.0, -1.0, 1.0, 3.0] * 10)
    >>> cal.recalibration.StdScaling().fit(p)
    StdScaling(): factor=2.236, fitted on 40 rows
    """

    name = "std"
    title = "Scaling of the standard deviation"
    reference = (
        "Laves, Ihler, Fast, Kahrs & Ortmaier (2020), Well-calibrated regression uncertainty in medical imaging with "
        "deep learning, MIDL"
    )
    map_class = StdMap

    @property
    def factor(self) -> float:
        """The fitted factor s; with several members, the first one's."""
        return self.maps[0].factor  # type: ignore[attr-defined]

    def fit_rows(self, rows: GaussianRows) -> tuple[StdMap, FitReport]:
        """s² = Σ row_weights · (y − μ)²/σ²."""
        ratios = np.abs(rows.y - rows.mean) / rows.std
        largest = float(ratios.max(initial=0.0, where=rows.row_weights > 0))
        if not 0.0 < largest < math.inf:
            raise ValuesError(
                f"{self.name}: {show(rows.name)}",
                expected="outcomes that differ from their predicted mean",
                got="no error in any row, or an infinite one",
                hint="fit on held-out rows: no positive standard deviation is the best",
            )
        ratio = rows.weighted_mean(np.square(ratios / largest))
        factor = largest * math.sqrt(ratio)
        constant = 0.5 * math.log(2 * math.pi) + rows.weighted_mean(np.log(rows.std))
        before = constant + 0.5 * ratio * largest**2 if largest < 1e150 else math.inf
        after, messages = constant + math.log(factor) + 0.5, rows.few_rows_message()
        return StdMap(factor), FitReport(n=rows.n, loss="nll", before=before, after=after, passes=1, messages=messages)
