"""Climbing to a local maximum of a smooth function of a few bounded variables, by damped Newton steps.

Variables lie within ± WIDEST: they are logarithms of temperatures.
The function need not be concave: damping grows until it is to the steps, saddle points are left along the direction
that rises, and where a function still rises towards a bound too slowly for its gradient to tell, the bound is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from calibrant.recalibration.one_temperature import WIDEST

TOLERANCE = 1e-8
"""What the largest entry of the projected gradient is brought under."""
MOST_STEPS = 200
ROUNDING = 1e-14
FLAT = 1e-9
"""Added to every curvature: a step along a flat direction is then short."""
RISING = 1e-6
"""A curvature that makes a stationary point a saddle."""


@dataclass(frozen=True)
class Point:
    """Variables θ (K,) within the bounds, and the value there with its derivatives."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    @property
    def free(self) -> np.ndarray:
        """What is not held by a bound."""
        held = ((self.theta >= WIDEST) & (self.gradient >= 0)) | ((self.theta <= -WIDEST) & (self.gradient <= 0))
        return ~held

    @property
    def steepest(self) -> float:
        """The largest entry of the projected gradient."""
        return float(np.abs(self.gradient[self.free]).max(initial=0.0))

    def better_than(self, other: Point) -> bool:
        """Higher, or as high to rounding and flatter."""
        rise, slack = self.value - other.value, ROUNDING * (1e-3 + abs(other.value))
        return rise > slack or (rise >= -slack and self.steepest < other.steepest)


At = Callable[[np.ndarray], Point]


def climb(at: At, start: Point) -> tuple[Point, bool, int]:
    """A local maximum uphill of the start, whether it is one, and the number of steps; no step leads down.

    Where the function still rises at its end, however little, the bounds are tried, and the climb goes on from there.
    """
    point, settled, steps = _settle(at, start)
    for _ in range(4):
        probed = _probe(at, point)
        if probed is point:
            break
        point, settled, more = _settle(at, probed)
        steps += more
    return point, settled, steps


def _probe(at: At, here: Point) -> Point:
    """Where a slope is small but far from the end of its curvature (rows all right: −e^{−β}), the bound if higher."""
    curvature = np.abs(np.diag(here.hessian))
    for m in np.flatnonzero(here.free & (np.abs(here.gradient) > 1e-3 * curvature)):
        theta = here.theta.copy()
        theta[m] = np.copysign(WIDEST, here.gradient[m])
        there = at(theta)
        if there.value > here.value or (there.value == here.value == 0.0):
            here = there
    return here


def _settle(at: At, here: Point) -> tuple[Point, bool, int]:
    """Damped Newton steps inside the bounds until the projected gradient vanishes at what is no saddle."""
    damping = 1e-3
    for step in range(MOST_STEPS):
        if here.steepest < TOLERANCE:
            there = _off_saddle(at, here)
            if there is None:
                return here, True, step
        else:
            there, damping = _newton(at, here, damping)
            if there is None:
                return here, False, step
        here = there
    return here, here.steepest < TOLERANCE, MOST_STEPS


def _newton(at: At, here: Point, damping: float) -> tuple[Point | None, float]:
    """A better point uphill, and the damping to go on with; None where steps of any length lead down."""
    free = here.free
    curvature, slope = -here.hessian[np.ix_(free, free)], here.gradient[free]
    size, unit = float(np.abs(curvature).max()), np.eye(len(slope))
    for trial in range(60):
        step = _solved(curvature + (FLAT + damping * size) * unit, slope)
        if step is not None:
            there = _moved(at, here, np.clip(step, -1.0, 1.0))
            if there.better_than(here):
                return there, damping if trial else damping * 0.1
        damping = max(damping * 4.0, 1e-4)
    return None, damping


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """x with matrix·x = right, or None where the symmetric matrix is not positive definite."""
    if not len(right):
        return right
    try:
        return cho_solve(cho_factor(matrix, lower=True), right)
    except LinAlgError:
        return None


def _off_saddle(at: At, here: Point) -> Point | None:
    """A higher point along the direction of most positive curvature, where there is one (members that are alike)."""
    free = here.free
    hessian = here.hessian[np.ix_(free, free)]
    if _solved(RISING * np.eye(len(hessian)) - hessian, np.zeros(len(hessian))) is not None:
        return None
    direction = np.linalg.eigh(hessian)[1][:, -1]
    for length in (0.5, 0.1, 0.02):
        for sign in (1.0, -1.0):
            there = _moved(at, here, sign * length * direction)
            if there.value > here.value + ROUNDING * abs(here.value):
                return there
    return None


def _moved(at: At, here: Point, step: np.ndarray) -> Point:
    """The point a step away in what is free, held by the bounds."""
    theta, free = here.theta.copy(), here.free
    theta[free] = np.clip(theta[free] + step, -WIDEST, WIDEST)
    return at(theta)
