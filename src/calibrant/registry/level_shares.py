"""Shares of outcomes under the levels of predictive distributions: what errors over levels are functions of.

Of Gaussians and mixtures the PIT of a row falls in one cell between two levels. Of S samples it is spread evenly over
y's place among them: one slot of S + 1, or several where there are ties. Quantiles are judged at their own levels, an
outcome that equals one being half below it. What is kept are exact sums of cells, slots or levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration import regression
from calibrant.calibration.inversion import replicates_for
from calibrant.kernels.exact import ExactSum, GroupSums
from calibrant.kernels.philox import normals
from calibrant.kernels.regression import level_counts
from calibrant.kernels.regression_rows import RegressionRows, quantile_key
from calibrant.kernels.resampling import INVERSION
from calibrant.predictions import Regression
from calibrant.registry.accumulators import counting
from calibrant.registry.estimate import Settings

MOST_SLOTS = 4096
"""Places among samples that are redrawn as they are; of more, the PIT is as good as continuous."""
BELOW, CENTRAL = "below", "central"


def central_pairs(levels: np.ndarray) -> np.ndarray | None:
    """The levels below ½ of pairs (τ, 1 − τ), from the middle out; None where a level has no partner."""
    if np.abs(levels + levels[::-1] - 1.0).max() > 1e-9:
        return None
    return levels[: len(levels) // 2][::-1]


@dataclass
class LevelShares:
    """Exact sums over the rows, from which the share under each level follows."""

    kind: str
    coverage: str
    levels: np.ndarray
    given: tuple[float, ...] = ()
    """Levels of the quantiles that are judged."""
    samples: int = 0
    n: int = 0
    terms: int = 0
    """Rows that have a weight."""
    by_unit: bool = False
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    sums: GroupSums = field(default_factory=GroupSums)
    squares: GroupSums = field(default_factory=GroupSums)
    mass: ExactSum | None = None
    mass_squares: ExactSum | None = None
    made: dict[Any, Any] = field(default_factory=dict)
    """What several metrics need, made once."""

    @classmethod
    def of(cls, predictions: Regression, levels: int, coverage: str) -> LevelShares:
        """None yet, of predictions like these."""
        even = regression.even_levels(levels)
        if predictions.levels is not None:
            given = predictions.levels
            pairs = central_pairs(given) if coverage == CENTRAL else None
            return cls("quantiles", coverage, given if pairs is None else 1.0 - 2.0 * pairs, tuple(given.tolist()))
        samples = 0 if predictions.samples is None else len(predictions.samples)
        return cls(predictions.kind, coverage, even, samples=samples)

    # ---------------------------------------------------------------------------------------- rows
    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.n += rows.n
        self.made.clear()
        self.by_unit |= rows.units is not None
        (w,) = counting(rows.weights, rows.weights)
        self.terms += rows.n if w is None else len(w)
        if w is not None:
            self.mass = (self.mass or ExactSum()).add(w)
            self.mass_squares = (self.mass_squares or ExactSum()).add(w * w)
        take = {"samples": self._add_samples, "quantiles": self._add_quantiles}.get(self.kind, self._add_cells)
        take(rows, w)

    def _add_cells(self, rows: RegressionRows, w: np.ndarray | None) -> None:
        (pit,) = counting(rows.weights, rows.pit)
        central, levels = self.coverage == CENTRAL, len(self.levels)
        if w is None:
            found = level_counts(pit, levels, central)
            self.counts = found + self.counts if len(self.counts) else found
            return
        cells_of = regression.cells_central if central else regression.cells_below
        self._tally(cells_of(pit, levels), np.ones(len(w)), w)

    def _add_samples(self, rows: RegressionRows, w: np.ndarray | None) -> None:
        """The ends of y's place: where a density begins, and where it ends."""
        low, high = counting(rows.weights, rows.pit_low, rows.pit_high)
        first, last = (np.rint(end * (self.samples + 1)).astype(np.int64) for end in (low, high))
        density = 1.0 / (last - first)
        self._tally(first, density, w)
        self._tally(last, -density, w)

    def _add_quantiles(self, rows: RegressionRows, w: np.ndarray | None) -> None:
        (y,) = counting(rows.weights, rows.y)
        for place, level in enumerate(self.given):
            (q,) = counting(rows.weights, rows.extras[quantile_key(level)])
            under = (y < q) + 0.5 * (y == q)
            self._tally(np.full(len(y), place), under, w)

    def _tally(self, place: np.ndarray, value: np.ndarray, w: np.ndarray | None) -> None:
        """Add a value of each row, times its weight, to its place."""
        self.sums.add(value if w is None else value * w, place)
        if w is not None:
            self.squares.add(value * w * w, place)

    def merge(self, other: LevelShares) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.terms += other.terms
        self.made.clear()
        self.by_unit |= other.by_unit
        if len(other.counts):
            self.counts = other.counts + self.counts if len(self.counts) else other.counts
        self.sums.merge(other.sums)
        self.squares.merge(other.squares)
        for name in ("mass", "mass_squares"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, mine.merge(theirs) if mine and theirs else mine or theirs)

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
        out[: len(self.counts)] += self.counts  # whole numbers of rows, where rows of Gaussians have no weights
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

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` makes, made once for all metrics."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    # ---------------------------------------------------------------------------------------- chance
    def null(self, settings: Settings) -> np.ndarray | None:
        """p̂ (R, B) of calibrated predictions; None where rows depend on each other."""
        if self.by_unit:
            return None
        return self.once(("null", settings), lambda: self._null(settings))

    def _null(self, settings: Settings) -> np.ndarray:
        drawing = {"replicates": settings.resamples, "seed": settings.seed}
        if 0 < self.samples < MOST_SLOTS:
            even = np.full(self.samples + 1, 1.0 / (self.samples + 1))
            slots = regression.redrawn_cells(even, self.rows, **drawing)
            return regression.under_levels_of_slots(slots, self.levels, self.coverage)
        cells = np.diff(self.levels, prepend=0.0, append=1.0)
        return regression.under_levels(regression.redrawn_cells(cells, self.rows, **drawing), len(self.levels))

    def errors(self, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
        """Variance (B,) of the shares, and normal errors (R, B) of their covariance."""
        return self.once(("errors", settings), lambda: self._errors(settings))

    def _errors(self, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
        cells = len(self.levels) + 1
        white = normals(settings.seed, INVERSION, replicates_for(cells, settings.resamples), cells)
        return regression.errors_of_shares(self.shares(), self.square_shares(), self.levels, self.rows, white)
