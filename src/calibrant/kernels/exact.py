"""Order-independent sums: the same bits for any number of blocks, threads or machines.

`ExactSum` loses nothing: the total is a Python integer of units of 2⁻¹⁰⁷⁴, the smallest float, so any order, any cut
and any scale of the values give the same number, which is rounded once. Infinities and NaNs are counted apart. Sums of
many groups are held in 64-bit limbs, to a relative error of 2⁻⁴⁰ a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from calibrant.kernels.loops.sums import TIERS, group_limbs, limbs, tier_limbs, tiers_of

BLOCK = 1 << 20
SMALLEST = 1074
"""Bits after the point of the smallest float."""
TIER_BITS = 32
LOW = (1 << 40) - 1


@dataclass
class ExactSum:
    """A sum that can be added to and merged in any order."""

    total: int = 0
    odd: list[int] = field(default_factory=lambda: [0, 0, 0])
    """How many values were +∞, −∞ and NaN."""

    def add(self, x: np.ndarray) -> ExactSum:
        """Add every value of x."""
        x = np.ascontiguousarray(x, np.float64)
        for start in range(0, x.size, BLOCK):
            part = x[start : start + BLOCK]
            high, middle, low, left = limbs(part)
            self.total += ((int(high) << 80) + (int(middle) << 40) + int(low)) << (SMALLEST - 100)
            if not left:
                continue
            tiers, odd = np.zeros((TIERS, 2), np.int64), np.zeros(3, np.int64)
            tier_limbs(part, tiers, odd)
            for tier in np.flatnonzero(tiers.any(axis=1)).tolist():
                units = int(tiers[tier, 0]) + (int(tiers[tier, 1]) << 27)
                self.total += units << (8 * tier - 1) if tier else units >> 1  # of 2^(8·tier − 1075), even in tier 0
            self.odd = [mine + int(more) for mine, more in zip(self.odd, odd, strict=True)]
        return self

    def merge(self, other: ExactSum) -> ExactSum:
        """Add another sum to this one."""
        self.total += other.total
        self.odd = [mine + more for mine, more in zip(self.odd, other.odd, strict=True)]
        return self

    @property
    def finite(self) -> bool:
        """Whether every value was finite."""
        return not any(self.odd)

    def fraction(self) -> Fraction:
        """The sum of the finite values, exactly."""
        return Fraction(self.total, 1 << SMALLEST)

    def value(self) -> float:
        """The sum, rounded once; infinite or NaN as the values were."""
        positive, negative, undefined = self.odd
        if undefined or (positive and negative):
            return math.nan
        if positive or negative:
            return math.inf if positive else -math.inf
        try:
            return self.total / (1 << SMALLEST)
        except OverflowError:
            return math.inf if self.total > 0 else -math.inf


def carry(limbs: np.ndarray) -> None:
    """Keep the low limbs (…, 1) below 2⁴⁰, so that neither they nor the high ones overflow."""
    limbs[..., 0] += limbs[..., 1] >> 40
    limbs[..., 1] &= LOW


def floats(limbs: np.ndarray) -> np.ndarray:
    """What carried limbs stand for; both are whole numbers below 2⁵³, so this rounds once."""
    return limbs[..., 0] * 2.0**-20 + limbs[..., 1] * 2.0**-60


class GroupSums:
    """One order-independent sum for each of many groups, numbered from 0; new groups may come at any time.

    Values of 2^(32k − 20) up to 2^(32k + 12) are summed in tier k: any scale keeps its digits, and 2³¹ rows fit.
    """

    def __init__(self) -> None:
        """No groups yet."""
        self.tiers: dict[int, np.ndarray] = {}
        self.groups = 0
        self.odd = 0

    def add(self, x: np.ndarray, groups: np.ndarray) -> None:
        """Add each value to the sum of its group."""
        self.groups = max(self.groups, int(groups.max()) + 1 if len(groups) else 0)
        x = np.ascontiguousarray(x, np.float64)
        tiers = np.empty(len(x), np.int8)
        lowest, highest, odd = tiers_of(x, tiers)
        self.odd += odd
        for tier in range(lowest, highest + 1):
            held, scale = self._tier(tier), 2.0 ** (-TIER_BITS * tier)
            for start in range(0, len(x), BLOCK):
                part = slice(start, start + BLOCK)
                group_limbs(x[part], groups[part], tiers[part], tier, scale, held)
                carry(held)

    def _tier(self, tier: int) -> np.ndarray:
        """The limbs of a tier, long enough for every group that is known."""
        held = self.tiers.get(tier, np.zeros((0, 1, 2), np.int64))
        missing = self.groups - len(held)
        self.tiers[tier] = np.concatenate([held, np.zeros((missing, 1, 2), np.int64)]) if missing else held
        return self.tiers[tier]

    def merge(self, other: GroupSums) -> None:
        """Add the sums of another to these, group by group."""
        self.groups = max(self.groups, other.groups)
        self.odd += other.odd
        for tier, theirs in other.tiers.items():
            mine = self._tier(tier)
            mine[: len(theirs)] += theirs
            carry(mine)

    def values(self) -> np.ndarray:
        """The sums as floats; all of them NaN once a value that is not finite has come."""
        total = np.full(self.groups, np.nan if self.odd else 0.0)
        with np.errstate(over="ignore"):
            for tier in sorted(self.tiers):
                total += np.ldexp(floats(self._tier(tier))[:, 0], TIER_BITS * tier)
        return total


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


def exact_sum(x: np.ndarray) -> float:
    """Σx, whatever the order of x."""
    return ExactSum().add(x).value()
