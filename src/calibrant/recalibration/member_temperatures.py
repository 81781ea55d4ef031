"""A temperature for each member: the recalibration of Gopal (2021), appendix G.1, and how it is fitted.

Maximises Σ_i w_i log (1/M) Σ_m softmax(z_m[i]/τ_m)[y_i] over τ_1 … τ_M (the printed formula is garbled). For one member
the problem is convex in 1/τ. For several it is not: what is returned is the better of two local optima, with no
promise that it is the best of all. Temperatures lie in [1/64, 64].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import LabelsError, ShapeError, UsageError, ValuesError
from calibrant.kernels.exact import exact_sum
from calibrant.kernels.temperature import mixture_sums
from calibrant.predictions.base import Note
from calibrant.predictions.checking import check_scores
from calibrant.predictions.classification import Classification, two_classes
from calibrant.recalibration.climbing import FLAT, WIDEST, Point, climb

GRID = np.linspace(-WIDEST, WIDEST, 7)
SUBJECT = "member temperatures"


# ------------------------------------------------------------------------------------------ the fitted map
@dataclass(frozen=True)
class MemberTemperatures:
    """Temperatures τ (M,) by which the logits of each member are divided, and how the fit of them went."""

    temperatures: np.ndarray
    converged: bool
    """Whether the gradient, projected on the bounds, vanished: a stationary point, not proof of a global optimum."""
    at_bound: tuple[int, ...]
    """Members whose temperature would go beyond 1/64 or 64 if it could."""
    before: float
    """Mean negative log-likelihood of the averaged prediction on the fitted rows, at τ = 1."""
    after: float
    iterations: int
    """Newton steps of the start that led to the result."""
    passes: int
    """How often the scores were read, all starts together."""
    left_out: int = 0
    """Rows whose label no member finds possible: they are −inf at any temperature, and in neither loss."""
    member_names: tuple[str, ...] | None = None

    @classmethod
    def fit(cls, predictions: Classification, threads: int | None = None) -> MemberTemperatures:
        """The temperatures under which the averaged prediction is most likely; weights of rows count.

        Starts: the best temperature common to all members, and the best of each member alone. From each, damped Newton
        steps that never make the objective fall (beyond rounding) and leave saddle points; the better end counts.
        Further optima are not sought: those that are a little higher send more members to the bounds.
        """
        _check_fit(predictions)
        objective = _Objective(predictions, threads)
        origin = objective.at(np.zeros(objective.members), hessian=False)
        best, converged, steps = _best_of_starts(objective, origin)
        return cls(
            temperatures=np.exp(-best.theta),
            converged=converged,
            at_bound=tuple(np.flatnonzero(np.abs(best.theta) >= WIDEST).tolist()),
            before=-origin.value,
            after=-best.value,
            iterations=steps,
            passes=objective.passes,
            left_out=objective.left_out,
            member_names=predictions.member_names,
        )

    def transform(self, predictions: Classification) -> Classification:
        """The same rows with logits z_m/τ_m (log p_m/τ_m where probabilities or their logs were given)."""
        self._check_transform(predictions)
        p, scores = predictions, predictions.scores
        tau = self.temperatures[:, None, None]
        wide = np.float64 if scores.dtype.itemsize == 8 else np.float32
        out = np.empty((p.members, p.n, _width(p)), wide)
        step = max(1, (1 << 20) // (p.members * p.classes))
        for start in range(0, p.n, step):
            rows = slice(start, start + step)
            out[:, rows] = _as_logits(scores[:, rows], p.kind) / tau
        return replace(p, kind="logits", scores=out)

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of the fit."""
        out = []
        if not self.converged:
            said = f"the temperatures had not settled after {self.iterations} steps; their loss is {self.after:.6g}"
            out.append(Note("temperatures-not-converged", f"{SUBJECT}: {said}"))
        if self.at_bound:
            out.append(Note("temperatures-at-bound", f"{SUBJECT}: {self._bounds()}"))
        if self.left_out:
            said = f"{self.left_out} rows whose label has probability 0 under every member were left out of the fit"
            out.append(Note("impossible-labels-left-out", f"{SUBJECT}: {said}"))
        return tuple(out)

    def to_json(self) -> dict[str, Any]:
        """The fit as plain data."""
        return {
            "temperatures": self.temperatures.tolist(),
            "converged": self.converged,
            "at_bound": list(self.at_bound),
            "before": self.before,
            "after": self.after,
            "iterations": self.iterations,
            "passes": self.passes,
            "left_out": self.left_out,
            "member_names": None if self.member_names is None else list(self.member_names),
        }

    def _bounds(self) -> str:
        few = ", ".join(map(str, self.at_bound[:8])) + (", …" if len(self.at_bound) > 8 else "")
        which = f"temperature{'s' * (len(self.at_bound) > 1)} of member{'s' * (len(self.at_bound) > 1)} {few}"
        cold = all(self.temperatures[m] < 1 for m in self.at_bound)
        warm = all(self.temperatures[m] > 1 for m in self.at_bound)
        why = "these rows do not tell how small" if cold else "guessing fits best" if warm else "some small, some large"
        end = "1/64" if cold else "64" if warm else "1/64 or 64"
        return f"the {which} ended at the bound {end}: {why}"

    def _check_transform(self, predictions: Classification) -> None:
        _check_kind(predictions)
        if predictions.members != len(self.temperatures):
            raise ShapeError(
                SUBJECT,
                expected=f"the {len(self.temperatures)} members of the fit",
                came=f"these predictions have {predictions.members}",
                do="fit the temperatures to the same members",
            )
        names = predictions.member_names
        if names is not None and self.member_names is not None and names != self.member_names:
            odd = next(m for m in range(len(names)) if names[m] != self.member_names[m])
            raise UsageError(
                SUBJECT,
                expected=f"the members of the fit in their order, '{self.member_names[odd]}' as number {odd}",
                came=f"it is '{names[odd]}'",
                do="put the members in the order of the fit",
            )


# ------------------------------------------------------------------------------------------------ checks
def _check_kind(predictions: Any) -> None:
    if not isinstance(predictions, Classification):
        raise UsageError(
            SUBJECT,
            expected="class predictions in memory",
            came=f"got {type(predictions).__name__}",
            do="give a Classification: judged answers and regressions have no logits to divide",
        )


def _check_fit(predictions: Any) -> None:
    _check_kind(predictions)
    if predictions.labels is None:
        came = "there are only soft labels" if predictions.soft else "there are none"
        raise LabelsError(SUBJECT, expected="a label for each row", came=came, do="give labels of held-out rows")


def _check_rows(predictions: Classification, log_mean: np.ndarray) -> None:
    """Refuse rows that are no predictions, in the words of `predictions.checking`."""
    if predictions.kind == "logits" and not np.isnan(log_mean).any():
        return
    for start, block in predictions.score_blocks(max(1, (1 << 20) // (predictions.members * predictions.classes))):
        check_scores(block, predictions.kind, start)


# ------------------------------------------------------------------------------------------------ scores
def _width(p: Classification) -> int:
    """Numbers of a row as logits: one logit stays one, since nothing in it can be +inf."""
    return 1 if p.scores.shape[2] == 1 and p.kind == "logits" else p.classes


def _as_logits(block: np.ndarray, kind: str) -> np.ndarray:
    """Scores (M, n, C) as logits in float64: log-probabilities are such, a lone P(class 1) becomes two of them."""
    block = block.astype(np.float64)
    if block.shape[2] == 1 and kind != "logits":
        block = two_classes(block[:, :, 0], kind)
    if kind != "probs":
        return block
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(block)


def _scores(p: Classification) -> np.ndarray:
    """All logits (M, N, C) in C order, those given where they are that already."""
    step = None if p.kind != "probs" else max(1, (1 << 20) // (p.members * p.classes))
    out = np.empty((0, 0, 0))
    for start, block in p.score_blocks(step):
        if p.kind == "probs":
            block = _as_logits(block, "probs").astype(block.dtype)
        if block.shape[1] == p.n:
            return block
        if not out.size:
            out = np.empty((p.members, p.n, p.classes), block.dtype)
        out[:, start : start + block.shape[1]] = block
    return out


# --------------------------------------------------------------------------------------------- objective
class _Objective:
    """The mean log-likelihood of the average on the rows of some predictions."""

    def __init__(self, predictions: Classification, threads: int | None) -> None:
        self.scores, self.threads, self.passes = _scores(predictions), threads, 0
        self.members = predictions.members
        self.labels = np.ascontiguousarray(predictions.labels, np.int64)
        weights = np.ones(predictions.n)
        if predictions.weights is not None:
            weights = predictions.weights / predictions.info.weight_unit
        self.weights = np.ascontiguousarray(weights, np.float64)
        known = self._sums(np.zeros(self.members), hessian=False)
        _check_rows(predictions, known.log_mean)
        impossible = np.isneginf(known.log_mean) & (self.weights > 0)
        self.left_out = int(impossible.sum())
        self.weights = np.where(impossible, 0.0, self.weights)
        self.total = exact_sum(self.weights)
        if not self.total > 0:
            raise ValuesError(
                SUBJECT,
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
