"""Test-time cross-validation: the rows are split in two halves at random, several times over.

In each repeat the rows, or the units of dependent rows, are put in the order of the Philox words of
(seed, HALVES, repeat, place); the first half of them, rounded down, is half 0 and the rest half 1. The halves depend on
the number of rows and the seed alone, so that every model of a comparison meets the same ones. Ashukha et al. (2020),
section 2.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import UsageError
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import HALVES

REPEATS = 5
MOST_REPEATS = 1000


@dataclass(frozen=True)
class Splits:
    """Which half each row lies in, repeat by repeat."""

    half: np.ndarray
    """(R, N) zeros and ones, uint8."""
    seed: int
    by_units: bool = False

    @property
    def repeats(self) -> int:
        """How often the rows are split."""
        return len(self.half)

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.half.shape[1]

    def to_json(self) -> dict[str, Any]:
        """How the splits were made, and the rows in both halves of each."""
        ones = self.half.sum(axis=1, dtype=np.int64)
        sizes = [[int(self.n - k), int(k)] for k in ones]
        return {"repeats": self.repeats, "seed": self.seed, "by_units": self.by_units, "rows": sizes}


def splits_of(n: int, *, repeats: int = REPEATS, seed: int = 0, units: np.ndarray | None = None) -> Splits:
    """The halves of n rows; units: the number (N,) of the unit of each row, whose rows stay together."""
    if isinstance(repeats, bool) or not isinstance(repeats, int | np.integer) or not 1 <= repeats <= MOST_REPEATS:
        said = f"a whole number from 1 to {MOST_REPEATS}"
        raise UsageError("repeats", expected=said, came=f"got {repeats}", do="5 is usual")
    count = n if units is None else int(units.max(initial=-1)) + 1
    if count < 2:
        what = "rows" if units is None else "units"
        do = "give more of them, or a temperature that was fitted on other rows (temperature='clean')"
        raise UsageError("splits", expected=f"at least 2 {what} to split", came=f"there is {count}", do=do)
    half = np.ones((int(repeats), count), np.uint8)
    for r in range(int(repeats)):
        order = np.argsort(words(seed, HALVES, r, count), kind="stable")
        half[r, order[: count // 2]] = 0
    return Splits(half if units is None else half[:, units], int(seed), units is not None)
