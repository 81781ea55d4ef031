"""A temperature for each member, all fitted together: the recalibration of Gopal (2021), appendix G.1.

Maximises Σ_i w_i log (1/M) Σ_m softmax(z_m[i]/τ_m)[y_i] over τ_1 … τ_M (the printed formula is garbled). For one member
the problem is convex in 1/τ. For several it is not: what is returned is the better of two local optima, with no
promise that it is the best of all. Temperatures lie in [1/64, 64]. Each member keeps its predicted class; the average
of members need not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import ValuesError
from calibrant.kernels.exact import exact_sum
from calibrant.kernels.temperature import mixture_sums
from calibrant.predictions.classification import Classification
from calibrant.recalibration.base import Fitted, option
from calibrant.recalibration.class_rows import ClassRows, all_logits, as_classes, check_rows
from calibrant.recalibration.climbing import FLAT, Point, climb
from calibrant.recalibration.one_temperature import BOUND, WIDEST
from calibrant.recalibration.report import Fit
from calibrant.recalibration.temperature import TemperatureMap, TemperatureScaling

GRID = np.linspace(-WIDEST, WIDEST, 7)
COLDEST, WARMEST = 1.0 / BOUND, BOUND


# ------------------------------------------------------------------------------------------ the method
@dataclass(eq=False, kw_only=True)
class MemberTemperatureScaling(TemperatureScaling):
    """The temperatures of members under which their average is most likely; one map a member, one report of the fit.

    Starts: the best temperature common to all members, and the best of each member alone. From each, damped Newton
    steps that never make the objective fall (beyond rounding) and leave saddle points; the better end counts.
    Further optima are not sought: those that are a little higher send more members to the bounds.
    """

    name = "member_temperatures"
    title = "Temperatures of members, together"
    reference = "Gopal (2021), Why calibration error is wrong given model uncertainty, appendix G.1"
    map_class = TemperatureMap
    promises_accuracy = False
    together = True
    members: str = option("each", "each member has a temperature: there is no other way", choices=("each",))

    @property
    def temperatures(self) -> np.ndarray:
        """The temperature (M,) of each member."""
        return np.array([each["temperature"] for each in self.parameters()])

    @property
    def at_bound(self) -> tuple[int, ...]:
        """Members whose temperature would go beyond 1/64 or 64 if it could."""
        return tuple(m for m, tau in enumerate(self.temperatures) if tau in (COLDEST, WARMEST))

    def summary(self) -> dict[str, Any]:
        """The fit as plain data: what is recorded of temperatures beside a check."""
        fit, names = self.report, self.found.member_names
        return {
            "temperatures": self.temperatures.tolist(),
            "converged": fit.converged,
            "at_bound": list(self.at_bound),
            "before": fit.before,
            "after": fit.after,
            "iterations": fit.iterations,
            "passes": fit.passes,
            "left_out": fit.left_out,
            "member_names": None if names is None else list(names),
        }

    def _fitted(self, predictions: Any, threads: int | None) -> Fitted:
        known = as_classes(predictions)
        objective = _Objective(known, threads)
        origin = objective.at(np.zeros(objective.members), hessian=False)
        best, converged, steps = _best_of_starts(objective, origin)
        tau = np.exp(-best.theta)
        tau[best.theta >= WIDEST], tau[best.theta <= -WIDEST] = COLDEST, WARMEST
        fit = Fit(
            n=known.n,
            loss="nll",
            before=-origin.value,
            after=-best.value,
            converged=converged,
            iterations=steps,
            passes=objective.passes,
            gradient=best.steepest,
            at_bound=_bounds(tau),
            left_out=objective.left_out,
        )
        return Fitted(
            maps=tuple(TemperatureMap(float(each)) for each in tau),
            fits=(fit,),
            task=predictions.task,
            classes=known.classes if isinstance(predictions, Classification) else None,
            class_names=known.class_names,
            member_names=known.member_names,
            name=predictions.name,
        )


def _bounds(tau: np.ndarray) -> tuple[str, ...]:
    """A sentence about the temperatures at each bound."""
    ends = ((COLDEST, "1/64", "these rows do not tell how small"), (WARMEST, "64", "guessing fits best"))
    out = []
    for end, written, why in ends:
        held = np.flatnonzero(tau == end).tolist()
        few = ", ".join(map(str, held[:8])) + (", …" if len(held) > 8 else "")
        s = "s" * (len(held) > 1)
        out += [f"the temperature{s} of member{s} {few} ended at the bound {written}: {why}"] * bool(held)
    return tuple(out)


# --------------------------------------------------------------------------------------------- objective
class _Objective:
    """The mean log-likelihood of the average on the rows of some predictions."""

    def __init__(self, predictions: Classification, threads: int | None) -> None:
        rows = ClassRows(predictions)
        self.labels, self.members = rows.labels, predictions.members
        self.scores, self.threads, self.passes = all_logits(predictions), threads, 0
        self.weights = rows.shares
        known = self._sums(np.zeros(self.members), hessian=False)
        if predictions.kind != "logits" or np.isnan(known.log_mean).any():
            check_rows(predictions)
        impossible = np.isneginf(known.log_mean) & (self.weights > 0)
        self.left_out = int(impossible.sum())
        self.weights = np.where(impossible, 0.0, self.weights)
        self.total = exact_sum(self.weights)
        if not self.total > 0:
            raise ValuesError(
                f"member_temperatures: {predictions.name}",
                expected="some row whose label has a probability above 0",
                came="no member finds any label possible",
                do="check that labels and classes belong together",
            )

    def _sums(self, theta: np.ndarray, hessian: bool) -> Any:
        self.passes += 1
        run = (self.scores, self.labels, self.weights, np.exp(theta))
        return mixture_sums(*run, hessian=hessian, threads=self.threads)

    def at(self, theta: np.ndarray, hessian: bool = True) -> Point:
        """The value and its derivatives by θ, where β = e^θ."""
        sums, beta = self._sums(theta, hessian), np.exp(theta)
        gradient = beta * sums.gradient / self.total
        second = np.zeros((0, 0))
        if hessian:
            second = np.outer(beta, beta) * sums.hessian / self.total + np.diag(gradient)
        return Point(theta, sums.value / self.total, gradient, second)

    def own(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative by θ_m (M,) of the mean log-likelihood of each member alone."""
        sums, beta = self._sums(theta, hessian=False), np.exp(theta)
        slope = beta * sums.own_slope / self.total
        return slope, beta**2 * sums.own_curvature / self.total + slope

    def common(self, theta: np.ndarray) -> Point:
        """The same where all members share θ (1,)."""
        all_of_them = self.at(np.full(self.members, theta[0]))
        gradient, hessian = all_of_them.gradient.sum(keepdims=True), all_of_them.hessian.sum().reshape(1, 1)
        return Point(theta, all_of_them.value, gradient, hessian)


# ---------------------------------------------------------------------------------------------- climbing
def _best_of_starts(objective: _Objective, origin: Point) -> tuple[Point, bool, int]:
    """The best local optimum that was found, whether it is one, and the steps that led there."""
    shared, settled, steps = _common_temperature(objective, origin)
    start = objective.at(np.full(objective.members, shared))
    if objective.members == 1:
        return start, settled, steps
    starts = (start, objective.at(_own_temperatures(objective)))
    point, settled, more = max((climb(objective.at, first) for first in starts), key=lambda end: end[0].value)
    return point, settled, steps + more


def _common_temperature(objective: _Objective, origin: Point) -> tuple[float, bool, int]:
    """The best θ for all members at once: of a coarse grid, then by Newton steps.

    Of equal values the one nearest to τ = 1, but the smallest τ where every row is right with certainty.
    """
    known = [(origin.value, 0.0)]
    if objective.members > 1 or origin.value == 0.0:
        known += [(objective.at(np.full(objective.members, t), hessian=False).value, float(t)) for t in GRID if t]
    best = max(known, key=lambda pair: (pair[0], pair[1] if pair[0] == 0.0 else -abs(pair[1])))
    start = objective.common(np.array([best[1]]))
    point, settled, steps = climb(objective.common, start)
    return float(point.theta[0]), settled, steps


def _own_temperatures(objective: _Objective) -> np.ndarray:
    """The best θ of each member alone, by Newton steps inside brackets: the slope by θ changes its sign once."""
    low, high = np.full(objective.members, -WIDEST), np.full(objective.members, WIDEST)
    theta = np.zeros(objective.members)
    for _ in range(30):
        slope, curvature = objective.own(theta)
        low, high = np.where(slope > 0, theta, low), np.where(slope > 0, high, theta)
        step = slope / np.maximum(np.abs(curvature), FLAT)
        if (np.minimum(np.abs(step), high - low) < 1e-3).all():
            break
        there = theta + step
        theta = np.where((there > low) & (there < high), there, (low + high) / 2)
    return theta
