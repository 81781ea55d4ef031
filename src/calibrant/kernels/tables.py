"""Tables of sums that any number of rows can be added to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LOW = (1 << 40) - 1


@dataclass(frozen=True)
class UnitTable:
    """Sums as integers of units of 2⁻⁴⁰: high·2⁴⁰ + low.

    It is added to, and turned into floats, as an array of Python's integers is, at a hundredth of the time.
    """

    high: np.ndarray
    low: np.ndarray

    @classmethod
    def of(cls, table: np.ndarray) -> UnitTable:
        """From sums that fit into 64 bits."""
        return cls(table >> 40, table & LOW)

    @property
    def ndim(self) -> int:
        """Tables have more than one axis; what belongs to rows has one."""
        return self.high.ndim

    def __add__(self, other: UnitTable | int) -> UnitTable:
        if isinstance(other, int):  # the 0 that sums begin with
            return self
        low = self.low + other.low
        return UnitTable(self.high + other.high + (low >> 40), low & LOW)

    __radd__ = __add__

    def __getitem__(self, layers: Any) -> UnitTable:
        return UnitTable(self.high[layers], self.low[layers])

    def astype(self, dtype: Any) -> np.ndarray:
        """The numbers of units, rounded once."""
        return (self.high * float(1 << 40) + self.low).astype(dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del dtype, copy
        return self.high.astype(object) * (1 << 40) + self.low
