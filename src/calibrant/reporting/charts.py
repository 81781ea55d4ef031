"""Parts of charts: scales with round marks, labels as wide as names need, places that do not overlap."""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Sequence

from calibrant.errors import plain
from calibrant.evaluation.rendering import columns_of, elide

LINE = 14.0
"""Height of a line of text at 12 px."""
NARROW, BROAD = frozenset("ijlftrI.,:;|!'`()[]{} -/"), frozenset("mwMW@%—…")
WIDTHS = (5.4, 7.8, 8.8, 12.2)
"""Of narrow and other small letters, of capitals and of broad ones, at 12 px in a wide font."""
MOST_CHARACTERS = 40
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Scale:
    """From values to places: the lowest at `first`, the highest at `last`, with a little room at both ends."""

    def __init__(self, values: Sequence[float], first: float, last: float, room: float = 0.04) -> None:
        low, high = min(values), max(values)
        spare = room * (high - low) or (0.0 if high > low else abs(low) * 0.1 or 1.0)
        self.low, self.high, self.first, self.last = low - spare, high + spare, first, last

    def __call__(self, value: float) -> float:
        return self.first + (self.last - self.first) * (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale."""
        return nice_ticks(self.low, self.high, most)


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most so many round values from low to high, a step of 1, 2, 2.5 or 5 times a power of ten apart."""
    if not math.isfinite(low + high) or not high > low:
        return [low] if math.isfinite(low) else []
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    for step in (factor * power for factor in (*STEPS, 20.0)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [k * step for k in range(first, last + 1)]
    return []


def tick_label(value: float, ticks: Sequence[float]) -> str:
    """A mark with as many digits as the step between marks needs."""
    step = min((abs(b - a) for a, b in itertools.pairwise(ticks)), default=abs(value) or 1.0)
    digits = max(0, -math.floor(math.log10(step)) + (round(step / 10 ** math.floor(math.log10(step)), 6) % 1 != 0))
    if digits > 6 or abs(value) >= 1e6:
        return f"{value:.3g}".replace("-", "−")
    return f"{0.0 if abs(value) < step / 1e6 else value:.{digits}f}".replace("-", "−")


def spread(places: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Places at least so far apart in the same order, near to where they were, and within both ends where they fit."""
    order = sorted(range(len(places)), key=lambda k: places[k])
    out = [0.0] * len(places)
    last = low - apart
    for k in order:
        last = out[k] = max(places[k], last + apart)
    last = max(high, low + apart * (len(places) - 1)) + apart
    for k in reversed(order):
        last = out[k] = min(out[k], last - apart)
    return out


# ------------------------------------------------------------------------------------------------ names
def lines_of(name: str, most: int = MOST_CHARACTERS) -> list[str]:
    """A name in one line or two, broken behind a blank, an underline or a slash; of a longer one the middle is left out."""
    name = plain(name)
    if columns_of(name) <= most:
        return [name]
    places = [match.end() for match in re.finditer(r"[ _/\-.]", name) if 0 < match.end() < len(name)]
    fits = [k for k in places if columns_of(name[:k]) <= most and columns_of(name[k:]) <= most]
    if fits:
        middle = min(fits, key=lambda k: abs(2 * k - len(name)))
        return [name[:middle].rstrip(), name[middle:]]
    return [shortened(name, most)]


def shortened(name: str, most: int = MOST_CHARACTERS) -> str:
    """A name without its middle where it is too long."""
    return elide(plain(name), most)


def width_of(lines: Sequence[str]) -> float:
    """Pixels that the widest line needs."""
    return max((sum(map(_width, line)) for line in lines), default=0.0)


def _width(c: str) -> float:
    if c in BROAD or columns_of(c) > 1:
        return WIDTHS[3]
    return WIDTHS[0] if c in NARROW else WIDTHS[2] if c.isupper() else WIDTHS[1]


def text_at(lines: Sequence[str], x: float, y: float, anchor: str = "end") -> str:
    """Lines of text about a height."""
    top = y + 4 - LINE * (len(lines) - 1) / 2
    parts = [f"<tspan x='{x:.1f}' y='{top + LINE * k:.1f}'>{html.escape(line)}</tspan>" for k, line in enumerate(lines)]
    return f"<text text-anchor='{anchor}'>{''.join(parts)}</text>"


def axis(scale: Scale, y: float, top: float) -> str:
    """A line below a chart with round marks, faint lines up from them, and a stronger one at 0."""
    ticks = scale.ticks()
    parts = [f"<line x1='{scale.first:.1f}' x2='{scale.last:.1f}' y1='{y:.1f}' y2='{y:.1f}' stroke='var(--line)'/>"]
    for value in ticks:
        x, zero = scale(value), abs(value) < 1e-12
        look = "stroke='var(--soft)' stroke-dasharray='4 4'" if zero else "stroke='var(--line)' opacity='.6'"
        parts.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{top:.1f}' y2='{y:.1f}' {look}/>")
        parts.append(f"<text x='{x:.1f}' y='{y + 16:.1f}' text-anchor='middle'>{tick_label(value, ticks)}</text>")
    return "".join(parts)


def figure(body: str, width: float, height: float, label: str, said: str) -> str:
    """A chart that is never made smaller than its text can be read: narrow screens scroll it."""
    return (
        f"<figure><div class='wide'><svg viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}' "
        f"height='{height:.0f}' role='img' aria-label='{html.escape(label)}'>{body}</svg></div>"
        f"<figcaption class='note'>{html.escape(said)}</figcaption></figure>"
    )
