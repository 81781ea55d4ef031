"""Whole predictions of at most so many rows, for metrics whose cost grows with the square of the rows.

Which rows are kept depends on their numbers alone: those with the smallest random words, so that blocks and threads do
not matter. They are then put into an order of their own before anything is drawn for them or summed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.kernels.held import PREDICTIONS
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import SAMPLE
from calibrant.kernels.rows import PROBS, rows_of

MOST_ENTRIES = 1 << 21
"""Numbers of rows that are kept: 16 MB. The sums over all pairs hold some eight times as much."""
FEWEST_NUMBERS = 10
"""Numbers that a row counts for at least: labels are redrawn for it a hundred times."""
SEED = 0
"""Of the choice of rows: one that does not change with the seed of the resampling."""


@dataclass
class SampledRows:
    """Numbers (k, D) of the kept rows; a subclass says which."""

    most: int
    n: int = 0
    """Rows seen."""
    by_unit: bool = False
    keys: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    made: dict[Any, Any] = field(default_factory=dict)
    """What several metrics need of the rows, made once."""

    def numbers_of(self, rows: Any, chosen: np.ndarray) -> np.ndarray:
        """The numbers (k, D) that are kept of the chosen rows, in float64."""
        raise NotImplementedError

    def add(self, rows: Any, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.n += rows.n
        self.by_unit |= rows.units is not None
        self.made.clear()
        keys = _keys(rows.extras[PREDICTIONS].number)
        chosen = np.flatnonzero(keys <= self._highest(keys))
        if len(chosen):
            self.keys.append(keys[chosen])
            self.values.append(self.numbers_of(rows, chosen))
            self._trim()

    def _highest(self, keys: np.ndarray) -> np.uint64:
        """The highest key that is among the `most` smallest of all."""
        known = np.concatenate([*self.keys, keys])
        return known.max() if len(known) <= self.most else np.partition(known, self.most - 1)[self.most - 1]

    def _trim(self) -> None:
        """Let go of rows that are not among the first, when they have become many."""
        if sum(map(len, self.keys)) > self.most + self.most // 2 or len(self.keys) > 4096:
            keys, values = self._joined()
            self.keys, self.values = [keys], [values]

    def _joined(self) -> tuple[np.ndarray, np.ndarray]:
        keys, values = np.concatenate(self.keys), np.concatenate(self.values)
        if len(keys) > self.most:
            first = np.argpartition(keys, self.most - 1)[: self.most]
            keys, values = keys[first], values[first]
        return keys, values

    def merge(self, other: SampledRows) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.by_unit |= other.by_unit
        self.made.clear()
        self.keys += other.keys
        self.values += other.values
        if self.keys:
            self._trim()

    def rows(self) -> np.ndarray:
        """The kept numbers (k, D), in an order that depends on nothing but themselves."""
        return self.once("rows", lambda: _in_order(self._joined()[1]))

    def once(self, key: Any, make: Any) -> Any:
        """What `make` makes of the rows, made once for all metrics."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]


@dataclass
class SampledClasses(SampledRows):
    """Probabilities of all classes, and the label."""

    def numbers_of(self, rows: Any, chosen: np.ndarray) -> np.ndarray:
        """p_1 … p_C and y."""
        predictions = rows.extras[PREDICTIONS][chosen].predictions()
        p = rows_of(predictions, frozenset({PROBS})).extras[PROBS]
        return np.concatenate([p, predictions.labels[:, None]], axis=1, dtype=np.float64)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """p (k, C), in C order, and y (k,)."""
        rows = self.rows()
        return self.once("pairs", lambda: (np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(np.int64)))


@dataclass
class SampledGaussians(SampledRows):
    """Mean, standard deviation and outcome."""

    def numbers_of(self, rows: Any, chosen: np.ndarray) -> np.ndarray:
        """μ, σ and y."""
        return np.stack([rows.mean[chosen], np.sqrt(rows.variance[chosen]), rows.y[chosen]], axis=1)


def taken_of(accumulator: Any) -> int | None:
    """How many rows an accumulator has kept of those it has seen; None of one that sees all."""
    state = getattr(accumulator, "state", None)
    return min(state.n, state.most) if isinstance(state, SampledRows) else None


def most_rows(wanted: int, numbers: int) -> int:
    """How many rows of so many numbers are kept where so many are wanted: as many as fit the memory."""
    return max(2, min(wanted, MOST_ENTRIES // max(numbers, FEWEST_NUMBERS)))


def _keys(number: np.ndarray) -> np.ndarray:
    """A random word of each row, and its number behind it: no two are equal."""
    first = int(number.min())
    drawn = words(SEED, SAMPLE, 0, int(number.max()) - first + 1, first)[number - first]
    return (drawn.astype(np.uint64) << np.uint64(32)) | (number.astype(np.uint64) & np.uint64(0xFFFFFFFF))


def _in_order(rows: np.ndarray) -> np.ndarray:
    """Rows sorted by their bytes: any order will do that equal rows share."""
    rows = np.ascontiguousarray(rows) + 0.0  # −0 and 0 are one number, of different bytes
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    return rows[np.argsort(as_bytes, kind="stable")]
