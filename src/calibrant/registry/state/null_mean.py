"""The mean of a row score that has a known law if the predictions are right: 0 (or a constant) plus noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.calibration import null_mean
from calibrant.intervals import normal_quantile
from calibrant.kernels.exact import ExactSum
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.state.accumulators import Mean, counting

POWER_QUANTILE = 0.8416212335729143
"""Φ⁻¹(0.8): detected with 80% power."""


@dataclass
class NullMean(Mean):
    """A mean with its interval, and the band and two-sided p-value that known moments under the null give.

    Rows that depend on each other (units) and soft labels have no such law: their p-value is of Student's t.
    """

    moments_if_right: Callable[[Any], tuple[np.ndarray, np.ndarray] | None] = lambda rows: None
    """Variance and third central moment of each row's score if the predictions are right; None where not known."""
    expected: float = 0.0
    """The mean if the predictions are right."""
    step: float = 0.0
    """Distance between neighbouring values of the unweighted sum, if it takes only some values."""
    variance: ExactSum = field(default_factory=ExactSum)
    third: ExactSum = field(default_factory=ExactSum)
    mass: ExactSum = field(default_factory=ExactSum)
    weights: tuple[float, float] = (1.0, 1.0)
    """The smallest and the largest weight."""
    known: bool = True
    """Whether the moments are known for every row."""

    def add(self, rows: Any, spread: bool = True) -> None:
        """Add rows."""
        super().add(rows, spread)
        if not spread:
            return
        moments = None if rows.units is not None else self.moments_if_right(rows)
        if moments is None:
            self.known = False
            return
        variance, third, w = counting(rows.weights, *moments, rows.weights)
        if w is not None and len(w):
            first = self.mass.value() == 0.0
            ends = float(w.min()), float(w.max())
            self.weights = ends if first else (min(self.weights[0], ends[0]), max(self.weights[1], ends[1]))
        self.mass.add(np.ones(len(variance)) if w is None else w)
        self.variance.add(variance if w is None else w**2 * variance)
        self.third.add(third if w is None else w**3 * third)

    def merge(self, other: Mean) -> None:
        """Merge another of the same kind."""
        super().merge(other)
        if isinstance(other, NullMean):
            if other.mass.value() > 0.0:
                ends = [state.weights for state in (self, other) if state.mass.value() > 0.0]
                self.weights = min(low for low, _ in ends), max(high for _, high in ends)
            self.known &= other.known
            for name in ("variance", "third", "mass"):
                getattr(self, name).merge(getattr(other, name))

    def result(self, settings: Settings) -> Estimate:
        """The mean with its interval, its band and its p-value."""
        estimate = super().result(settings)
        if not settings.intervals or math.isnan(estimate.value):
            return estimate
        mass = self.mass.value()
        if not (self.known and mass > 0.0):
            return replace(estimate, p_value=self._student())
        variance, third = self.variance.value(), self.third.value()
        error = math.sqrt(variance) / mass
        cube = variance**1.5  # 0 where the variance is next to nothing
        skewness = third / cube if cube > 0 else 0.0
        low, high = (null_mean.quantile(0.5 + side * settings.level / 2.0, skewness) * error for side in (-1, 1))
        lightest, heaviest = self.weights
        step = self.step * lightest if lightest == heaviest else 0.0
        detectable = error * (normal_quantile(settings.level) + POWER_QUANTILE)
        return replace(
            estimate,
            null_low=max(self.expected + low, self.limits[0]),
            null_high=min(self.expected + high, self.limits[1]),
            p_value=null_mean.p_value((estimate.value - self.expected) * mass, variance, third, step),
            detectable=detectable if detectable <= self.limits[1] - self.expected else math.nan,
        )

    def _student(self) -> float:
        """The two-sided p-value of Student's t over rows, or over units."""
        from scipy.special import stdtr

        error, _, terms = self.moments.error_and_skewness()
        if terms < 2 or not error > 0.0:
            return math.nan
        return float(2.0 * stdtr(terms - 1, -abs(self.moments.mean() - self.expected) / error))
