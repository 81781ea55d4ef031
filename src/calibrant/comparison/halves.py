"""The best inverse temperature of every half of every repeat, from few passes over the rows.

A pass expands each row about one β₀ (`kernels.loops.expansions`). The loss of every half, Σ w_i (−log p_β(y_i)), is
then known near β₀ for the price of its rows, not of their classes; it is convex in β, and steps of Halley in log β lead
to its minimum. A temperature is taken when the mean gradient, with the bound of what the expansion leaves out, is less
than `TOLERANCE` by β and by log β; a row's score when the bound is less than `ROW_TOLERANCE`. Halves that one expansion
does not reach get another, about the least of the inverse temperatures still wanted: above β₀ remainders are
smallest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.comparison.splits import Splits
from calibrant.errors import ValuesError
from calibrant.kernels.expansions import RowExpansions, Slopes
from calibrant.kernels.loops.expansions import AT_LABEL, WIDTH
from calibrant.recalibration.one_temperature import BOUND, LONGEST_STEP, TOLERANCE, WIDEST

ROW_TOLERANCE = 1e-9
"""What the score of a row may be off, in nats."""
NEAR = 0.25
"""A step of log β within which an expansion is asked for more than a direction."""
STILL = 1e-9
"""A mean gradient that is not worth another step."""
FEW = 50
"""One row in so many may be scored by a look at all its classes, where an expansion does not reach."""
STEPS, MOST_PASSES = 8, 400


@dataclass(frozen=True)
class Halves:
    """The halves of all repeats, and as a last repeat all rows in half 0."""

    half: np.ndarray
    """(R + 1, padded) uint8."""
    shares: np.ndarray
    """(n,) the weight of each row."""

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.shares)


def halves_of(rows: RowExpansions, splits: Splits, shares: np.ndarray) -> Halves:
    """Refuses halves in which no row counts."""
    for h in (0, 1):
        empty = ((splits.half == h) @ (shares > 0).astype(np.float64)) == 0
        if empty.any():
            raise ValuesError(
                "weights",
                expected="rows that count in both halves of every split",
                came=f"half {h} of repeat {int(np.argmax(empty))} has none",
                do="give more rows a weight above 0, or take another seed",
            )
    half = np.concatenate([splits.half, np.zeros((1, splits.n), np.uint8)])
    return Halves(rows.padded(half), shares)


def best_inverses(
    rows: RowExpansions, halves: Halves, *, guess: np.ndarray | None = None, scores: np.ndarray | None = None
) -> np.ndarray:
    """β (R + 1, 2) of every half, the last of all rows (and NaN), of rows that are expanded about some β.

    guess: where to look first. scores (n,): filled with log p(label), the mean over repeats.
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
    """Of each half (R + 1, 2): the temperature that it is thought to want, whether that is proven, and used."""

    def __init__(self, rows: RowExpansions, halves: Halves, scores: np.ndarray | None) -> None:
        self.rows, self.halves = rows, halves
        rows.passes = 0
        weights = np.where(rows.impossible, 0.0, halves.shares)
        self.weights = rows.padded(weights)
        shape = (len(halves.half), 2)
        self.low, self.high = np.full(shape, -WIDEST), np.full(shape, WIDEST)
        self.x, self.base = np.zeros(shape), np.full(shape, np.inf)
        self.fitted = np.zeros(shape, bool)
        self.scores = np.empty(0) if scores is None else scores
        self.scores.fill(0.0)
        self.used = np.full(shape, scores is None)
        self.used[-1] = True
        self.mass = self._by_half(weights)
        self._without_search(weights)

    @property
    def beta(self) -> np.ndarray:
        """exp x, the bounds exactly; NaN of the half that all rows leave empty."""
        out = np.where(np.abs(self.x) >= WIDEST, np.where(self.x > 0, BOUND, 1.0 / BOUND), np.exp(self.x))
        out[-1, 1] = np.nan
        return out

    def _by_half(self, x: np.ndarray) -> np.ndarray:
        """Σx (R + 1, 2) of the rows in each half."""
        ones = self.halves.half[:, : self.halves.n] @ x
        return np.stack([x.sum() - ones, ones], axis=1)

    def _counts(self, chosen: np.ndarray) -> np.ndarray:
        return np.round(self._by_half(chosen.astype(np.float64)))

    def _without_search(self, weights: np.ndarray) -> None:
        """β = 1 where nothing depends on it, the upper bound where every label is the likeliest class."""
        counts = weights > 0
        flat = self._counts(counts & (self.rows.field(WIDTH) > 0)) == 0
        right = self._counts(counts & (self.rows.field(AT_LABEL) < 0)) == 0
        self.x[right] = WIDEST
        self.x[flat] = 0.0
        self.fitted |= flat | right
        self.mass[flat] = 1.0

    # ------------------------------------------------------------------------------------ one expansion
    def begin(self, guess: np.ndarray) -> None:
        """Try the expansion where the temperatures are guessed to be."""
        with np.errstate(invalid="ignore"):
            known = ~self.fitted & np.isfinite(guess)
            x = np.log(np.where(known, guess, 1.0))
            self.x = np.where(known, x, self.x)
        self._refine(known & (np.abs(self.x - np.log(self.rows.beta)) < NEAR))

    def advance(self) -> bool:
        """What the present expansion tells; whether another is needed."""
        open_ = ~self.fitted
        if open_.any():
            self._look(open_)
            self._refine(~self.fitted & (np.abs(self.x - np.log(self.rows.beta)) < NEAR))
        for r, h in np.argwhere(self.fitted & ~self.used):
            self._score(int(r), int(h), self.scores)
        return not (self.fitted & self.used).all()

    def next_beta(self) -> float:
        """The least that is still wanted."""
        return float(self.beta[~(self.fitted & self.used)].min())

    def _slopes(self, delta: np.ndarray, wanted: np.ndarray) -> Slopes:
        found = self.rows.slopes(self.halves.half, self.weights, delta, np.asarray(wanted.any(axis=1)))
        return Slopes(*(part / self.mass for part in (found.slope, found.curvature, found.third, found.error)))

    def _look(self, open_: np.ndarray) -> None:
        """Draw the brackets in by the slopes at β₀, and step from there where no nearer place was stepped from."""
        here, beta = float(np.log(self.rows.beta)), self.rows.beta
        s = self._slopes(np.zeros_like(self.x), open_)
        at_end = open_ & (s.slope * (beta - 1.0) <= 0.0) & (beta in (BOUND, 1.0 / BOUND))
        self.x[at_end] = np.copysign(WIDEST, here)
        self.fitted |= at_end
        self.high = np.where(open_ & (s.slope > 0), np.minimum(self.high, here), self.high)
        self.low = np.where(open_ & (s.slope <= 0), np.maximum(self.low, here), self.low)
        outside = (self.x < self.low) | (self.x > self.high)
        nearer = np.abs(here - self.x) <= np.abs(self.base - self.x)
        renew = open_ & ~at_end & (outside | nearer)
        there = here + _halley(s, beta)
        inside = (there >= self.low) & (there <= self.high)
        end = np.where(there >= self.high, self.high, self.low)
        there = np.where(inside, there, np.where(np.abs(end) == WIDEST, end, (self.low + self.high) / 2.0))
        self.x, self.base = np.where(renew, there, self.x), np.where(renew, here, self.base)

    def _refine(self, near: np.ndarray) -> None:
        """Steps by the expansion, until the gradients vanish; those that are proven to are taken."""
        x, left = self.x.copy(), near & (np.abs(self.x) < WIDEST)
        for _ in range(STEPS):
            if not left.any():
                return
            beta = np.exp(x)
            s = self._slopes(np.where(left, beta - self.rows.beta, 0.0), left)
            size = np.maximum(1.0, beta)
            with np.errstate(invalid="ignore"):
                step = _halley(s, beta)
                still = (np.abs(s.slope) * size <= STILL) | (np.abs(step) <= 1e-13)
                taken = left & still & ((np.abs(s.slope) + s.error) * size <= TOLERANCE + 1e-12 * np.abs(s.slope))
                lost = ~(s.error * size < 1.0) | ~(s.curvature > 0) | (np.abs(x + step) >= WIDEST)
            self.x = np.where(left & ~lost, x, self.x)
            self.fitted |= taken
            left = left & ~still & ~lost
            x = np.where(left, x + step, x)

    # ------------------------------------------------------------------------------------------ scores
    def _score(self, r: int, h: int, scores: np.ndarray) -> None:
        """Score the rows outside a half at its temperature, where the expansion reaches; a few rows in full."""
        rows, half, beta = self.rows, self.halves.half[r], float(self.beta[r, h])
        delta, found = beta - rows.beta, np.zeros(self.halves.half.shape[1])
        lost = rows.score(half, 1 - h, delta, ROW_TOLERANCE, found)
        if lost > self.halves.n // FEW:
            return
        found = found[: self.halves.n]
        if lost:
            chosen = rows.untold(delta, ROW_TOLERANCE) & (half[: self.halves.n] == 1 - h)
            found[chosen] = rows.exact(np.full(self.halves.n, beta))[0][chosen]
        scores += found / (len(self.halves.half) - 1)
        self.used[r, h] = True

    def close(self) -> None:
        """Score by what there is: further passes would only turn rounding about."""
        repeats = len(self.halves.half) - 1
        for r, h in np.argwhere(~self.used):
            rows = self.halves.half[r, : self.halves.n] == 1 - h
            exact = self.rows.exact(np.full(self.halves.n, self.beta[r, h]))[0]
            self.scores[rows] += exact[rows] / repeats


def _halley(s: Slopes, beta: float | np.ndarray) -> np.ndarray:
    """The step of log β, at most a factor of four; down the slope where the curvature says nothing."""
    slope, curvature = beta * s.slope, beta * (beta * s.curvature + s.slope)
    third = beta * (beta * (beta * s.third + 3.0 * s.curvature) + s.slope)
    divisor = 2.0 * curvature**2 - slope * third
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        step = np.where(divisor > 0.0, -2.0 * slope * curvature / divisor, -slope / curvature)
    step = np.where(curvature > 0.0, step, -np.copysign(LONGEST_STEP, slope))
    return np.where(slope == 0.0, 0.0, np.clip(step, -LONGEST_STEP, LONGEST_STEP))
