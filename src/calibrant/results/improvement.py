"""What a recalibration gained: differences of proper scores on the same rows, with paired intervals.

A proper score S splits into entropy − sharpness + calibration error, CE_S = E d_S(f(X), P(Y | f(X))). An injective map
of predictions leaves the first two as they are, so that the gain in S *is* the fall of CE_S (Gruber & Buettner 2022,
proposition 4.5). Any other map can only lose sharpness: then the gain in S is at most the fall of CE_S. Neither says
how large CE_S is. Of the Brier score CE_S is the square of the canonical L2 error, not the error itself, nor the root
Brier score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.intervals import NONE, studentised
from calibrant.registry.lookup import metrics
from calibrant.registry.state.accumulators import Moments
from calibrant.results import display
from calibrant.results.json import Stored, encode
from calibrant.results.sample_size import SampleSizeCurves

REFERENCE = "Gruber & Buettner (2022), proposition 4.5"
KNOWN = ("injective", "not known to be injective", "several", "not known")


def root_of(score: str) -> str:
    """The metric whose root a score is; the interval of its gain is by the delta method. Empty for other scores."""
    return metrics()[score].root_of if score in metrics() else ""


# --------------------------------------------------------------------------------------------- one score
@dataclass(frozen=True)
class Gain(Stored):
    """A score before and after recalibration on the same rows; a positive gain is better."""

    score: str
    before: float
    after: float
    gain: float
    """before − after."""
    low: float
    high: float
    p_value: float
    """Two-sided, of no difference; from the transformed t that the interval inverts."""
    method: str

    @classmethod
    def of(
        cls, score: str, before: np.ndarray, after: np.ndarray, weights: Any, units: np.ndarray | None, level: float
    ) -> Gain:
        """From the scores (N,) of the rows: the difference of their means, or of the roots of these."""
        ends, terms, moments = [], [before, after], Moments()
        for k, rows in enumerate((before, after)):
            total = Moments()
            total.add(rows, weights, None, spread=False)
            ends.append(total.mean())
            if root_of(score):
                ends[k] = math.sqrt(ends[k])
                terms[k] = rows / (2.0 * ends[k]) if ends[k] > 0 else np.zeros_like(rows)  # all rows are 0
        with np.errstate(invalid="ignore"):
            moments.add(terms[0] - terms[1], weights, units)
            gain = ends[0] - ends[1]
            error, skewness, count = moments.error_and_skewness()
            found = studentised(gain, error, skewness, count, level)
            p_value = math.nan if found is NONE else _p_value(gain / error, skewness, count)
        return cls(score, ends[0], ends[1], gain, found.low, found.high, p_value, found.method)

    @property
    def relative(self) -> float:
        """The gain divided by the score before."""
        return self.gain / self.before if self.before > 0 else math.nan

    def to_json(self) -> dict[str, Any]:
        """The fields, with the relative gain."""
        return super().to_json() | {"relative": encode(self.relative)}


def _p_value(t: float, skewness: float, n: float) -> float:
    """Of Hall's transformed t, h(T) = T + aT² + a²T³/3 + a/2 with a = γ/(3√n): what `studentised` inverts."""
    from scipy.special import stdtr

    a = skewness / (3.0 * math.sqrt(n))
    h = t + a * t * t + a * a * t**3 / 3.0 + a / 2.0
    return float(2.0 * stdtr(n - 1, -abs(h)))


# ------------------------------------------------------------------------------------------ all of them
@dataclass(frozen=True)
class Improvement(Stored):
    """The gains in proper scores by a recalibration, and what they mean for calibration."""

    JSON_OPTIONAL = ("sizes",)

    before: str
    after: str
    n: int
    level: float
    map: str
    """injective, not known to be injective, several (one a fold, or a member), or not known."""
    method: str | None
    """The recalibration that made `after`, if its predictions name it."""
    gains: Mapping[str, Gain]
    sizes: SampleSizeCurves | None = None
    """Metrics before and after, and their differences, on random subsets of many sizes."""

    def __getitem__(self, score: str) -> Gain:
        if score not in self.gains:
            raise UsageError("improvement", expected=", ".join(self.gains), got=show(score), hint="add it to metrics=")
        return self.gains[score]

    def reading(self) -> tuple[str, ...]:
        """What the gains mean for calibration, in words."""
        return tuple(display.recalibration().describe_improvement(self))

    def to_json(self) -> dict[str, Any]:
        """The fields, with their meaning in words."""
        return super().to_json() | {"reading": list(self.reading()), "reference": REFERENCE}

    def __str__(self) -> str:
        return str(display.recalibration().as_text(self))

    def __repr__(self) -> str:
        return f"Improvement(before={self.before!r}, after={self.after!r}, scores={list(self.gains)})"

    def _repr_html_(self) -> str:
        return str(display.recalibration().as_html(self))
