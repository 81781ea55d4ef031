"""The inverse temperature β = 1/T of the largest likelihood, by steps of Halley inside a bracket.

The loss L(β) = Σ_i w_i (log Σ_c exp(β z_ic) − β z_iy) is convex. Steps are taken in log β, where L is close to a
parabola over a wider range than in β, and use its third derivative; scores in float32 are first met with exponentials
in float32, and large inputs with one row in twenty. What is returned was verified in float64: with R the widest row,
|L⁗| ≤ R²L″ and |(log L″)′| ≤ R, so that a pass at β bounds the gradient after the next step δ by

    |L′ + L″δ + L‴δ²/2| + R² L″ e^{R|δ|} |δ|³/6,

and the last step needs no pass of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibrant.kernels.temperature_sums import Sums, TemperatureSums

BOUND = 64.0
"""β and T are at most this."""
WIDEST = math.log(BOUND)
"""Their logarithms lie within ± this."""
TOLERANCE = 1e-8
"""What the mean gradient by β, and by log β, is brought under."""
LONGEST_STEP = math.log(4.0)
NEAR = 0.05
"""A step of log β after which float32 has nothing to add."""
CLOSE = 1e-3
"""A step of log β that may be the last."""
LARGE = 1 << 22
"""Scores from which a part of the rows is tried first."""
MOST_PASSES = 40


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
        """Whether β would go beyond 1/64 or 64 if it could."""
        return self.beta in (BOUND, 1.0 / BOUND)


def best_inverse(sums: TemperatureSums, first: Sums) -> Optimum:
    """The optimum, given the sums at β = 1; weights sum to one."""
    search = _Search(sums, first)
    if sums.widest == 0.0:
        return Optimum(1.0, first.value, first.value, abs(first.slope), True, 0)
    if sums.wrong == 0 and (found := search.at_end(BOUND)):
        return found
    if sums.scores.size >= LARGE:
        search.try_part()
    return search.run()


class _Search:
    """A bracket of log β, the point where the sums are known, and the step that they suggest."""

    def __init__(self, sums: TemperatureSums, first: Sums) -> None:
        self.sums, self.first, self.steps = sums, first, 0
        self.single = sums.scores.dtype.itemsize == 4
        self.low, self.high = -WIDEST, WIDEST
        self.x, self.here = 0.0, first
        self._narrow()

    @property
    def beta(self) -> float:
        return math.exp(self.x)

    def _narrow(self) -> None:
        """Draw the bracket in; near the optimum the sign of a slope in float32 means nothing."""
        if self.single and abs(_halley(self.here, self.beta)) < NEAR:
            return
        if self.here.slope > 0.0:
            self.high = min(self.high, self.x)
        else:
            self.low = max(self.low, self.x)

    def _next(self) -> float:
        """log β after the next step, inside the bracket."""
        there = self.x + _halley(self.here, self.beta)
        if self.low <= there <= self.high:
            return there
        end = self.high if there >= self.high else self.low
        return end if abs(end) == WIDEST else (self.low + self.high) / 2.0

    def try_part(self) -> None:
        """Move to where a part of the rows is likeliest, if the sums of all rows allow that."""
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
        self.here = self.sums.at(self.beta, single=self.single)
        self._narrow()

    def run(self) -> Optimum:
        """Steps until the gradient is verified to vanish, or a bound holds it."""
        while self.sums.passes < MOST_PASSES:
            there = self._next()
            if not self.single and (found := self._settled(there)):
                return found
            if abs(there - self.x) < NEAR:
                self.single = False
            self.steps += 1
            if abs(there) < WIDEST:
                self._move(there)
            elif found := self.at_end(BOUND if there > 0 else 1.0 / BOUND):
                return found
        slope = abs(self.here.slope)
        return self._optimum(self.beta, self.here.value, slope, slope * max(1.0, self.beta) <= TOLERANCE)

    def _settled(self, there: float) -> Optimum | None:
        """The point after the next step, or this one, where the gradient is known to vanish there."""
        beta, s = self.beta, self.here
        if abs(there - self.x) > CLOSE:
            return None
        step, wide = math.exp(there) - beta, self.sums.widest
        rest = wide * wide * s.curvature * math.exp(min(wide * abs(step), 700.0)) * abs(step) ** 3 / 6.0
        slope = abs(s.slope + step * (s.curvature + step * s.third / 2.0)) + rest
        if slope * max(1.0, beta) <= TOLERANCE:
            value = s.value + step * (s.slope + step * (s.curvature / 2.0 + step * s.third / 6.0))
            self.steps += 1
            return self._optimum(math.exp(there), value, slope, True)
        if abs(s.slope) * max(1.0, beta) <= TOLERANCE and abs(there - self.x) < 1e-6:
            return self._optimum(beta, s.value, abs(s.slope), True)
        return None

    def at_end(self, beta: float) -> Optimum | None:
        """An end of the bounds as the optimum, if the loss still falls there."""
        self.x, self.here, self.single = math.log(beta), self.sums.at(beta), False
        self._narrow()
        if self.here.slope * (beta - 1.0) <= 0.0:
            return self._optimum(beta, self.here.value, 0.0, True)
        return None

    def _optimum(self, beta: float, value: float, slope: float, converged: bool) -> Optimum:
        return Optimum(beta, max(self.first.value, value), value, slope, converged, self.steps)


def _halley(s: Sums, beta: float) -> float:
    """The step of log β, at most a factor of four."""
    slope, curvature = beta * s.slope, beta * (beta * s.curvature + s.slope)
    third = beta * (beta * (beta * s.third + 3.0 * s.curvature) + s.slope)
    divisor = 2.0 * curvature**2 - slope * third
    if slope == 0.0:
        return 0.0
    if curvature <= 0.0:
        step = -math.copysign(LONGEST_STEP, slope)
    elif divisor > 0.0:
        step = -2.0 * slope * curvature / divisor
    else:
        step = -slope / curvature
    return min(max(step, -LONGEST_STEP), LONGEST_STEP)
