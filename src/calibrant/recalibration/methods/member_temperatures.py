"""A temperature for each member, fitted jointly: the recalibration of Gopal (2021), appendix G.1.

Maximises Σ_i w_i log (1/M) Σ_m softmax(z_m[i]/τ_m)[y_i] over τ_1 … τ_M (the printed formula is garbled). For one member
the problem is convex in 1/τ. For several it is not: the result is the better of two local optima, with no guarantee
that it is the global one. Temperatures lie in [1/64, 64]. Each member keeps its predicted class; the average of members
need not.

A local maximum is found by damped Newton steps in θ = −log τ: damping grows until the function is concave along the
step, saddle points are left along the ascent direction, and where the function rises towards a bound too slowly for its
gradient to tell, the bound is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from calibrant.errors import ValuesError
from calibrant.kernels.exact import exact_sum
from calibrant.kernels.temperature_sums import mixture_sums
from calibrant.predictions.classification import Classification
from calibrant.recalibration.base import FitState, option
from calibrant.recalibration.class_rows import ClassRows, all_logits, as_classification, check_rows
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.methods.temperature import TemperatureMap, TemperatureScaling
from calibrant.recalibration.temperature_solver import BOUND, MAX_LOG

GRID = np.linspace(-MAX_LOG, MAX_LOG, 7)
COLDEST, WARMEST = 1.0 / BOUND, BOUND
TOLERANCE = 1e-8
"""The largest entry of the projected gradient at convergence."""
MAX_STEPS = 200
ROUNDING = 1e-14
FLAT = 1e-9
"""Added to every curvature, so that steps along flat directions are short."""
SADDLE_CURVATURE = 1e-6
"""A positive curvature from which a stationary point is a saddle."""


# ------------------------------------------------------------------------------------------ the method
@dataclass(eq=False, kw_only=True)
class MemberTemperatureScaling(TemperatureScaling):
    """A temperature for each member, chosen jointly to maximise the likelihood of their average.

    Starts: the best common temperature, and the best temperature of each member alone. From each, damped Newton steps
    that never decrease the objective (beyond rounding) and leave saddle points; the better end is the result.
    Further optima are not sought: those that are a little higher send more members to the bounds.

    Parameters
    ----------
    members : {"each"}
        Each member has a temperature; there is no other choice.
    """

    name = "member_temperatures"
    title = "Joint temperature scaling of members"
    reference = "Gopal (2021), Why calibration error is wrong given model uncertainty, appendix G.1"
    promises_accuracy = False
    joint_members = True
    members: str = option("each", "each member has a temperature; there is no other choice", choices=("each",))

    @property
    def temperatures(self) -> np.ndarray:
        """The temperature (M,) of each member."""
        return np.array([each["temperature"] for each in self.parameters()])

    @property
    def at_bound(self) -> tuple[int, ...]:
        """Members whose temperature ended at 1/64 or 64."""
        return tuple(m for m, tau in enumerate(self.temperatures) if tau in (COLDEST, WARMEST))

    def summary(self) -> dict[str, Any]:
        """The fit as plain data, as it is stored with a check."""
        names, report = self.state.member_names, self.report
        return {
            "temperatures": self.temperatures.tolist(),
            "converged": report.converged,
            "at_bound": list(self.at_bound),
            **{key: getattr(report, key) for key in ("before", "after", "iterations", "passes", "left_out")},
            "member_names": None if names is None else list(names),
        }

    def _fit(self, predictions: Any, threads: int | None) -> FitState:
        objective = MixtureLikelihood(as_classification(predictions), threads)
        origin = objective(np.zeros(objective.members), hessian=False)
        # The best common temperature: the best of a coarse grid, then Newton steps. Of equal values the one nearest to
        # τ = 1, but the smallest τ if every row is certainly correct.
        candidates = [(origin.value, 0.0)]
        if objective.members > 1 or origin.value == 0.0:
            grid = [float(theta) for theta in GRID if theta]
            candidates += [(objective(np.full(objective.members, t), hessian=False).value, t) for t in grid]
        start = max(candidates, key=lambda pair: (pair[0], pair[1] if pair[0] == 0.0 else -abs(pair[1])))[1]
        point, converged, steps = climb(objective.common, objective.common(np.array([start])))
        best = objective(np.full(objective.members, float(point.theta[0])))
        if objective.members > 1:
            starts = (best, objective(_separate_temperatures(objective)))
            best, converged, more = max((climb(objective, start) for start in starts), key=lambda end: end[0].value)
            steps += more
        tau = np.exp(-best.theta)
        tau[best.theta >= MAX_LOG], tau[best.theta <= -MAX_LOG] = COLDEST, WARMEST
        at_bound = []
        ends = ((COLDEST, "1/64", "these rows do not determine it"), (WARMEST, "64", "a uniform prediction fits best"))
        for end, written, why in ends:
            indices = np.flatnonzero(tau == end).tolist()
            listed = ", ".join(map(str, indices[:8])) + (", …" if len(indices) > 8 else "")
            s = "s" * (len(indices) > 1)
            if indices:
                at_bound.append(f"the temperature{s} of member{s} {listed} ended at the bound {written}: {why}")
        fit = FitReport(
            n=predictions.n, loss="nll", before=-origin.value, after=-best.value, converged=converged, iterations=steps,
            passes=objective.passes, gradient=best.max_gradient, at_bound=tuple(at_bound), left_out=objective.left_out,
        )  # fmt: skip
        return FitState.of(predictions, [TemperatureMap(float(each)) for each in tau], [fit], self.members)


# --------------------------------------------------------------------------------------------- objective
@dataclass(frozen=True)
class Point:
    """Variables θ (K,) within the bounds, and the value there with its derivatives."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    @property
    def free(self) -> np.ndarray:
        """Which variables no bound stops."""
        return ~(((self.theta >= MAX_LOG) & (self.gradient >= 0)) | ((self.theta <= -MAX_LOG) & (self.gradient <= 0)))

    @property
    def max_gradient(self) -> float:
        """The largest entry of the projected gradient."""
        return float(np.abs(self.gradient[self.free]).max(initial=0.0))

    def better_than(self, other: Point) -> bool:
        """Higher, or equal to rounding and flatter."""
        rise, slack = self.value - other.value, ROUNDING * (1e-3 + abs(other.value))
        return rise > slack or (rise >= -slack and self.max_gradient < other.max_gradient)


Evaluate = Callable[[np.ndarray], Point]


class MixtureLikelihood:
    """The mean log-likelihood of the average of members, as a function of θ (M,), where β = 1/τ = e^θ."""

    def __init__(self, predictions: Classification, threads: int | None) -> None:
        rows = ClassRows(predictions)
        self.labels, self.members = rows.labels, predictions.members
        self.scores, self.threads, self.passes = all_logits(predictions), threads, 0
        self.weights = rows.row_weights
        sums = self.sums(np.zeros(self.members), hessian=False)
        if predictions.kind != "logits" or np.isnan(sums.log_mean).any():
            check_rows(predictions)
        impossible = np.isneginf(sums.log_mean) & (self.weights > 0)
        self.left_out = int(impossible.sum())
        self.weights = np.where(impossible, 0.0, self.weights)
        self.total = exact_sum(self.weights)
        if not self.total > 0:
            raise ValuesError(
                f"member_temperatures: {predictions.name}",
                expected="a row whose label has a positive probability",
                got="labels to which no member gives a positive probability",
                hint="check that the labels belong to these classes",
            )

    def sums(self, theta: np.ndarray, hessian: bool) -> Any:
        """Sums over the rows of the log-likelihood and its derivatives by β, of the average and of each member."""
        self.passes += 1
        inputs = (self.scores, self.labels, self.weights, np.exp(theta))
        return mixture_sums(*inputs, hessian=hessian, threads=self.threads)

    def __call__(self, theta: np.ndarray, hessian: bool = True) -> Point:
        """The value and its derivatives by θ."""
        sums, beta = self.sums(theta, hessian), np.exp(theta)
        gradient = beta * sums.gradient / self.total
        second = np.zeros((0, 0))
        if hessian:
            second = np.outer(beta, beta) * sums.hessian / self.total + np.diag(gradient)
        return Point(theta, sums.value / self.total, gradient, second)

    def common(self, theta: np.ndarray) -> Point:
        """The value and its derivatives if all members share θ (1,)."""
        point = self(np.full(self.members, theta[0]))
        gradient, hessian = point.gradient.sum(keepdims=True), point.hessian.sum().reshape(1, 1)
        return Point(theta, point.value, gradient, hessian)


# ----------------------------------------------------------------------------------------------- starts
def _separate_temperatures(objective: MixtureLikelihood) -> np.ndarray:
    """The best θ of each member alone, by Newton steps inside brackets: the gradient by θ changes its sign once."""
    low, high = np.full(objective.members, -MAX_LOG), np.full(objective.members, MAX_LOG)
    theta = np.zeros(objective.members)
    for _ in range(30):
        sums, beta = objective.sums(theta, hessian=False), np.exp(theta)
        gradient = beta * sums.own_slope / objective.total
        curvature = beta**2 * sums.own_curvature / objective.total + gradient
        low, high = np.where(gradient > 0, theta, low), np.where(gradient > 0, high, theta)
        step = gradient / np.maximum(np.abs(curvature), FLAT)
        if (np.minimum(np.abs(step), high - low) < 1e-3).all():
            break
        there = theta + step
        theta = np.where((there > low) & (there < high), there, (low + high) / 2)
    return theta


# ----------------------------------------------------------------------------------------------- ascent
def climb(evaluate: Evaluate, start: Point) -> tuple[Point, bool, int]:
    """A local maximum uphill of the start, whether it converged, and the number of steps; no step leads down.

    If the function still rises at the end, however little, the bounds are tried, and the climb goes on from there.
    """
    point, converged, steps = _ascend(evaluate, start)
    for _ in range(4):
        # Where a gradient is small but large for its curvature (all rows correct: −e^{−β}), the bound if it is higher.
        probed = point
        curvature = np.abs(np.diag(point.hessian))
        for m in np.flatnonzero(point.free & (np.abs(point.gradient) > 1e-3 * curvature)):
            theta = probed.theta.copy()
            theta[m] = np.copysign(MAX_LOG, probed.gradient[m])
            there = evaluate(theta)
            if there.value > probed.value or (there.value == probed.value == 0.0):
                probed = there
        if probed is point:
            break
        point, converged, more = _ascend(evaluate, probed)
        steps += more
    return point, converged, steps


def _ascend(evaluate: Evaluate, here: Point) -> tuple[Point, bool, int]:
    """Damped Newton steps inside the bounds until the projected gradient vanishes at a point that is no saddle."""
    damping = 1e-3
    for step in range(MAX_STEPS):
        if here.max_gradient < TOLERANCE:
            there = _leave_saddle(evaluate, here)
            if there is None:
                return here, True, step
        else:
            there, damping = _newton_step(evaluate, here, damping)
            if there is None:
                return here, False, step
        here = there
    return here, here.max_gradient < TOLERANCE, MAX_STEPS


def _newton_step(evaluate: Evaluate, here: Point, damping: float) -> tuple[Point | None, float]:
    """A better point uphill and the next damping; None if steps of any length lead down."""
    free = here.free
    curvature, gradient = -here.hessian[np.ix_(free, free)], here.gradient[free]
    size, unit = float(np.abs(curvature).max()), np.eye(len(gradient))
    for trial in range(60):
        step = _solve(curvature + (FLAT + damping * size) * unit, gradient)
        if step is not None:
            there = _move(evaluate, here, np.clip(step, -1.0, 1.0))
            if there.better_than(here):
                return there, damping if trial else damping * 0.1
        damping = max(damping * 4.0, 1e-4)
    return None, damping


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """x with matrix·x = right, or None if the symmetric matrix is not positive definite."""
    if not len(right):
        return right
    try:
        return cho_solve(cho_factor(matrix, lower=True), right)
    except LinAlgError:
        return None


def _leave_saddle(evaluate: Evaluate, here: Point) -> Point | None:
    """A higher point along the direction of most positive curvature, if there is one (identical members)."""
    free = here.free
    hessian = here.hessian[np.ix_(free, free)]
    if _solve(SADDLE_CURVATURE * np.eye(len(hessian)) - hessian, np.zeros(len(hessian))) is not None:
        return None
    direction = np.linalg.eigh(hessian)[1][:, -1]
    for length in (0.5, 0.1, 0.02):
        for sign in (1.0, -1.0):
            there = _move(evaluate, here, sign * length * direction)
            if there.value > here.value + ROUNDING * abs(here.value):
                return there
    return None


def _move(evaluate: Evaluate, here: Point, step: np.ndarray) -> Point:
    """The point after a step of the free variables, clipped to the bounds."""
    theta, free = here.theta.copy(), here.free
    theta[free] = np.clip(theta[free] + step, -MAX_LOG, MAX_LOG)
    return evaluate(theta)
