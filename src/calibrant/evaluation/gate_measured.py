"""A number with its interval, and what it shows of a bound: on this side of it, on the other, or neither.

A number with an interval shows `> x` where both ends are above x, and shows that it does not hold where neither is.
Between them nothing is shown. An infinite value is what it is. Without an interval the value speaks, *weakly*: that is
enough to stop a build, and not enough to pass what must be shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibrant.evaluation.gate_grammar import OPERATORS
from calibrant.evaluation.wording import number, span


@dataclass(frozen=True)
class Finding:
    """Whether a condition is shown (None: neither it nor its opposite), in words, and whether a bare value says so."""

    shown: bool | None
    said: str
    weak: bool = False


@dataclass(frozen=True)
class Measured:
    """A number and its interval; where they are the same the number is exact, where the ends are NaN there is none."""

    name: str
    value: float
    low: float
    high: float
    level: float = math.nan
    words: tuple[str, str] = ("", "")
    """The value and the interval as they are written, where numbers alone would not say it: '< 1.0'."""

    @classmethod
    def exact(cls, name: str, value: float) -> Measured:
        """A number that has no error."""
        return cls(name, value, value, value)

    @classmethod
    def of(cls, name: str, value: float, low: float, high: float, level: float = math.nan) -> Measured:
        """Ends that are not finite are left out of files: where one is known, the other is infinite."""
        if math.isinf(value):
            return cls.exact(name, value)
        if math.isnan(low) != math.isnan(high):
            low, high = (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)
        return cls(name, value, low, high, level)

    @property
    def weak(self) -> bool:
        """Whether there is no interval."""
        return math.isnan(self.low) and math.isnan(self.high)

    def shows(self, op: str, bound: float) -> bool | None:
        """Whether the whole interval is on that side of the bound (true), on the other (false), or on both (None)."""
        holds = OPERATORS[op]
        if math.isnan(self.value):
            return None
        ends = {holds(end, bound) for end in ((self.value,) if self.weak else (self.low, self.high))}
        return ends.pop() if len(ends) == 1 else None

    def finding(self, op: str, bound: float) -> Finding:
        """The same with words."""
        shown = self.shows(op, bound)
        told = f"{self.name} {self.words[0] or number(self.value)}"
        if math.isnan(self.value):
            return Finding(shown, f"{self.name} is undefined, so that nothing can be told", weak=True)
        if self.low == self.high:
            return Finding(shown, told)
        if self.weak:
            return Finding(shown, f"{told}, the value alone: there is no interval", weak=True)
        percent = f"{100 * self.level:g} % " if math.isfinite(self.level) else ""
        told += f", {percent}interval {self.words[1] or span(self.low, self.high) or 'without ends'}"
        return Finding(shown, told if shown is not None else f"{told}: on both sides of {bound:g}")
