"""The minimum of a smooth, strictly convex function: Newton steps where its variables are few, L-BFGS where many.

Few means that a matrix of second derivatives can be made and solved at every step. The step is halved until the value
falls; near the minimum, where values no longer tell two points apart, until the gradient does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

FEW = 300
"""Variables up to which Newton steps are taken."""
TOLERANCE = 1e-9
"""What the largest entry of the gradient is brought under by Newton steps; by L-BFGS, `LOOSE`."""
LOOSE = 1e-7
MOST_STEPS, MOST_ITERATIONS = 100, 3000
ROUNDING = 1e-14
ENOUGH = 1e-4
"""The share of the fall that the gradient foretells with which a step is taken."""

Slope = Callable[[np.ndarray], tuple[float, np.ndarray]]
Curvature = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Minimum:
    """Where a function is smallest, and how that was found."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    converged: bool
    iterations: int
    passes: int
    """How often the function was asked for."""

    @property
    def steepest(self) -> float:
        """The largest entry of the gradient."""
        return float(np.abs(self.gradient).max(initial=0.0))


def newton(slope: Slope, curvature: Curvature, start: np.ndarray) -> Minimum:
    """The minimum by Newton steps; `slope` gives value and gradient, `curvature` the positive definite Hessian."""
    here = Minimum(start, *slope(start), converged=False, iterations=0, passes=1)
    for step in range(MOST_STEPS):
        if here.steepest < TOLERANCE:
            break
        there = _shortened(slope, here, -cho_solve(cho_factor(curvature(here.theta)), here.gradient))
        if there is None:
            break
        here = Minimum(there.theta, there.value, there.gradient, False, step + 1, there.passes + 1)
    return Minimum(here.theta, here.value, here.gradient, here.steepest < LOOSE, here.iterations, here.passes)


def _shortened(slope: Slope, here: Minimum, step: np.ndarray) -> Minimum | None:
    """The first of the step, its half, its quarter, … that is lower, or as low to rounding and flatter."""
    foretold, slack = float(here.gradient @ step), ROUNDING * (1e-3 + abs(here.value))
    for halving in range(40):
        share = 0.5**halving
        there = Minimum(
            here.theta + share * step, *slope(here.theta + share * step), False, 0, here.passes + halving + 1
        )
        if there.value < here.value + ENOUGH * share * foretold:
            return there
        if there.value <= here.value + slack and there.steepest < here.steepest:
            return there
    return None


def lbfgs(slope: Slope, scale: np.ndarray, start: np.ndarray) -> Minimum:
    """The minimum by L-BFGS, for variables too many for Newton; `scale` is about how far each of them moves."""

    def scaled(phi: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slope(start + scale * phi)
        return value, scale * gradient

    options = {"maxiter": MOST_ITERATIONS, "maxfun": 2 * MOST_ITERATIONS, "maxcor": 30, "ftol": 0.0, "gtol": LOOSE}
    found = minimize(scaled, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
    theta = start + scale * found.x
    value, gradient = slope(theta)
    made = Minimum(theta, value, gradient, False, int(found.nit), int(found.nfev) + 1)
    return Minimum(theta, value, gradient, made.steepest < 10 * LOOSE, made.iterations, made.passes)
