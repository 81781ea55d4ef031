"""The least value of a smooth convex function of a few weights that are not negative and sum to one.

Newton steps on the face of weights that are free. At a point w with gradient g, convexity gives for every w' of the
simplex f(w) − f(w') ≤ g·w − min_j g_j, the *gap*: what is under the tolerance is the minimum to that, for certain
(Frank & Wolfe 1956; Jaggi 2013). The tolerance is a share of the size of f and of its gradient; near the minimum, where
values no longer tell two points apart, a step counts if the gap falls. No corner of the simplex is lower than what is
returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

GAP = 1e-11
"""The gap that is left, as a share of the largest of |f| and |∂f/∂w_j|."""
ROUNDING = 1e-14
"""By what share of itself a value may be off."""
MOST_STEPS = 200
RIDGE = 1e-13
"""Added to the curvature, as a share of its size: directions along which nothing changes are not taken."""
SMALLEST = 1e-12
"""Weights under this are 0."""

At = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Weights:
    """Weights (K,), the value there, how far it can be above the least, and the steps taken."""

    weights: np.ndarray
    value: float
    gap: float
    gradient: float
    """The largest entry of the gradient less what the constraints hold."""
    converged: bool
    steps: int


def least_on_simplex(at: At, count: int) -> Weights:
    """The minimum of f, whose value, gradient and Hessian `at` gives, from equal weights."""
    w = np.full(count, 1.0 / count)
    value, gradient, hessian = at(w)
    steps = 0
    while not _settled(w, value, gradient) and steps < MOST_STEPS:
        there = _stepped(at, w, value, gradient, _direction(w, gradient, hessian))
        if there is None:
            break
        w, steps = there, steps + 1
        value, gradient, hessian = at(w)
    corner = min(np.eye(count), key=lambda each: at(each)[0])
    if at(corner)[0] < value:
        w, (value, gradient, _) = corner, at(corner)
    excess = gradient - gradient @ w
    held = np.where(w > 0.0, np.abs(excess), np.maximum(-excess, 0.0))
    return Weights(w, value, _gap(w, gradient), float(held.max()), _settled(w, value, gradient), steps)


def _gap(w: np.ndarray, gradient: np.ndarray) -> float:
    return float(gradient @ w - gradient.min())


def _settled(w: np.ndarray, value: float, gradient: np.ndarray) -> bool:
    """Whether the gap is next to nothing beside the value and the numbers that it is the difference of."""
    return _gap(w, gradient) <= GAP * max(abs(value), float(np.abs(gradient).max()))


def _direction(w: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """The Newton step on the face of weights that are above 0 or would rise; its entries sum to zero."""
    free = (w > 0.0) | (gradient < gradient @ w)
    while True:
        k = int(free.sum())
        system = np.ones((k + 1, k + 1))
        system[:k, :k] = hessian[np.ix_(free, free)]
        system[:k, :k] += RIDGE * max(float(np.trace(hessian)), 1e-300) * np.eye(k)
        system[k, k] = 0.0
        step = np.zeros_like(w)
        step[free] = np.linalg.lstsq(system, np.append(-gradient[free], 0.0), rcond=None)[0][:k]
        blocked = free & (w == 0.0) & (step < 0.0)
        if not blocked.any():
            return step - free * (step.sum() / k)
        free &= ~blocked


def _stepped(at: At, w: np.ndarray, value: float, gradient: np.ndarray, step: np.ndarray) -> np.ndarray | None:
    """The point after as much of a step as stays on the simplex and lowers f, or the gap where f is as low to rounding;
    None where no length does."""
    slack, gap = ROUNDING * (1e-3 + abs(value)), _gap(w, gradient)
    falling = step < 0.0
    room = w[falling] / -step[falling]
    length = min(1.0, float(room.min(initial=1.0)))
    for _ in range(50):
        there = np.maximum(w + length * step, 0.0)
        there[there < SMALLEST] = 0.0
        there /= there.sum()
        reached, slope, _ = at(there)
        if reached <= value + 1e-4 * length * min(float(gradient @ step), 0.0) and not np.array_equal(there, w):
            return there
        if reached <= value + slack and _gap(there, slope) < 0.5 * gap:
            return there
        length /= 2.0
    return None
