"""Verdicts as plain records, and how numbers are written in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from calibrant.errors import plain
from calibrant.evaluation.result import Result
from calibrant.evaluation.wording import number, span
from calibrant.registry.estimate import Estimate

Tone = Literal["good", "warn", "bad", "neutral"]
WORST_FIRST: tuple[Tone, ...] = ("bad", "warn", "good", "neutral")
LONGEST = 80
"""Characters of a headline."""
SMALL = 0.02
"""Up to which a calibration error is called slight."""


@dataclass(frozen=True)
class Point:
    """One thing that the numbers say."""

    tone: Tone
    topic: str
    """Such as calibration, errors, members, groups, shift, gates."""
    text: str
    """A sentence in plain words, without a full stop."""
    numbers: tuple[str, ...] = ()
    """The estimates that carry it, with their intervals, such as `ece 0.0162 (0.0000 to 0.0217)`."""


@dataclass(frozen=True)
class InputVerdict:
    """What is said of one input."""

    input: str
    headline: str
    """At most 80 characters."""
    tone: Tone
    points: tuple[Point, ...]
    word: str = ""
    """The headline in a word or two, such as `over-confident`: of many inputs these are counted."""


@dataclass(frozen=True)
class Verdict:
    """Does the model know what it does not know? In plain words, from stored numbers."""

    headline: str
    """At most 80 characters."""
    tone: Tone
    inputs: tuple[InputVerdict, ...]
    points: tuple[Point, ...] = ()
    """What concerns the inputs together: a comparison, what was gained, shift over inputs, gates, notes."""


# ------------------------------------------------------------------------------------------------- tones
def worst(tones: Iterable[Tone]) -> Tone:
    """Bad before warn before good before neutral."""
    found = set(tones)
    return next((tone for tone in WORST_FIRST if tone in found), "neutral")


# ------------------------------------------------------------------------------------------------- words
def headline(*candidates: str) -> str:
    """The first of them that is short enough; the last one cut where none is."""
    texts = [plain(text, 10 * LONGEST) for text in candidates]
    return next((text for text in texts if len(text) <= LONGEST), plain(texts[-1], LONGEST))


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent; one that is not quite none or all is not rounded to it."""
    text = f"{100.0 * share:.{digits}f}"
    while 0.0 < share < 1.0 and float(text) in (0.0, 100.0) and digits < 4:
        digits += 1
        text = f"{100.0 * share:.{digits}f}"
    return f"{text} %"


def two_percents(one: float, other: float) -> tuple[str, str]:
    """Two shares beside each other, with decimals where whole numbers would hide the difference."""
    digits = 0 if abs(one - other) >= 0.02 and max(one, other) < 0.995 else 1
    return percent(one, digits), percent(other, digits)


def points_of(gap: float) -> str:
    """A difference of two shares, in percentage points."""
    text = f"{abs(100.0 * gap):.1f}"
    return f"{text} point{'s' * (text != '1.0')}"


def rows_of(n: int) -> str:
    """How many rows there are."""
    return f"{n} row{'s' * (n != 1)}"


def p_of(p: float) -> str:
    """A p-value as it stands in a sentence."""
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def interval_of(e: Estimate) -> str:
    """The interval in brackets, or nothing."""
    ends = span(e.low, e.high)
    return f" ({ends})" if ends else ""


def exact(spec: str, e: Estimate) -> str:
    """An estimate with its interval, as `Point.numbers` holds it."""
    return f"{spec} {number(e.value)}{interval_of(e)}"


def with_band(spec: str, e: Estimate) -> str:
    """An estimate with what a calibrated model would give."""
    band = f"; {span(e.null_low, e.null_high)} if calibrated" if math.isfinite(e.null_high) else ""
    return exact(spec, e) + band


# ------------------------------------------------------------------------------------------------ lookups
def find(result: Result, names: Sequence[str]) -> tuple[str, Estimate] | None:
    """The first of these metrics that was computed with a finite value: as it is named, or with options of its own.

    Options that make another quantity of it (of a class, another norm) are passed over.
    """
    for name in names:
        for spec, e in result.metrics.items():
            base, _, options = spec.partition("(")
            if base == name and not ("of=" in options or "norm=" in options) and math.isfinite(e.value):
                return spec, e
    return None


def has_interval(e: Estimate) -> bool:
    """Whether both ends are known."""
    return math.isfinite(e.low) and math.isfinite(e.high)
