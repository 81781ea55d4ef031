"""Platt scaling of the variance: σ² → wσ² + b, with w and b that minimise the Dawid-Sebastiani score.

The score of a row is (y − μ)²/σ² + log σ²; it is proper, and its mean is not convex in (w, b). Gruber & Buettner
(2022), Better uncertainty calibration via proper scores for classification and beyond, NeurIPS 35, section 5, bound w
and b from below by 1e-10. Here the bound is 1e-10 in units of the data, so that the same predictions in other units
have the same map: for b where the mean squared error is 1 (or the smallest variance, scaled alone, if that is less:
otherwise the bound could make small variances worse than before), for w where the mean predicted variance is 1 as well.

For a ratio ρ = b/w the best w is the mean of (y − μ)²/(σ² + ρ), which leaves a function of ρ alone. It is evaluated on
a wide grid, and Newton steps inside the bounds start from each of its minima: the lowest end is the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.errors import ValuesError, show
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.gaussian_rows import GaussianRows, SpreadMap, SpreadRecalibrator

LOWER_BOUND = 1e-10
"""The lower bound of w and of b, in units of the data."""
TOLERANCE = 1e-8
"""The largest gradient at convergence, by the logarithm of each parameter that no bound stops."""
MAX_STEPS = 200
TINY = 1e-200
"""Variances are clipped to this share of their mean."""
GRID = 41
EQUAL = 1e-9
"""Variances that differ by less than this share are equal."""


@dataclass(frozen=True)
class VarianceMap(SpreadMap):
    """wσ² + b, and the lower bounds of w and b."""

    w: float
    b: float
    least_w: float = 0.0
    least_b: float = 0.0

    n_parameters: ClassVar[int] = 2
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (0.0 < self.w < math.inf and 0.0 <= self.b < math.inf):
            raise ValueError(f"w must be positive and b at least 0, got {self.w} and {self.b}")
        if not (0.0 <= self.least_w <= self.w and 0.0 <= self.least_b <= self.b):
            raise ValueError(f"bounds must be between 0 and w or b, got {self.least_w} and {self.least_b}")

    @property
    def injective(self) -> bool:
        """Whether w is above its bound, so that predicted variances still matter."""
        return self.w > self.least_w

    @property
    def pure_scaling(self) -> bool:
        """Whether b ended at its bound, so that the variance is only multiplied."""
        return self.b <= self.least_b

    def apply(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        return np.hypot(math.sqrt(self.w) * std.astype(np.float64), math.sqrt(self.b))


@dataclass(eq=False, kw_only=True)
class VarianceScaling(SpreadRecalibrator):
    """Map variances by σ² → wσ² + b, where b is error that the predicted variances do not explain. Means stay.

    Examples
    --------
    >>> import calibrant as cal
    >>> std = [1.0, 2.0] * 20
    >>> p = cal.Regression.from_gaussian([0.0] * 40, std, y=[-2.0, 3.0, 2.0, -3.0] * 10)
    >>> cal.recalibration.VarianceScaling().fit(p).maps[0].apply(p.mean[0, :2], p.std[0, :2]).round(3).tolist()
    [2.0, 3.0]
    """

    name = "variance"
    title = "Platt scaling of the variance"
    reference = (
        "Gruber & Buettner (2022), Better uncertainty calibration via proper scores for classification and beyond, "
        "NeurIPS 35"
    )
    map_class = VarianceMap

    def fit_rows(self, rows: GaussianRows) -> tuple[VarianceMap, FitReport]:
        """Find the w and b with the lowest mean score."""
        errors, error = _squares_of_mean_one(np.abs(rows.y - rows.mean), rows)
        if not 0.0 < error < math.inf:
            raise ValuesError(
                f"variance: {show(rows.name)}",
                expected="outcomes that differ from their predicted mean",
                got="no error in any row, or an infinite one",
                hint="fit on held-out rows: no positive variance is the best",
            )
        variances, spread = _squares_of_mean_one(rows.std, rows)
        variances = np.maximum(variances, TINY)
        counted = variances[rows.row_weights > 0]
        equal = bool(counted.max() - counted.min() <= EQUAL * counted.max())
        scaled = rows.weighted_mean(errors / variances) * counted.min()
        bounds = LOWER_BOUND * np.array([1.0, min(scaled, 1.0)])
        score = MeanScore(errors, variances, rows, bounds)
        if equal:
            w = rows.weighted_mean(errors / variances) - bounds[1]
            end, converged, steps, passes = score.at(max(w, bounds[0]), bounds[1]), True, 0, 2
        else:
            ends = [_descend(score, score.at(*start)) for start in score.starts()]
            passes = 2 * (GRID + 1) + sum(each[-1] for each in ends)
            end, converged, steps, _ = min(ends, key=lambda each: (each[0].value, not each[1]))
        log_unit = 2.0 * math.log(error)
        factors = log_unit - 2.0 * math.log(spread), log_unit
        w, b = map(_rescale, end.parameters, factors)
        least_w, least_b = map(_rescale, bounds, factors)
        fitted = VarianceMap(w=w, b=b, least_w=least_w, least_b=least_b)
        with np.errstate(over="ignore"):
            ratios = np.square((rows.y - rows.mean) / rows.std)
        before = math.inf  # of the original predictions, on overflow
        if np.isfinite(ratios[rows.row_weights > 0]).all():
            before = rows.weighted_mean(ratios) + 2.0 * rows.weighted_mean(np.log(rows.std))
        after = end.value + log_unit
        at_bound: tuple[str, ...] = ()
        if not fitted.injective:
            text = "w ended at its lower bound: predicted variances do not explain the errors, and every row now has"
            at_bound = (f"{text} the variance b; the map is not injective",)
        messages = rows.few_rows_message()
        if equal:
            text = "all rows have the same predicted variance, so w and b cannot be separated; b stays at its bound"
            messages = (("alike-variances", text), *messages)
        if after > before + TOLERANCE:
            text = "predicted variances differ so much that the bounds of w and b make the score worse than before"
            messages = (*messages, ("fit-worse", f"{text}; keep the predictions as they are, or check the smallest"))
        fit = FitReport(
            n=rows.n, loss="dss", before=before, after=after, converged=converged, iterations=steps, passes=passes,
            gradient=end.max_gradient(bounds), at_bound=at_bound, messages=messages,
        )  # fmt: skip
        return fitted, fit


def _squares_of_mean_one(values: np.ndarray, rows: GaussianRows) -> tuple[np.ndarray, float]:
    """Squares of values divided by their mean, and the root of that mean, without overflow."""
    largest = float(values.max(initial=0.0, where=rows.row_weights > 0))
    if not 0.0 < largest < math.inf:
        return values, largest
    with np.errstate(under="ignore"):
        squares = np.square(values / largest)
    mean = rows.weighted_mean(squares)
    return squares / mean, largest * math.sqrt(mean)


def _rescale(value: float, log_factor: float) -> float:
    """value · exp(log_factor), or an error if a float cannot represent it."""
    power = math.log(value) + log_factor
    if not -700.0 < power < 700.0:
        raise ValuesError("variance", expected="variances that a float can represent", got=f"10^{power / 2.3:.0f}",
                          hint="give y, mean and std in other units")  # fmt: skip
    return math.exp(power)


# ------------------------------------------------------------------------------------------- the objective
@dataclass(frozen=True)
class Point:
    """w and b, the mean score there, and its derivatives in units of w and b, which neither over- nor underflow."""

    parameters: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    def stopped(self, bounds: np.ndarray) -> np.ndarray:
        """Which of w and b a bound stops."""
        return (self.parameters <= bounds) & (self.gradient > 0)

    def max_gradient(self, bounds: np.ndarray) -> float:
        """The largest gradient by log w and log b, without parameters that a bound stops."""
        return float(np.abs(self.gradient).max(initial=0.0, where=~self.stopped(bounds)))


@dataclass(frozen=True)
class MeanScore:
    """The mean score as a function of w and b, for squared errors and variances that both have mean 1."""

    errors: np.ndarray
    variances: np.ndarray
    rows: GaussianRows
    bounds: np.ndarray
    """The lower bounds of w and b."""

    def at(self, w: float, b: float) -> Point:
        """The mean score, its gradient and its Hessian at w and b."""
        scaled, mean = w * self.variances, self.rows.weighted_mean
        new = scaled + b
        ratio, of_w, of_b = self.errors / new, scaled / new, b / new
        first, second = 1.0 - ratio, 2.0 * ratio - 1.0
        gradient = np.array([mean(first * of_w), mean(first * of_b)])
        mixed = mean(second * of_w * of_b)
        hessian = np.array([[mean(second * of_w * of_w), mixed], [mixed, mean(second * of_b * of_b)]])
        return Point(np.array([w, b]), mean(ratio + np.log(new)), gradient, hessian)

    def starts(self) -> Iterator[tuple[float, float]]:
        """(w, b) at the minima over the grid of ρ = b/w; its ends are scaling alone and a constant variance."""
        counted, mean = self.rows.row_weights > 0, self.rows.weighted_mean
        low, high = self.variances[counted].min(), self.variances[counted].max()
        ratios = np.concatenate([[0.0], np.geomspace(1e-4 * low, 1e4 * high, GRID)])
        best = [mean(self.errors / (self.variances + ratio)) for ratio in ratios]
        values = [math.log(w) + mean(np.log(self.variances + r)) for w, r in zip(best, ratios, strict=True)]
        padded = np.concatenate([[np.inf], values, [np.inf]])
        for k in np.flatnonzero((values <= padded[:-2]) & (values <= padded[2:])):
            yield max(best[k], self.bounds[0]), max(best[k] * ratios[k], self.bounds[1])
        yield self.bounds[0], 1.0


# ------------------------------------------------------------------------------------------ the minimum
def _descend(score: MeanScore, point: Point) -> tuple[Point, bool, int, int]:
    """Newton steps inside the bounds until the gradient vanishes and no bound is better, or the score stops falling.

    Returns the point, whether it converged, the number of steps, and how often the rows were read.
    """
    passes, bounds = 1, score.bounds
    for step in range(MAX_STEPS):
        converged = point.max_gradient(bounds) <= TOLERANCE
        if converged:
            # With w or b, where it is nearly irrelevant, at its bound; none if that is not better.
            free = np.flatnonzero((point.parameters > bounds) & (point.gradient > 0))
            there, evaluations = None, len(free)
            for k in free:
                parameters = point.parameters.copy()
                parameters[k] = bounds[k]
                bounded = score.at(*parameters)
                if bounded.value <= point.value:
                    there = bounded
                    break
        else:
            free = ~point.stopped(bounds)
            direction = np.zeros(2)
            values, vectors = np.linalg.eigh(point.hessian[np.ix_(free, free)])
            sizes = np.maximum(np.abs(values), 1e-12)  # where it curves downwards, the size of the curvature
            direction[free] = -(vectors @ (vectors.T @ point.gradient[free] / sizes))
            there, evaluations = _line_search(score, point, direction * point.parameters)
        passes += evaluations
        if there is None:
            return point, converged, step, passes
        point = there
    return point, False, MAX_STEPS, passes


def _line_search(score: MeanScore, point: Point, step: np.ndarray) -> tuple[Point | None, int]:
    """A point along the step, clipped to the bounds, that is sufficiently lower; None if rounding allows none."""
    for halvings in range(40):
        there = score.at(*np.maximum(point.parameters + 0.5**halvings * step, score.bounds))
        fall = float(point.gradient @ (1.0 - there.parameters / point.parameters))
        if there.value < point.value - 1e-4 * max(fall, 0.0):
            return there, halvings + 1
        if abs(fall) <= 1e-14 * max(abs(point.value), 1.0):
            flatter = there.max_gradient(score.bounds) < point.max_gradient(score.bounds)
            return (there if flatter else None), halvings + 1
    return None, 40
