"""Shares of outcomes below the levels of predictive distributions, from which errors over levels follow.

Of Gaussians and mixtures the PIT of a row falls in one cell between two levels. Of S samples it is spread evenly over
y's place among them: one slot of S + 1, or several where there are ties. Quantiles are evaluated at their own levels;
an outcome equal to one counts half. The state holds exact sums of cells, slots or levels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from calibrant.calibration import regression
from calibrant.calibration.inversion import replicates_for
from calibrant.kernels.exact import ExactSum, GroupSums
from calibrant.kernels.philox import normals
from calibrant.kernels.regression import level_counts
from calibrant.kernels.regression_rows import RegressionRows, quantile_key
from calibrant.kernels.resampling import INVERSION
from calibrant.predictions import Regression
from calibrant.registry.estimate import Settings
from calibrant.registry.state.accumulators import State, counting

MOST_SLOTS = 4096
"""Maximum number of slots to redraw as slots; with more, the PIT is treated as continuous."""
BELOW, CENTRAL = "below", "central"


def central_pairs(levels: np.ndarray) -> np.ndarray | None:
    """The levels below ½ of pairs (τ, 1 − τ), from the middle out; None where a level has no partner."""
    if np.abs(levels + levels[::-1] - 1.0).max() > 1e-9:
        return None
    return levels[: len(levels) // 2][::-1]


@dataclass
class LevelShares(State):
    """Exact sums over the rows, from which the share under each level follows."""

    kind: str
    coverage: str
    levels: np.ndarray
    given: tuple[float, ...] = ()
    """Levels of the predicted quantiles."""
    samples: int = 0
    terms: int = 0
    """Rows that have a weight."""
    counts: np.ndarray | None = None
    """Counts of unweighted rows of Gaussians."""
    sums: GroupSums = field(default_factory=GroupSums)
    squares: GroupSums = field(default_factory=GroupSums)
    mass: ExactSum | None = None
    mass_squares: ExactSum | None = None
    MERGED: ClassVar = ("terms", "counts", "sums", "squares", "mass", "mass_squares")

    @classmethod
    def of(cls, predictions: Regression, levels: int, coverage: str) -> LevelShares:
        """An empty state for predictions of this kind."""
        even = regression.even_levels(levels)
        if predictions.levels is not None:
            given = predictions.levels
            pairs = central_pairs(given) if coverage == CENTRAL else None
            return cls("quantiles", coverage, given if pairs is None else 1.0 - 2.0 * pairs, tuple(given.tolist()))
        samples = 0 if predictions.samples is None else len(predictions.samples)
        return cls(predictions.kind, coverage, even, samples=samples)

    # ---------------------------------------------------------------------------------------- rows
    def collect(self, rows: RegressionRows, spread: bool) -> None:
        """Add the place of each outcome among the levels."""
        (w,) = counting(rows.weights, rows.weights)
        self.terms += rows.n if w is None else len(w)
        if w is not None:
            self.mass = (self.mass or ExactSum()).add(w)
            self.mass_squares = (self.mass_squares or ExactSum()).add(w * w)
        if self.kind == "samples":  # the ends of y's place: where a density begins, and where it ends
            low, high = counting(rows.weights, rows.pit_low, rows.pit_high)
            first, last = (np.rint(end * (self.samples + 1)).astype(np.int64) for end in (low, high))
            density = 1.0 / (last - first)
            self._tally(first, density, w)
            self._tally(last, -density, w)
        elif self.kind == "quantiles":
            (y,) = counting(rows.weights, rows.y)
            for place, level in enumerate(self.given):
                (q,) = counting(rows.weights, rows.extras[quantile_key(level)])
                under = (y < q) + 0.5 * (y == q)
                self._tally(np.full(len(y), place), under, w)
        else:
            (pit,) = counting(rows.weights, rows.pit)
            central, levels = self.coverage == CENTRAL, len(self.levels)
            if w is None:
                counts = level_counts(pit, levels, central)
                self.counts = counts if self.counts is None else counts + self.counts
            else:
                cells_of = regression.cells_central if central else regression.cells_below
                self._tally(cells_of(pit, levels), np.ones(len(w)), w)

    def _tally(self, place: np.ndarray, value: np.ndarray, w: np.ndarray | None) -> None:
        """Add a value of each row, times its weight, to its place."""
        self.sums.add(value if w is None else value * w, place)
        if w is not None:
            self.squares.add(value * w * w, place)

    # -------------------------------------------------------------------------------------- shares
    @property
    def rows(self) -> float:
        """The effective number of rows, (Σw)²/Σw²."""
        if self.mass is None or self.mass_squares is None:
            return float(self.terms)
        return float(self.mass.fraction() ** 2 / self.mass_squares.fraction())

    def shares(self) -> np.ndarray:
        """p̂ (B,): the share of weight under each level."""
        total = float(self.terms) if self.mass is None else self.mass.value()
        return self.once("shares", lambda: self._under(self._values(self.sums) / total))

    def square_shares(self) -> np.ndarray:
        """The same of the squares of weights."""
        if self.mass_squares is None:
            return self.shares()
        total = self.mass_squares.value()
        return self._under(self._values(self.squares) / total)

    def _values(self, sums: GroupSums) -> np.ndarray:
        places = {"samples": self.samples + 2, "quantiles": len(self.given)}.get(self.kind, len(self.levels) + 1)
        out = np.zeros(places)
        if self.counts is not None:
            out[: len(self.counts)] += self.counts
        out[: sums.groups] += sums.values()
        return out

    def _under(self, values: np.ndarray) -> np.ndarray:
        if self.kind == "samples":
            slots = np.maximum(np.cumsum(values)[:-1], 0.0)
            return regression.under_levels_of_slots(slots, self.levels, self.coverage)
        if self.kind == "quantiles":
            half = len(self.given) // 2
            return values if self.coverage == BELOW else values[-half:] - values[:half][::-1]
        return regression.under_levels(values, len(self.levels))

    # ------------------------------------------------------------------------- null distribution
    def null(self, settings: Settings) -> np.ndarray | None:
        """p̂ (R, B) of calibrated predictions; None where rows depend on each other."""

        def make() -> np.ndarray:
            drawing = {"replicates": settings.resamples, "seed": settings.seed}
            if 0 < self.samples < MOST_SLOTS:
                even = np.full(self.samples + 1, 1.0 / (self.samples + 1))
                slots = regression.redrawn_cells(even, self.rows, **drawing)
                return regression.under_levels_of_slots(slots, self.levels, self.coverage)
            cells = np.diff(self.levels, prepend=0.0, append=1.0)
            return regression.under_levels(regression.redrawn_cells(cells, self.rows, **drawing), len(self.levels))

        return None if self.by_unit else self.once(("null", settings), make)

    def errors(self, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
        """Variance (B,) of the shares, and normal errors (R, B) of their covariance."""

        def make() -> tuple[np.ndarray, np.ndarray]:
            cells = len(self.levels) + 1
            white = normals(settings.seed, INVERSION, replicates_for(cells, settings.resamples), cells)
            return regression.errors_of_shares(self.shares(), self.square_shares(), self.levels, self.rows, white)

        return self.once(("errors", settings), make)
