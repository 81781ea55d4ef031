"""The symmetric bootstrap-t of paired differences, by resampled units.

With the residuals e_u = d_u − D·m_u of U units, m of which differ, se² = U/(U − 1)·Σe²/(Σm)². In a replicate each unit
counts v_u ~ Poisson(1) times, with the same counts for every pair, score and model; D* and se* are its own. Then
    t = D/√(se²(1 + 1/m)),    t* = (D* − D)/√(se*² + se²/m),
and the interval is D ± q·se·√(1 + 1/m), q the quantile of |t*|, but no less than that of Student's t with min(m, U − 1)
degrees. The share of one more unit, se²/m, keeps replicates that miss the few units that differ from being infinitely
far off (as pseudo-counts do for paired shares: Agresti & Min 2005); of scores that differ everywhere it is nothing.
The p-value is the larger of (1 + #{|t*| ≥ |t|})/(1 + B) and Student's: below 1 − level just where the interval leaves 0
out. Symmetric intervals err by less than equal-tailed ones (Hall 1992, The bootstrap and Edgeworth expansion, section
3.6), and turn with the pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.intervals import normal_quantile, t_quantile
from calibrant.kernels.paired import poisson_sums

TOGETHER = 256
"""Pairs whose sums lie in memory at one time."""
POWER = 0.8
ROUNDING = 8 * np.finfo(float).eps
"""Differences of scores that vary by no more than this share of the scores are taken for equal."""


@dataclass(frozen=True)
class Difference:
    """D, its standard error and its interval; NaN where units show no spread."""

    value: float
    low: float
    high: float
    p_value: float
    error: float

    @property
    def detectable(self) -> float:
        """What a two-sided test at 5 % would show in four of five cases."""
        return (normal_quantile(0.95) + normal_quantile(2 * POWER - 1)) * self.error


@dataclass(frozen=True)
class Bootstrap:
    """Replicates of the means of all columns, and the differences of pairs of them."""

    means: np.ndarray
    """(B', K) of the replicates that drew something; where none did, the means themselves."""
    differences: list[Difference]


def bootstrap(
    a: np.ndarray,
    mass: np.ndarray,
    pairs: list[tuple[int, int]],
    *,
    level: float,
    resamples: int,
    seed: int,
    threads: int | None,
) -> Bootstrap:
    """Of columns a (K, U) with masses (U,), and the pairs (i, j) of them."""
    means, found = np.empty((0, len(a))), []
    for start in range(0, max(len(pairs), 1), TOGETHER):
        some, models = pairs[start : start + TOGETHER], len(a) if start == 0 else 0
        columns = _Columns(a, mass, some, models)
        sums = poisson_sums(columns.fill, len(mass), columns.width, replicates=resamples, seed=seed, threads=threads)
        sums = sums[sums[:, 1] > 0.0]
        if models:
            means = sums[:, 3 : 3 + models] / sums[:, [1]] if len(sums) else a.sum(axis=1)[None] / mass.sum()
        found += [columns.difference(k, sums, level) for k in range(len(some))]
    return Bootstrap(means, found)


class _Columns:
    """Which sums a replicate needs: Σv, Σvm, Σvm²; Σva of models; Σve, Σve² and, of unequal masses, Σvem of pairs."""

    def __init__(self, a: np.ndarray, mass: np.ndarray, pairs: list[tuple[int, int]], models: int) -> None:
        self.a, self.mass, self.pairs, self.models = a, mass, pairs, models
        self.total = float(mass.sum())
        self.equal = bool((mass == mass[0]).all())
        self.values = [float((a[i] - a[j]).sum()) / self.total for i, j in pairs]
        self.each = 2 if self.equal else 3
        self.width = 3 + models + self.each * len(pairs)

    def residual(self, k: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """e_u of a pair."""
        (i, j), at = self.pairs[k], slice(start, stop)
        return self.a[i, at] - self.a[j, at] - self.values[k] * self.mass[at]

    def fill(self, start: int, stop: int, block: np.ndarray) -> None:
        """The columns of units start … stop."""
        mass = self.mass[start:stop]
        block[:, 0], block[:, 1], block[:, 2] = 1.0, mass, mass * mass
        block[:, 3 : 3 + self.models] = self.a[: self.models, start:stop].T
        with np.errstate(over="ignore"):
            for k in range(len(self.pairs)):
                e, at = self.residual(k, start, stop), 3 + self.models + self.each * k
                block[:, at], block[:, at + 1] = e, e * e
                if not self.equal:
                    block[:, at + 2] = e * mass

    def difference(self, k: int, sums: np.ndarray, level: float) -> Difference:
        """The interval of a pair from the sums of its replicates."""
        (i, j), n, value = self.pairs[k], len(self.mass), self.values[k]
        differ = int((self.a[i] != self.a[j]).sum())
        if differ == 0:
            return Difference(0.0, math.nan, math.nan, 1.0, math.nan)
        error = self._error(k)
        if not (error > 0.0 and math.isfinite(error)):
            return Difference(value, math.nan, math.nan, math.nan, math.nan)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            t = np.abs(self._apart(k, sums)) / np.sqrt(self._variance(k, sums) + error**2 / differ)
        t = t[~np.isnan(t)]
        wide = error * math.sqrt(1.0 + 1.0 / differ)
        quantile, p_value = _symmetric(t, abs(value) / wide, min(differ, n - 1), level)
        half = quantile * wide
        low, high = (value - half, value + half) if math.isfinite(half) else (math.nan, math.nan)
        return Difference(value, low, high, p_value, error)

    def _error(self, k: int) -> float:
        """The standard error; 0 where residuals are rounding, NaN of one unit."""
        (i, j), n = self.pairs[k], len(self.mass)
        if n < 2:
            return math.nan
        with np.errstate(over="ignore"):
            spread = float((self.residual(k) ** 2).sum())
            scale = max(float(np.abs(self.a[i]).max()), float(np.abs(self.a[j]).max()))
            rounding = n * (ROUNDING * scale) ** 2
        return 0.0 if spread <= rounding else math.sqrt(spread * n / (n - 1)) / self.total

    def _apart(self, k: int, sums: np.ndarray) -> np.ndarray:
        """D* − D."""
        return sums[:, 3 + self.models + self.each * k] / sums[:, 1]

    def _variance(self, k: int, sums: np.ndarray) -> np.ndarray:
        """se*²; 0 of one unit drawn."""
        at, apart = 3 + self.models + self.each * k, self._apart(k, sums)
        drawn, mass, squares = sums[:, 0], sums[:, 1], sums[:, 2]
        cross = apart * squares if self.equal else sums[:, at + 2]
        spread = sums[:, at + 1] - 2.0 * apart * cross + apart * apart * squares
        return np.maximum(spread, 0.0) / mass**2 * drawn / np.maximum(drawn - 1.0, 1.0)


def _symmetric(t: np.ndarray, observed: float, degrees: int, level: float) -> tuple[float, float]:
    """The quantile of |t*| and the p-value of an observed |t|, neither less than Student's."""
    from scipy.special import stdtr

    place = math.ceil((1.0 - level) * (1 + len(t)) * (1.0 - 1e-12)) - 1
    quantile = math.inf if place < 1 else float(np.partition(t, len(t) - place)[len(t) - place])
    p_value = (1 + int((t >= observed * (1.0 - 1e-12)).sum())) / (1 + len(t))
    student = float(2.0 * stdtr(degrees, -observed))
    return max(quantile, t_quantile(level, degrees)), max(p_value, student)
