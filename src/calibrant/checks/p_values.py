"""The p-values and quantiles of a check: where an observed statistic lies in its predictive distribution."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant.checks.distributions import Lattice, Law, Mixture, Replicates
from calibrant.results.check import EXACT, Check

LEVELS = {"q025": 0.025, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95, "q975": 0.975}
OUTERMOST = 1.0 / 1001.0
"""The level that stands for the smallest of 1000 replicates of a known distribution without a smallest value."""
EQUAL = 1e-12
"""Relative difference below which two values of a distribution are equal."""
MIN_REPLICATES = 8
"""Replicates of one member from which its mean and standard deviation are estimated."""


def check_against(law: Law, n: int, u: float) -> Check:
    """The check of an observed statistic of n rows; `u` in (0, 1) is the U of the randomised p-value."""
    if isinstance(law, Replicates):
        return _of_replicates(law, n, u)
    return _of_law(law, n, u)


def _undefined(observed: float, n: int, draws: int | str, method: str, undefined: int) -> Check:
    """A check without a p-value."""
    numbers = [item.name for item in fields(Check) if item.type == "float" and item.name != "observed"]
    nothing: dict[str, Any] = dict.fromkeys(numbers, math.nan) | {"passed_range": None, "passed_interval": None}
    return Check(**nothing, observed=observed, n=n, draws=draws, method=method, undefined=undefined)


def _of_replicates(law: Replicates, n: int, u: float) -> Check:
    values = np.sort(law.values[~np.isnan(law.values)])
    draws, undefined = len(law.values), len(law.values) - len(values)
    observed = float(law.observed)
    if math.isnan(observed) or not len(values):
        return _undefined(observed, n, draws, "sampled", undefined)
    known = len(values)
    slack = max(law.slack, EQUAL * abs(observed)) if math.isfinite(observed) else 0.0
    below = int(np.searchsorted(values, observed - slack, side="left"))
    ties = int(np.searchsorted(values, observed + slack, side="right")) - below
    mid = (below + 0.5 * ties) / known
    steady = (below + 0.5 * ties + 0.5) / (known + 1.0)
    method = "linear" if np.isfinite(values).all() else "inverted_cdf"  # infinite values cannot be interpolated
    with np.errstate(invalid="ignore"):  # infinite values have no spread
        ends = np.quantile(values, list(LEVELS.values()), method=method)  # type: ignore[call-overload]
        quantiles: dict[str, Any] = dict(zip(LEVELS, ends.tolist(), strict=True))
        mean, sd = float(values.mean()), float(values.std())
    return Check(
        observed=observed, n=n, p_value=below / known, mid_p=mid, two_sided=min(1.0, 2.0 * min(mid, 1.0 - mid)),
        randomised=(below + u * (ties + 1)) / (known + 1), se=math.sqrt(steady * (1.0 - steady) / known),
        mean=mean, sd=sd, min=float(values[0]), max=float(values[-1]), **quantiles,
        passed_range=bool(values[0] - slack <= observed <= values[-1] + slack),
        passed_interval=bool(quantiles["q025"] - slack <= observed <= quantiles["q975"] + slack),
        draws=draws, undefined=undefined,
    )  # fmt: skip


def _of_law(law: Lattice | Mixture, n: int, u: float) -> Check:
    observed = float(law.observed)
    parts = law.probability if isinstance(law, Lattice) else law.mean
    if math.isnan(observed) or not len(parts) or np.isnan(parts).any():
        return _undefined(observed, n, EXACT, law.method, 0)
    shape = _LatticeShape(law) if isinstance(law, Lattice) else _MixtureShape(law)
    below, ties = shape.below(observed)
    mid = min(max(below + 0.5 * ties, 0.0), 1.0)
    low, *inner, high = shape.quantiles(np.array([OUTERMOST, *LEVELS.values(), 1.0 - OUTERMOST])).tolist()
    quantiles: dict[str, Any] = dict(zip(LEVELS, inner, strict=True))
    return Check(
        observed=observed, n=n, p_value=below, mid_p=mid, two_sided=min(1.0, 2.0 * min(mid, 1.0 - mid)),
        randomised=min(below + u * ties, 1.0), se=law.error,
        mean=shape.mean, sd=shape.sd, min=low, max=high, **quantiles,
        passed_range=_within(low, observed, high),
        passed_interval=_within(quantiles["q025"], observed, quantiles["q975"]),
        draws=EXACT, method=law.method,
    )  # fmt: skip


def _within(low: float, value: float, high: float) -> bool:
    slack = EQUAL * max(abs(low), abs(high))
    return low - slack <= value <= high + slack


class _LatticeShape:
    """Mean, standard deviation, quantiles and tail probabilities of a discrete distribution."""

    def __init__(self, law: Lattice) -> None:
        self.values, weight = law.values, np.maximum(law.probability, 0.0)
        self.share = weight / weight.sum()
        self.under = np.cumsum(self.share)
        self.mean = float((self.share * self.values).sum())
        self.sd = math.sqrt(max(float((self.share * (self.values - self.mean) ** 2).sum()), 0.0))

    def below(self, x: float) -> tuple[float, float]:
        """The probability of values below x, and of x."""
        slack = EQUAL * max(abs(x), float(np.abs(self.values).max())) if math.isfinite(x) else 0.0
        first, last = np.searchsorted(self.values, [x - slack, x + slack])
        last = max(int(last), int(np.searchsorted(self.values, x + slack, side="right")))
        under = float(self.under[first - 1]) if first else 0.0
        return min(under, 1.0), float(self.share[first:last].sum())

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """The smallest values with at least these cumulative probabilities."""
        place = np.searchsorted(self.under, levels * (1.0 - EQUAL))
        return self.values[np.minimum(place, len(self.values) - 1)]


class _MixtureShape:
    """The same for an equal mixture of nearly normal distributions."""

    def __init__(self, law: Mixture) -> None:
        self.law = law
        self.mean = float(law.mean.mean())
        self.sd = math.sqrt(float((law.sd**2).mean() + ((law.mean - self.mean) ** 2).mean()))

    def below(self, x: float) -> tuple[float, float]:
        """The probability of values below x, and of x: components without spread are single values."""
        if not math.isfinite(x):
            return float(x > 0), 0.0
        below, ties = self._shares(np.array([x]))
        return float(below[0]), float(ties[0])

    def _shares(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for several values (K,)."""
        law, x, still = self.law, x[:, None], self.law.sd == 0.0
        at = still & (np.abs(x - law.mean) <= EQUAL * np.abs(law.mean))
        z = np.clip((x - law.mean) / np.where(still, 1.0, law.sd), -40.0, 40.0)
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        smooth = np.clip(ndtr(z) - density * law.skewness * (z * z - 1.0) / 6.0, 0.0, 1.0)
        return np.where(still, (law.mean < x) & ~at, smooth).mean(axis=1), at.mean(axis=1)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """By bisection, for all levels at once."""
        low = np.full(len(levels), float((self.law.mean - 12.0 * self.law.sd).min()))
        high = np.full(len(levels), float((self.law.mean + 12.0 * self.law.sd).max()))
        for _ in range(60):
            middle = 0.5 * (low + high)
            below, ties = self._shares(middle)
            short = below + ties < levels
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.maximum(high, self.law.least)


def nearest_member(law: Law, source: np.ndarray, members: int) -> float:
    """The smallest |T − mean_m|/sd_m over the members; source (R,): the member of each replicate."""
    if members == 1 or not math.isfinite(law.observed):
        return math.nan
    if isinstance(law, Replicates) and len(law.values) == len(source):
        counts = np.bincount(source, minlength=members)
        if counts.min() < MIN_REPLICATES or not np.isfinite(law.values).all():
            return math.nan
        mean = np.bincount(source, law.values, members) / counts
        squares = np.bincount(source, (law.values - mean[source]) ** 2, members)
        return _nearest(law.observed, mean, np.sqrt(squares / (counts - 1)))
    if isinstance(law, Mixture) and len(law.mean) == members:
        return _nearest(law.observed, law.mean, law.sd)
    if isinstance(law, Lattice) and law.members is not None and len(law.members[0]) == members:
        return _nearest(law.observed, *law.members)
    return math.nan


def _nearest(observed: float, mean: np.ndarray, sd: np.ndarray) -> float:
    away = np.abs(observed - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(away <= EQUAL * np.abs(mean), 0.0, away / sd)
    return float(far.min()) if np.isfinite(far.min()) else math.nan
