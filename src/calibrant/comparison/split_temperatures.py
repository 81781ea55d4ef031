"""The best inverse temperature of every half of every repeat, from few passes over the rows.

A pass expands each row about one β₀ (`kernels.temperature_taylor`). Near β₀ the loss of every half, Σ w_i (−log
p_β(y_i)), then costs one evaluation per row instead of one per class. It is convex in β, and Halley steps in log β lead
to its minimum. A temperature is accepted if the mean gradient, plus the bound of the expansion's remainder, is below
`TOLERANCE` in β and in log β; a row's score if its bound is below `ROW_TOLERANCE`. Halves that an expansion does not
cover get another one, about the smallest inverse temperature that is still needed: remainders are smallest above β₀.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import UsageError, ValuesError, check_range
from calibrant.kernels.loops.temperature.taylor import AT_LABEL, WIDTH
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import HALVES
from calibrant.kernels.temperature_taylor import RowExpansions, Slopes
from calibrant.predictions import InMemory
from calibrant.recalibration.temperature_solver import BOUND, LONGEST_STEP, MAX_LOG, TOLERANCE

ROW_TOLERANCE = 1e-9
"""The largest accepted error of the score of a row, in nats."""
NEAR = 0.25
"""The distance in log β within which an expansion is used for more than the direction."""
STILL = 1e-9
"""A mean gradient small enough to stop."""
FEW = 50
"""At most one row in this many is scored from all its classes, if an expansion does not cover it."""
STEPS, MOST_PASSES = 8, 400
REPEATS = 5
MOST_REPEATS = 1000


@dataclass(frozen=True)
class Splits:
    """The half of each row, repeat by repeat."""

    half: np.ndarray
    """(R, N) zeros and ones, uint8."""
    seed: int
    by_units: bool = False

    @property
    def repeats(self) -> int:
        """The number of repeats."""
        return len(self.half)

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.half.shape[1]

    def to_json(self) -> dict[str, Any]:
        """The settings of the splits, and the number of rows in both halves of each."""
        ones = self.half.sum(axis=1, dtype=np.int64)
        sizes = [[int(self.n - k), int(k)] for k in ones]
        return {"repeats": self.repeats, "seed": self.seed, "by_units": self.by_units, "rows": sizes}


def splits_of(n: int, *, repeats: int = REPEATS, seed: int = 0, units: np.ndarray | None = None) -> Splits:
    """Split n rows into halves; units: the number (N,) of the unit of each row, which stays in one half."""
    repeats = check_range("repeats", repeats, 1, MOST_REPEATS, integer=True, hint=f"use repeats={REPEATS}")
    count = n if units is None else int(units.max(initial=-1)) + 1
    if count < 2:
        what = "rows" if units is None else "units"
        hint = f"give more {what}, or fit the temperature on other rows (--temperature clean, temperature='clean')"
        raise UsageError("splits", expected=f"at least 2 {what} to split", got=f"{count}", hint=hint)
    half = np.ones((repeats, count), np.uint8)
    for r in range(repeats):
        order = np.argsort(words(seed, HALVES, r, count), kind="stable")
        half[r, order[: count // 2]] = 0
    return Splits(half if units is None else half[:, units], int(seed), units is not None)


def unit_codes(predictions: InMemory, units: str | None) -> np.ndarray | None:
    """The number (N,) of the unit of each row, by the column that identifies units."""
    return None if units is None else np.unique(predictions.column(units), return_inverse=True)[1].ravel()


class Halves(NamedTuple):
    """The halves of all repeats, followed by one repeat with all rows in half 0."""

    half: np.ndarray
    """(R + 1, padded) uint8."""
    shares: np.ndarray
    """(n,) the weight of each row."""


def halves_of(rows: RowExpansions, splits: Splits, shares: np.ndarray) -> Halves:
    """The halves of expanded rows; halves without weight are refused."""
    for h in (0, 1):
        empty = ((splits.half == h) @ (shares > 0).astype(np.float64)) == 0
        if empty.any():
            got = f"none in half {h} of repeat {int(np.argmax(empty))}"
            hint = "give more rows a weight above 0, or use another --seed"
            raise ValuesError("weights", expected="rows with weight in both halves of every split", got=got, hint=hint)
    half = np.concatenate([splits.half, np.zeros((1, splits.n), np.uint8)])
    return Halves(rows.padded(half), shares)


def best_inverses(
    rows: RowExpansions, halves: Halves, *, guess: np.ndarray | None = None, scores: np.ndarray | None = None
) -> np.ndarray:
    """β (R + 1, 2) of every half, then of all rows (and NaN), for rows that are expanded about some β.

    guess: starting values. scores (n,): filled with log p(label), the mean over repeats.
    """
    search = _Search(rows, halves, scores)
    if guess is not None:
        search.begin(guess)
    while search.advance():
        if rows.passes >= MOST_PASSES:
            search.close()
            break
        rows.expand(search.next_beta())
    return search.beta


class _Search:
    """The state of each half (R + 1, 2): its estimated temperature, whether it is accepted, and whether it is used."""

    def __init__(self, rows: RowExpansions, halves: Halves, scores: np.ndarray | None) -> None:
        self.rows, self.halves, self.n = rows, halves, len(halves.shares)
        rows.passes = 0
        weights = np.where(rows.impossible, 0.0, halves.shares)
        self.weights = rows.padded(weights)
        shape = (len(halves.half), 2)
        self.low, self.high = np.full(shape, -MAX_LOG), np.full(shape, MAX_LOG)
        self.x, self.base = np.zeros(shape), np.full(shape, np.inf)
        self.fitted = np.zeros(shape, bool)
        self.scores = np.empty(0) if scores is None else scores
        self.scores.fill(0.0)
        self.used = np.full(shape, scores is None)
        self.used[-1] = True
        self.mass = self._by_half(weights)
        # β = 1 if nothing depends on it, the upper bound if every label is the likeliest class
        wide, wrong = (
            np.round(self._by_half((chosen & (weights > 0)).astype(np.float64)))
            for chosen in (rows.field(WIDTH) > 0, rows.field(AT_LABEL) < 0)
        )
        flat, right = wide == 0, wrong == 0
        self.x[right] = MAX_LOG
        self.x[flat] = 0.0
        self.fitted |= flat | right
        self.mass[flat] = 1.0

    @property
    def beta(self) -> np.ndarray:
        """exp x, with exact bounds; NaN for the empty half of all rows."""
        out = np.where(np.abs(self.x) >= MAX_LOG, np.where(self.x > 0, BOUND, 1.0 / BOUND), np.exp(self.x))
        out[-1, 1] = np.nan
        return out

    def _by_half(self, x: np.ndarray) -> np.ndarray:
        """Σx (R + 1, 2) of the rows in each half."""
        ones = self.halves.half[:, : self.n] @ x
        return np.stack([x.sum() - ones, ones], axis=1)

    def begin(self, guess: np.ndarray) -> None:
        """Refine the guessed temperatures with the current expansion."""
        with np.errstate(invalid="ignore"):
            guessed = ~self.fitted & np.isfinite(guess)
            x = np.log(np.where(guessed, guess, 1.0))
            self.x = np.where(guessed, x, self.x)
        self._refine(guessed & (np.abs(self.x - np.log(self.rows.beta)) < NEAR))

    def advance(self) -> bool:
        """Use the current expansion; whether another one is needed."""
        open_ = ~self.fitted
        if open_.any():
            self._bracket(open_)
            self._refine(~self.fitted & (np.abs(self.x - np.log(self.rows.beta)) < NEAR))
        for r, h in np.argwhere(self.fitted & ~self.used):
            self._score(int(r), int(h), self.scores)
        return not (self.fitted & self.used).all()

    def next_beta(self) -> float:
        """The smallest β that is still needed."""
        return float(self.beta[~(self.fitted & self.used)].min())

    def _slopes(self, delta: np.ndarray, needed: np.ndarray) -> Slopes:
        s = self.rows.slopes(self.halves.half, self.weights, delta, np.asarray(needed.any(axis=1)))
        return Slopes(*(part / self.mass for part in (s.slope, s.curvature, s.third, s.error)))

    def _bracket(self, open_: np.ndarray) -> None:
        """Shrink the brackets by the slopes at β₀, and step from there unless a closer starting point was used."""
        here, beta = float(np.log(self.rows.beta)), self.rows.beta
        s = self._slopes(np.zeros_like(self.x), open_)
        at_end = open_ & (s.slope * (beta - 1.0) <= 0.0) & (beta in (BOUND, 1.0 / BOUND))
        self.x[at_end] = np.copysign(MAX_LOG, here)
        self.fitted |= at_end
        self.high = np.where(open_ & (s.slope > 0), np.minimum(self.high, here), self.high)
        self.low = np.where(open_ & (s.slope <= 0), np.maximum(self.low, here), self.low)
        outside = (self.x < self.low) | (self.x > self.high)
        nearer = np.abs(here - self.x) <= np.abs(self.base - self.x)
        renew = open_ & ~at_end & (outside | nearer)
        there = here + _halley(s, beta)
        inside = (there >= self.low) & (there <= self.high)
        end = np.where(there >= self.high, self.high, self.low)
        there = np.where(inside, there, np.where(np.abs(end) == MAX_LOG, end, (self.low + self.high) / 2.0))
        self.x, self.base = np.where(renew, there, self.x), np.where(renew, here, self.base)

    def _refine(self, near: np.ndarray) -> None:
        """Halley steps with the expansion until gradients vanish; proven temperatures are accepted."""
        x, left = self.x.copy(), near & (np.abs(self.x) < MAX_LOG)
        for _ in range(STEPS):
            if not left.any():
                return
            beta = np.exp(x)
            s = self._slopes(np.where(left, beta - self.rows.beta, 0.0), left)
            size = np.maximum(1.0, beta)
            with np.errstate(invalid="ignore"):
                step = _halley(s, beta)
                still = (np.abs(s.slope) * size <= STILL) | (np.abs(step) <= 1e-13)
                accepted = left & still & ((np.abs(s.slope) + s.error) * size <= TOLERANCE + 1e-12 * np.abs(s.slope))
                lost = ~(s.error * size < 1.0) | ~(s.curvature > 0) | (np.abs(x + step) >= MAX_LOG)
            self.x = np.where(left & ~lost, x, self.x)
            self.fitted |= accepted
            left = left & ~still & ~lost
            x = np.where(left, x + step, x)

    def _score(self, r: int, h: int, scores: np.ndarray) -> None:
        """Score the rows outside a half at its temperature by the expansion, and a few rows exactly."""
        rows, half, beta = self.rows, self.halves.half[r], float(self.beta[r, h])
        delta, found = beta - rows.beta, np.zeros(self.halves.half.shape[1])
        lost = rows.score(half, 1 - h, delta, ROW_TOLERANCE, found)
        if lost > self.n // FEW:
            return
        found = found[: self.n]
        if lost:
            chosen = rows.untold(delta, ROW_TOLERANCE) & (half[: self.n] == 1 - h)
            found[chosen] = rows.exact(np.full(self.n, beta))[0][chosen]
        scores += found / (len(self.halves.half) - 1)
        self.used[r, h] = True

    def close(self) -> None:
        """Score exactly at the current temperatures: further passes would only change rounding."""
        repeats = len(self.halves.half) - 1
        for r, h in np.argwhere(~self.used):
            rows = self.halves.half[r, : self.n] == 1 - h
            exact = self.rows.exact(np.full(self.n, self.beta[r, h]))[0]
            self.scores[rows] += exact[rows] / repeats


def _halley(s: Slopes, beta: float | np.ndarray) -> np.ndarray:
    """The step of log β, at most a factor of four; along the negative slope if the curvature is not positive."""
    slope, curvature = beta * s.slope, beta * (beta * s.curvature + s.slope)
    third = beta * (beta * (beta * s.third + 3.0 * s.curvature) + s.slope)
    divisor = 2.0 * curvature**2 - slope * third
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        step = np.where(divisor > 0.0, -2.0 * slope * curvature / divisor, -slope / curvature)
    step = np.where(curvature > 0.0, step, -np.copysign(LONGEST_STEP, slope))
    return np.where(slope == 0.0, 0.0, np.clip(step, -LONGEST_STEP, LONGEST_STEP))
