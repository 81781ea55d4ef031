"""Rows that a record can come back to: whole predictions of a few of them, made when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

PREDICTIONS = "predictions"
"""What a metric wants that reads whole predictions of some rows; the extra is a `Held`."""


@dataclass(frozen=True)
class Held:
    """Rows of a block of predictions, by their place in it; no copy is made of them."""

    block: Any
    place: np.ndarray
    first: int = 0
    """The number of the block's first row among all."""

    ndim = 1

    @property
    def number(self) -> np.ndarray:
        """The number of each row among all."""
        return self.first + self.place

    def __getitem__(self, rows: np.ndarray) -> Held:
        return Held(self.block, self.place[rows], self.first)

    def predictions(self) -> Any:
        """The predictions of these rows."""
        return self.block[self.place]
