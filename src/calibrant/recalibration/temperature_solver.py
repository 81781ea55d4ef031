"""Find the inverse temperature β = 1/T of maximum likelihood, by Halley steps inside a bracket.

The loss L(β) = Σ_i w_i (log Σ_c exp(β z_ic) − β z_iy) is convex. Steps are taken in log β, where L is close to a
parabola over a wider range than in β, and use its third derivative; float32 scores start with float32 exponentials, and
large inputs with one row in twenty. The result is verified in float64: with R the largest range of a row, |L⁗| ≤ R²L″
and |(log L″)′| ≤ R, so that a pass at β bounds the gradient after the next step δ by

    |L′ + L″δ + L‴δ²/2| + R² L″ e^{R|δ|} |δ|³/6,

and the last step needs no pass of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibrant.kernels.temperature_sums import Sums, TemperatureSums

BOUND = 64.0
"""β and T are at most this."""
MAX_LOG = math.log(BOUND)
"""Their logarithms lie within ± this."""
TOLERANCE = 1e-8
"""The largest mean gradient by β, and by log β, at convergence."""
LONGEST_STEP = math.log(4.0)
NEAR = 0.05
"""A step of log β below which float32 is not precise enough."""
CLOSE = 1e-3
"""A step of log β that may be the last."""
LARGE = 1 << 22
"""Number of scores from which a part of the rows is tried first."""
MAX_PASSES = 40


@dataclass(frozen=True)
class Optimum:
    """The best β, the mean loss at 1 and at β, and a bound of the mean gradient there."""

    beta: float
    before: float
    after: float
    gradient: float
    converged: bool
    steps: int

    @property
    def at_bound(self) -> bool:
        """Whether β ended at 1/64 or 64."""
        return self.beta in (BOUND, 1.0 / BOUND)


def best_inverse(sums: TemperatureSums, first: Sums) -> Optimum:
    """Find the optimum, given the sums at β = 1; weights sum to one."""
    search = _Search(sums, first)
    if sums.widest == 0.0:
        return Optimum(1.0, first.value, first.value, abs(first.slope), True, 0)
    if sums.wrong == 0 and (optimum := search.at_end(BOUND)):
        return optimum
    if sums.scores.size >= LARGE:
        search.try_part()
    return search.run()


class _Search:
    """The state of the search: a bracket of log β, and the sums at the current point."""

    def __init__(self, sums: TemperatureSums, first: Sums) -> None:
        self.sums, self.first, self.steps = sums, first, 0
        self.single = sums.scores.dtype.itemsize == 4
        self.low, self.high = -MAX_LOG, MAX_LOG
        self.x, self.sums_here = 0.0, first
        self._narrow()

    @property
    def beta(self) -> float:
        return math.exp(self.x)

    def _narrow(self) -> None:
        """Tighten the bracket; near the optimum the sign of a float32 gradient is meaningless."""
        if self.single and abs(_halley(self.sums_here, self.beta)) < NEAR:
            return
        if self.sums_here.slope > 0.0:
            self.high = min(self.high, self.x)
        else:
            self.low = max(self.low, self.x)

    def _next(self) -> float:
        """log β after the next step, inside the bracket."""
        there = self.x + _halley(self.sums_here, self.beta)
        if self.low <= there <= self.high:
            return there
        end = self.high if there >= self.high else self.low
        return end if abs(end) == MAX_LOG else (self.low + self.high) / 2.0

    def try_part(self) -> None:
        """Move to the optimum of a part of the rows, inside the bracket of all rows."""
        x = self._next()
        for _ in range(5):
            here = self.sums.at(math.exp(x), single=self.single, part=True)
            step = _halley(here, math.exp(x))
            x = min(max(x + step, self.low), self.high)
            if abs(step) < NEAR:
                break
        self.steps += 1
        self._move(x)

    def _move(self, x: float) -> None:
        self.x = x
        self.sums_here = self.sums.at(self.beta, single=self.single)
        self._narrow()

    def run(self) -> Optimum:
        """Step until the gradient is verified to vanish, or a bound stops it."""
        while self.sums.passes < MAX_PASSES:
            there, beta, s = self._next(), self.beta, self.sums_here
            if not self.single and abs(there - self.x) <= CLOSE:
                # The point after the next step, or the current one, if the gradient provably vanishes there.
                step, widest = math.exp(there) - beta, self.sums.widest
                growth = math.exp(min(widest * abs(step), 700.0))
                remainder = widest * widest * s.curvature * growth * abs(step) ** 3 / 6.0
                gradient = abs(s.slope + step * (s.curvature + step * s.third / 2.0)) + remainder
                if gradient * max(1.0, beta) <= TOLERANCE:
                    value = s.value + step * (s.slope + step * (s.curvature / 2.0 + step * s.third / 6.0))
                    self.steps += 1
                    return self._optimum(math.exp(there), value, gradient, True)
                if abs(s.slope) * max(1.0, beta) <= TOLERANCE and abs(there - self.x) < 1e-6:
                    return self._optimum(beta, s.value, abs(s.slope), True)
            if abs(there - self.x) < NEAR:
                self.single = False
            self.steps += 1
            if abs(there) < MAX_LOG:
                self._move(there)
            elif optimum := self.at_end(BOUND if there > 0 else 1.0 / BOUND):
                return optimum
        gradient = abs(self.sums_here.slope)
        return self._optimum(self.beta, self.sums_here.value, gradient, gradient * max(1.0, self.beta) <= TOLERANCE)

    def at_end(self, beta: float) -> Optimum | None:
        """A bound as the optimum, if the loss still falls there."""
        self.x, self.sums_here, self.single = math.log(beta), self.sums.at(beta), False
        self._narrow()
        if self.sums_here.slope * (beta - 1.0) <= 0.0:
            return self._optimum(beta, self.sums_here.value, 0.0, True)
        return None

    def _optimum(self, beta: float, value: float, gradient: float, converged: bool) -> Optimum:
        return Optimum(beta, max(self.first.value, value), value, gradient, converged, self.steps)


def _halley(s: Sums, beta: float) -> float:
    """The Halley step of log β, at most a factor of four."""
    gradient, curvature = beta * s.slope, beta * (beta * s.curvature + s.slope)
    third = beta * (beta * (beta * s.third + 3.0 * s.curvature) + s.slope)
    divisor = 2.0 * curvature**2 - gradient * third
    if gradient == 0.0:
        return 0.0
    if curvature <= 0.0:
        step = -math.copysign(LONGEST_STEP, gradient)
    elif divisor > 0.0:
        step = -2.0 * gradient * curvature / divisor
    else:
        step = -gradient / curvature
    return min(max(step, -LONGEST_STEP), LONGEST_STEP)
