"""Platt scaling of the variance: σ² → wσ² + b, with w and b that minimise the Dawid-Sebastiani score.

The score of a row is (y − μ)²/σ² + log σ²; it is proper, and its mean is not convex in (w, b). Gruber & Buettner
(2022), Better uncertainty calibration via proper scores for classification and beyond, NeurIPS 35, section 5, who bound
w and b from below by 1e-10. Here the bound is 1e-10 in units of the data, so that the same predictions in other units
have the same map: of b where the mean squared error is 1 (or the smallest variance, scaled alone, where that is less:
else the bound could make small variances worse than they were), of w where the mean predicted variance is 1 as well.

For a ratio ρ = b/w the best w is the mean of (y − μ)²/(σ² + ρ), which leaves a function of ρ alone. It is looked at
over a wide grid, and Newton steps inside the bounds lead on from each of its minima: the lowest end is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.errors import ValuesError, show
from calibrant.recalibration.gaussian_rows import GaussianRows, SpreadMap, SpreadRecalibrator
from calibrant.recalibration.report import Fit

LEAST = 1e-10
"""Of w and of b, in units of the data."""
SETTLED = 1e-8
"""The largest slope, by the logarithm of what is not held by its bound, at which a fit has settled."""
MOST_STEPS = 200
TINY = 1e-200
"""A variance less than this share of the mean one counts as that."""
GRID = 41
ALIKE = 1e-9
"""Variances that differ by less than this share are the same."""


@dataclass(frozen=True)
class VarianceMap(SpreadMap):
    """wσ² + b, and the least that w and b could be."""

    w: float
    b: float
    least_w: float = 0.0
    least_b: float = 0.0

    n_parameters: ClassVar[int] = 2
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (0.0 < self.w < math.inf and 0.0 <= self.b < math.inf):
            raise ValueError(f"w of {self.w} and b of {self.b}")
        if not (0.0 <= self.least_w <= self.w and 0.0 <= self.least_b <= self.b):
            raise ValueError(f"bounds of {self.least_w} and {self.least_b}")

    @property
    def injective(self) -> bool:
        """Whether w is above its bound: then predicted variances still count."""
        return self.w > self.least_w

    @property
    def pure_scaling(self) -> bool:
        """Whether b ended at its bound, so that the variance is multiplied and nothing else."""
        return self.b <= self.least_b

    def apply(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        """√(wσ² + b)."""
        return np.hypot(math.sqrt(self.w) * std.astype(np.float64), math.sqrt(self.b))


@dataclass(eq=False, kw_only=True)
class VarianceScaling(SpreadRecalibrator):
    """σ² → wσ² + b: errors that predicted variances know nothing of are in b. Means stay as they are."""

    name = "variance"
    title = "Platt scaling of the variance"
    reference = (
        "Gruber & Buettner (2022), Better uncertainty calibration via proper scores for classification and beyond, "
        "NeurIPS 35"
    )
    map_class = VarianceMap

    def fit_rows(self, rows: GaussianRows) -> tuple[VarianceMap, Fit]:
        """The w and b of the lowest mean score."""
        problem, error, spread = _scaled(rows)
        end, settled, steps, passes = _minimum(problem)
        unit = 2.0 * math.log(error)
        factors = unit - 2.0 * math.log(spread), unit
        w, b = map(_finite, end.place, factors)
        least_w, least_b = map(_finite, problem.least, factors)
        made = VarianceMap(w=w, b=b, least_w=least_w, least_b=least_b)
        before, after = _score(rows), end.value + unit
        fit = Fit(
            n=rows.n,
            loss="dss",
            before=before,
            after=after,
            converged=settled,
            iterations=steps,
            passes=passes,
            gradient=end.slope(problem.least),
            at_bound=() if made.injective else (_UNINFORMATIVE,),
            said=(*problem.said, *rows.few(), *(_WORSE,) * (after > before + SETTLED)),
        )
        return made, fit


_UNINFORMATIVE = (
    "w ended at its bound: predicted variances say nothing of the errors, and every row has the variance b now; "
    "the map is not injective"
)
_ALIKE = (
    "alike-variances",
    "all rows have the same predicted variance, so that w and b cannot be told apart; b stays at its bound",
)
_WORSE = (
    "fit-worse",
    "predicted variances differ so much that the bounds of w and b make the score worse than it was; leave them as "
    "they are, or look into the smallest",
)


def _score(rows: GaussianRows) -> float:
    """The mean score as predicted; infinite where a number cannot hold it."""
    with np.errstate(over="ignore"):
        ratios = np.square((rows.y - rows.mean) / rows.std)
    logs = 2.0 * rows.total(np.log(rows.std))
    return rows.total(ratios) + logs if np.isfinite(ratios[rows.shares > 0]).all() else math.inf


def _finite(value: float, log_factor: float) -> float:
    """value · exp(log_factor), or an error where a number cannot hold it."""
    power = math.log(value) + log_factor
    if not -700.0 < power < 700.0:
        raise ValuesError("variance", expected="variances that numbers can hold", came=f"one of 10^{power / 2.3:.0f}",
                          do="give y, mean and std in other units")  # fmt: skip
    return math.exp(power)


# ------------------------------------------------------------------------------------------- the problem
@dataclass(frozen=True)
class _Point:
    """w and b, the mean score there, and its derivatives in units of w and b, which neither over- nor underflow."""

    w: float
    b: float
    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    @property
    def place(self) -> np.ndarray:
        return np.array([self.w, self.b])

    def held(self, least: np.ndarray) -> np.ndarray:
        """Which of w and b would go below its bound."""
        return (self.place <= least) & (self.gradient > 0)

    def slope(self, least: np.ndarray) -> float:
        """The largest slope by log w and log b, what is held left out."""
        return float(np.abs(self.gradient).max(initial=0.0, where=~self.held(least)))


@dataclass(frozen=True)
class _Problem:
    """Squared errors and variances, both of mean 1."""

    errors: np.ndarray
    variances: np.ndarray
    rows: GaussianRows
    least: np.ndarray
    """The bounds of w and b."""
    said: tuple[tuple[str, str], ...] = ()

    def at(self, w: float, b: float) -> _Point:
        """The mean score, its gradient and its curvature at w and b."""
        scaled, mean = w * self.variances, self.rows.total
        new = scaled + b
        ratio, of_w, of_b = self.errors / new, scaled / new, b / new
        first, second = 1.0 - ratio, 2.0 * ratio - 1.0
        gradient = np.array([mean(first * of_w), mean(first * of_b)])
        mixed = mean(second * of_w * of_b)
        hessian = np.array([[mean(second * of_w * of_w), mixed], [mixed, mean(second * of_b * of_b)]])
        return _Point(w, b, mean(ratio + np.log(new)), gradient, hessian)

    def starts(self) -> Iterator[tuple[float, float]]:
        """(w, b) at the minima over the grid of ρ = b/w; its ends are scaling alone and a constant variance."""
        counted = self.rows.shares > 0
        low, high = self.variances[counted].min(), self.variances[counted].max()
        ratios = np.concatenate([[0.0], np.geomspace(1e-4 * low, 1e4 * high, GRID)])
        best = [self.rows.total(self.errors / (self.variances + ratio)) for ratio in ratios]
        values = [math.log(w) + self.rows.total(np.log(self.variances + r)) for w, r in zip(best, ratios, strict=True)]
        around = np.concatenate([[np.inf], values, [np.inf]])
        for k in np.flatnonzero((values <= around[:-2]) & (values <= around[2:])):
            yield max(best[k], self.least[0]), max(best[k] * ratios[k], self.least[1])
        yield self.least[0], 1.0


def _scaled(rows: GaussianRows) -> tuple[_Problem, float, float]:
    """The problem in units of the root mean squared error and of the root mean variance, and both."""
    errors, error = _unit(np.abs(rows.y - rows.mean), rows)
    if not 0.0 < error < math.inf:
        raise ValuesError(
            f"variance: {show(rows.name)}",
            expected="outcomes that differ from their predicted mean",
            came="they equal it in every row, or differ beyond what numbers can hold",
            do="fit on held-out rows: no variance above 0 is the best",
        )
    variances, spread = _unit(rows.std, rows)
    variances = np.maximum(variances, TINY)
    counted = variances[rows.shares > 0]
    alike = counted.max() - counted.min() <= ALIKE * counted.max()
    scaled = rows.total(errors / variances) * counted.min()
    least = LEAST * np.array([1.0, min(scaled, 1.0)])
    return _Problem(errors, variances, rows, least, (_ALIKE,) * bool(alike)), error, spread


def _unit(values: np.ndarray, rows: GaussianRows) -> tuple[np.ndarray, float]:
    """Squares of values divided by their root mean square, and that; nothing overflows on the way."""
    largest = float(values.max(initial=0.0, where=rows.shares > 0))
    if not 0.0 < largest < math.inf:
        return values, largest
    with np.errstate(under="ignore"):
        squares = np.square(values / largest)
    mean = rows.total(squares)
    return squares / mean, largest * math.sqrt(mean)


# ------------------------------------------------------------------------------------------ the minimum
def _minimum(problem: _Problem) -> tuple[_Point, bool, int, int]:
    """The lowest point, whether it settled, the steps that led to it, and how often the rows were read."""
    if problem.said:
        w = problem.rows.total(problem.errors / problem.variances) - problem.least[1]
        return problem.at(max(w, problem.least[0]), problem.least[1]), True, 0, 2
    ends = [_descended(problem, problem.at(*start)) for start in problem.starts()]
    passes = 2 * (GRID + 1) + sum(read for *_, read in ends)
    end, settled, steps, _ = min(ends, key=lambda found: (found[0].value, not found[1]))
    return end, settled, steps, passes


def _descended(problem: _Problem, point: _Point) -> tuple[_Point, bool, int, int]:
    """Newton steps inside the bounds until the slope is small and a bound is no better, or nothing falls any more."""
    passes, least = 1, problem.least
    for step in range(MOST_STEPS):
        settled = point.slope(least) <= SETTLED
        found, read = _at_bound(problem, point) if settled else _lower(problem, point, _direction(point, least))
        passes += read
        if found is None:
            return point, settled, step, passes
        point = found
    return point, False, MOST_STEPS, passes


def _at_bound(problem: _Problem, point: _Point) -> tuple[_Point | None, int]:
    """The point with w or b, where it counts for next to nothing, put to its bound; None where that is not better."""
    free = (point.place > problem.least) & (point.gradient > 0)
    for k in np.flatnonzero(free):
        place = point.place
        place[k] = problem.least[k]
        there = problem.at(*place)
        if there.value <= point.value:
            return there, int(free.sum())
    return None, int(free.sum())


def _direction(point: _Point, least: np.ndarray) -> np.ndarray:
    """The Newton step of what is not held, by logarithms; where it curves downwards, by the size of the curvature."""
    free = ~point.held(least)
    step = np.zeros(2)
    values, vectors = np.linalg.eigh(point.hessian[np.ix_(free, free)])
    sizes = np.maximum(np.abs(values), 1e-12)
    step[free] = -(vectors @ (vectors.T @ point.gradient[free] / sizes))
    return step * point.place


def _lower(problem: _Problem, point: _Point, step: np.ndarray) -> tuple[_Point | None, int]:
    """A point along the step, cut at the bounds, that is lower by enough; None where rounding allows none."""
    for tried in range(40):
        there = problem.at(*np.maximum(point.place + 0.5**tried * step, problem.least))
        fall = float(point.gradient @ (1.0 - there.place / point.place))
        if there.value < point.value - 1e-4 * max(fall, 0.0):
            return there, tried + 1
        if abs(fall) <= 1e-14 * max(abs(point.value), 1.0):
            flatter = there.slope(problem.least) < point.slope(problem.least)
            return (there if flatter else None), tried + 1
    return None, 40
