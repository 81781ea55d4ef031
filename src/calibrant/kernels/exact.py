"""Order-independent sums: the same bits for any number of blocks, threads or machines.

A value x is held as rint(x·2²⁰) and rint(rest·2⁴⁰), that is to 2⁻⁶⁰; Python integers carry the totals, so merging is
exact. Values of 2²² and more go to coarser tiers of the same form, each 2⁴⁰ times wider; infinities and NaNs are
counted apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from calibrant.kernels.loops.sums import LIMIT, group_limbs, limbs

BLOCK = 1 << 20
TIER_BITS = 40


@dataclass
class ExactSum:
    """A sum that can be added to and merged in any order."""

    tiers: dict[int, int] = field(default_factory=dict)
    positive: int = 0
    negative: int = 0
    undefined: int = 0

    def add(self, x: np.ndarray) -> ExactSum:
        """Add every value of x."""
        x = np.ascontiguousarray(x, np.float64)
        for start in range(0, x.size, BLOCK):
            part = x[start : start + BLOCK]
            high, low, left = limbs(part)
            self.tiers[0] = self.tiers.get(0, 0) + (int(high) << 40) + int(low)
            if left:
                self._add_large(part[~(np.abs(part) < LIMIT)])
        return self

    def _add_large(self, x: np.ndarray) -> None:
        self.undefined += int(np.isnan(x).sum())
        self.positive += int(np.isposinf(x).sum())
        self.negative += int(np.isneginf(x).sum())
        x = x[np.isfinite(x)]
        tier = 0
        while x.size:
            tier += 1
            scaled = np.ldexp(x, -TIER_BITS * tier)
            inside = np.abs(scaled) < LIMIT
            high, low, _ = limbs(scaled[inside])
            self.tiers[tier] = self.tiers.get(tier, 0) + (int(high) << 40) + int(low)
            x = x[~inside]

    def merge(self, other: ExactSum) -> ExactSum:
        """Add another sum to this one."""
        for tier, total in other.tiers.items():
            self.tiers[tier] = self.tiers.get(tier, 0) + total
        self.positive += other.positive
        self.negative += other.negative
        self.undefined += other.undefined
        return self

    @property
    def finite(self) -> bool:
        """Whether every value was finite."""
        return not (self.positive or self.negative or self.undefined)

    def fraction(self) -> Fraction:
        """The sum of the finite values, exactly as held."""
        total = sum(count << (TIER_BITS * tier) for tier, count in self.tiers.items())
        return Fraction(total, 1 << 60)

    def value(self) -> float:
        """The sum as a float; infinite or NaN as the values were."""
        if self.undefined or (self.positive and self.negative):
            return math.nan
        if self.positive or self.negative:
            return math.inf if self.positive else -math.inf
        total = sum(count << (TIER_BITS * tier) for tier, count in self.tiers.items())
        return total / (1 << 60)


def carry(limbs: np.ndarray) -> None:
    """Keep the low limbs (…, 1) below 2⁴⁰, so that neither they nor the high ones overflow."""
    limbs[..., 0] += limbs[..., 1] >> 40
    limbs[..., 1] &= (1 << 40) - 1


def floats(limbs: np.ndarray) -> np.ndarray:
    """What carried limbs stand for; both are whole numbers below 2⁵³, so this rounds once."""
    return limbs[..., 0] * 2.0**-20 + limbs[..., 1] * 2.0**-60


class GroupSums:
    """One order-independent sum for each of many groups, numbered from 0; new groups may come at any time."""

    def __init__(self) -> None:
        """No groups yet."""
        self.limbs = np.zeros((0, 1, 2), np.int64)
        self.large = 0

    def add(self, x: np.ndarray, groups: np.ndarray) -> None:
        """Add each value to the sum of its group."""
        self._reach(int(groups.max()) + 1 if len(groups) else 0)
        for start in range(0, len(x), BLOCK):
            part = slice(start, start + BLOCK)
            self.large += group_limbs(x[part], groups[part], self.limbs)
            carry(self.limbs)

    def merge(self, other: GroupSums) -> None:
        """Add the sums of another to these, group by group."""
        self._reach(len(other.limbs))
        self.limbs[: len(other.limbs)] += other.limbs
        self.large += other.large
        carry(self.limbs)

    def _reach(self, groups: int) -> None:
        if groups > len(self.limbs):
            self.limbs = np.concatenate([self.limbs, np.zeros((groups - len(self.limbs), 1, 2), np.int64)])

    def values(self) -> np.ndarray:
        """The sums as floats; all of them NaN once a value of 2²² or more, or one that is not finite, has come."""
        if self.large:
            return np.full(len(self.limbs), np.nan)
        return floats(self.limbs)[:, 0]


def exact_sum(x: np.ndarray) -> float:
    """Σx, whatever the order of x."""
    return ExactSum().add(x).value()


def exact_mean(x: np.ndarray) -> float:
    """Mean of x, whatever the order of x; NaN where x is empty."""
    return exact_sum(x) / x.size if x.size else math.nan
