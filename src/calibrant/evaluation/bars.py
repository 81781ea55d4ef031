"""Small bars in tables of text: an interval, the value in it, and the band that it is held against, on one scale.

A bar is a row of a few cells from the lowest number of its row of the table to the highest. It is a picture of numbers
that stand beside it, and stands in text alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

INTERVAL, BAND, BOTH, VALUE, BEYOND, ZERO = "─", "░", "▒", "┃", "█", "┊"
ROUNDING = 1e-9
"""By what share a value may lie beyond its band without being meant to."""


@dataclass(frozen=True)
class Bar:
    """A value, its interval, and what it is held against; NaN for what there is not."""

    value: float
    low: float = math.nan
    high: float = math.nan
    band_low: float = math.nan
    band_high: float = math.nan
    zero: float = math.nan
    """A number that is marked: of differences 0."""
    scale: tuple[float, float] | None = None
    """The numbers at both ends, where several bars share them."""

    @property
    def beyond(self) -> bool:
        """Whether the value lies outside its band."""
        slack = ROUNDING * max(abs(self.band_low), abs(self.band_high), abs(self.value))
        return self.value > self.band_high + slack or self.value < self.band_low - slack

    def ends(self) -> tuple[float, float] | None:
        """The lowest and the highest number, or None where there is nothing to draw."""
        if not math.isfinite(self.value) or not any(map(math.isfinite, (self.low, self.high, self.band_high))):
            return None
        every = (self.value, self.low, self.high, self.band_low, self.band_high, self.zero)
        known = [x for x in every if math.isfinite(x)]
        return min(known), max(known)


def drawn(bar: Bar, cells: int) -> str:
    """The bar in so many cells; blank where there is nothing to draw."""
    ends = bar.ends()
    if ends is None:
        return " " * cells
    low, high = bar.scale or ends
    out = [" "] * cells

    def place(x: float, otherwise: float) -> int:
        x = x if math.isfinite(x) else otherwise
        share = (x - low) / (high - low) if high > low else 0.5
        return min(max(int(share * (cells - 1) + 0.5), 0), cells - 1)

    at = place(bar.value, low)
    if math.isfinite(bar.zero):
        out[place(bar.zero, low)] = ZERO
    if math.isfinite(bar.band_high):
        first, last = place(bar.band_low, low), place(bar.band_high, high)
        for k in range(first + (bar.beyond and at == first), last + 1 - (bar.beyond and at == last)):
            out[k] = BAND
    if math.isfinite(bar.low) or math.isfinite(bar.high):
        for k in range(place(bar.low, low), place(bar.high, high) + 1):
            out[k] = BOTH if out[k] in (BAND, BOTH) else ZERO if out[k] == ZERO else INTERVAL
    out[at] = BEYOND if bar.beyond else VALUE
    return "".join(out)


def shared(bars: Iterable[Bar]) -> tuple[Bar, ...]:
    """The same bars on one scale, from the lowest of their ends to the highest."""
    from dataclasses import replace

    every = list(bars)
    known = [ends for bar in every if (ends := bar.ends()) is not None]
    if not known:
        return tuple(every)
    scale = min(low for low, _ in known), max(high for _, high in known)
    return tuple(replace(bar, scale=scale) for bar in every)


def legend(text: str, band: str = "if calibrated") -> str:
    """What the signs of the bars in a text mean, of those that are in it; nothing where there are none."""
    barred = "".join(line for line in text.splitlines() if VALUE in line or BEYOND in line)
    said = {
        INTERVAL: "interval", BAND: band, BOTH: "both", ZERO: "zero", VALUE: "value", BEYOND: f"value outside {BAND}",
    }  # fmt: skip
    parts = [f"{sign} {what}" for sign, what in said.items() if sign in barred]
    return f"bars: {', '.join(parts)}" if parts else ""
