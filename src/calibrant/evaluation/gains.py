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
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.evaluation.size_curves import Sizes
from calibrant.intervals import NONE, studentised
from calibrant.registry.accumulators import Moments

ROOTS = {"rbs": "brier"}
"""Roots of the mean of a row score: their gain has its interval by the delta method."""
DIVERGENCES = {
    "nll": "the expected Kullback-Leibler divergence",
    "brier": "CE₂², the square of the canonical L2 error",
    "dss": "the divergence of the Dawid-Sebastiani score",
    "crps": "the divergence of the CRPS",
    "pinball": "the divergence of the pinball loss",
}
REFERENCE = "Gruber & Buettner (2022), proposition 4.5"
KNOWN = ("injective", "not known to be injective", "several", "not known")


# --------------------------------------------------------------------------------------------- one score
@dataclass(frozen=True)
class Gain:
    """A score before and after on the same rows; above zero is better."""

    score: str
    before: float
    after: float
    gain: float
    """before − after."""
    low: float
    high: float
    p_value: float
    """Two-sided, of no difference in expectation; from the transformed t that the interval inverts."""
    method: str

    @classmethod
    def of(
        cls, score: str, before: np.ndarray, after: np.ndarray, weights: Any, units: np.ndarray | None, level: float
    ) -> Gain:
        """From the scores (N,) of the rows, whose means, or roots of them, are compared."""
        ends = _mean(before, weights), _mean(after, weights)
        if score in ROOTS:
            roots = tuple(math.sqrt(end) for end in ends)
            halves = [_over(rows, 2.0 * root) for rows, root in zip((before, after), roots, strict=True)]
            return cls._with_interval(score, roots, halves[0] - halves[1], weights, units, level)
        with np.errstate(invalid="ignore"):
            return cls._with_interval(score, ends, before - after, weights, units, level)

    @classmethod
    def _with_interval(
        cls, score: str, ends: tuple[float, ...], terms: np.ndarray, weights: Any, units: Any, level: float
    ) -> Gain:
        moments = Moments()
        moments.add(terms, weights, units)
        gain = ends[0] - ends[1]
        error, skewness, count = moments.error_and_skewness()
        found = studentised(gain, error, skewness, count, level)
        p_value = math.nan if found is NONE else _p_value(gain / error, skewness, count)
        return cls(score, ends[0], ends[1], gain, found.low, found.high, p_value, found.method)

    @property
    def relative(self) -> float:
        """The gain as a share of what there was."""
        return self.gain / self.before if self.before > 0 else math.nan

    def to_json(self) -> dict[str, Any]:
        """As plain data; what is not finite is null."""
        plain = asdict(self) | {"relative": self.relative}
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in plain.items()}


def _mean(rows: np.ndarray, weights: np.ndarray | None) -> float:
    moments = Moments()
    moments.add(rows, weights, None, spread=False)
    return moments.mean()


def _over(rows: np.ndarray, by: float) -> np.ndarray:
    """Rows divided by a number; zeros where that is 0, for then all rows are."""
    return rows / by if by > 0 else np.zeros_like(rows)


def _p_value(t: float, skewness: float, n: int) -> float:
    """Of Hall's transformed t, h(T) = T + aT² + a²T³/3 + a/2 with a = γ/(3√n): what `studentised` inverts."""
    from scipy.special import stdtr

    a = skewness / (3.0 * math.sqrt(n))
    h = t + a * t * t + a * a * t**3 / 3.0 + a / 2.0
    return float(2.0 * stdtr(n - 1, -abs(h)))


# ------------------------------------------------------------------------------------------ all of them
@dataclass(frozen=True)
class Improvement:
    """The gain in each proper score, what may be concluded from it, and the usual errors at several test sizes."""

    before: str
    after: str
    n: int
    level: float
    map: str
    """injective, not known to be injective, several (one a fold, or a member), or not known."""
    method: str | None
    """The recalibration that made `after`, where its predictions say so."""
    gains: Mapping[str, Gain]
    sizes: Sizes | None = None
    """Metrics before, after and their differences on random subsets of many sizes."""

    def __getitem__(self, score: str) -> Gain:
        if score not in self.gains:
            raise UsageError(
                "improvement", expected=", ".join(self.gains), came=f"got {show(score)}", do="name it in `scores`"
            )
        return self.gains[score]

    def reading(self) -> tuple[str, ...]:
        """What the gains say, and what they do not, in words."""
        from calibrant.evaluation.improvement_tables import reading

        return reading(self)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "before": self.before,
            "after": self.after,
            "n": self.n,
            "level": self.level,
            "map": self.map,
            "method": self.method,
            "gains": {score: gain.to_json() for score, gain in self.gains.items()},
            "reading": list(self.reading()),
            "reference": REFERENCE,
        } | ({} if self.sizes is None else {"sizes": self.sizes.to_json()})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Improvement:
        """What `to_json` wrote; numbers that were not finite come back as undefined."""
        gains = {}
        for score, known in data["gains"].items():
            fields: dict[str, Any] = {k: math.nan if v is None else v for k, v in known.items() if k != "relative"}
            gains[score] = Gain(**fields)
        plain = {key: data[key] for key in ("before", "after", "n", "level", "map", "method")}
        return cls(**plain, gains=gains, sizes=Sizes.from_json(data["sizes"]) if "sizes" in data else None)

    def __str__(self) -> str:
        from calibrant.evaluation.improvement_tables import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from calibrant.evaluation.improvement_tables import as_html

        return as_html(self)
