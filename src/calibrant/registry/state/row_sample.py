"""A random sample of whole predictions, for metrics whose cost is quadratic in the number of rows.

The sample depends on row numbers alone: it is the rows with the smallest random words, so that blocks and threads do
not matter. It is sorted by content before anything is drawn for it or summed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.kernels.philox import words
from calibrant.kernels.records import PREDICTIONS
from calibrant.kernels.resampling import SAMPLE
from calibrant.kernels.rows import PROBS, rows_of
from calibrant.registry.state.accumulators import State

MOST_ENTRIES = 1 << 21
"""Maximum number of values to store: 16 MB. The sums over all pairs need about eight times as much."""
FEWEST_NUMBERS = 10
"""Minimum number of values to count per row, because labels are redrawn for it a hundred times."""
SEED = 0
"""Seed of the sample, independent of the seed of the resampling."""


@dataclass
class SampledRows(State):
    """Values (k, D) of the sampled rows; a subclass defines which."""

    most: int
    keys: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    MERGED: ClassVar = ("keys", "values")

    def numbers_of(self, rows: Any, chosen: np.ndarray) -> np.ndarray:
        """The values (k, D) to store for the chosen rows, in float64."""
        raise NotImplementedError

    def collect(self, rows: Any, spread: bool) -> None:
        """Keep the rows with the smallest random words."""
        number = rows.extras[PREDICTIONS].number
        first = int(number.min())
        drawn = words(SEED, SAMPLE, 0, int(number.max()) - first + 1, first)[number - first]
        # a random word of each row, followed by its number: no two keys are equal
        keys = (drawn.astype(np.uint64) << np.uint64(32)) | (number.astype(np.uint64) & np.uint64(0xFFFFFFFF))
        known = np.concatenate([*self.keys, keys])
        highest = known.max() if len(known) <= self.most else np.partition(known, self.most - 1)[self.most - 1]
        chosen = np.flatnonzero(keys <= highest)
        if len(chosen):
            self.keys.append(keys[chosen])
            self.values.append(self.numbers_of(rows, chosen))
            self._trim()

    def _trim(self) -> None:
        """Drop rows outside the sample once there are many of them."""
        if sum(map(len, self.keys)) > self.most + self.most // 2 or len(self.keys) > 4096:
            keys, values = self._joined()
            self.keys, self.values = [keys], [values]

    def _joined(self) -> tuple[np.ndarray, np.ndarray]:
        keys, values = np.concatenate(self.keys), np.concatenate(self.values)
        if len(keys) > self.most:
            first = np.argpartition(keys, self.most - 1)[: self.most]
            keys, values = keys[first], values[first]
        return keys, values

    def merge(self, other: Self) -> None:
        """Merge another of the same kind."""
        super().merge(other)
        if self.keys:
            self._trim()

    def rows(self) -> np.ndarray:
        """The stored values (k, D), in an order that depends on the values only."""

        def make() -> np.ndarray:
            rows = np.ascontiguousarray(self._joined()[1]) + 0.0  # −0 and 0 are one number, of different bytes
            as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
            return rows[np.argsort(as_bytes, kind="stable")]

        return self.once("rows", make)


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


def sampled_rows(accumulator: Any) -> int | None:
    """The number of rows in the sample of an accumulator; None if it uses all rows."""
    state = getattr(accumulator, "state", None)
    return min(state.n, state.most) if isinstance(state, SampledRows) else None


def most_rows(requested: int, values: int) -> int:
    """The number of rows to sample, at `values` numbers per row: as requested, if they fit in memory."""
    return max(2, min(requested, MOST_ENTRIES // max(values, FEWEST_NUMBERS)))
