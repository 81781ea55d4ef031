"""Numbers, intervals and titles as tables write them."""

from __future__ import annotations

import math

from calibrant.evaluation.result import Evaluation, Result

SHORT = 6
"""Signs of a short number."""


def number(value: float) -> str:
    """Four digits that count, in a fixed form."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "−infinite"
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.3g}".replace("-", "−")
    return f"{value + 0.0:.4f}".replace("-", "−")  # zero has no sign


def short(value: float) -> str:
    """At most six signs, so that a line has room for a bar: fewer digits of large and of negative numbers."""
    if not math.isfinite(value):
        return number(value)
    if value != 0 and not 1e-4 <= abs(value) < 99999.5:
        return f"{value:.0e}".replace("-", "−")
    texts = (f"{value + 0.0:.{digits}f}" for digits in (4, 3, 2, 1, 0))
    return next(text for text in texts if len(text) <= SHORT).replace("-", "−")


def short_span(low: float, high: float) -> str:
    """Both ends of an interval in few signs, or nothing."""
    return f"{short(low)} to {short(high)}" if math.isfinite(low) or math.isfinite(high) else ""


def span(low: float, high: float) -> str:
    """Both ends of an interval, or nothing."""
    return f"{number(low)} to {number(high)}" if math.isfinite(low) or math.isfinite(high) else ""


def title(evaluation: Evaluation, result: Result) -> str:
    """The name of an input, and what it holds."""
    facts = next(item for item in evaluation.inputs if item["name"] == result.input)
    parts = [result.input, f"{facts.get('checked', facts['n'])} rows"]
    if facts["members"] > 1:
        parts.append(f"{facts['members']} members")
    if "samples" in facts:
        parts.append(f"{facts['samples']} sample{'s' * (facts['samples'] > 1)}")
    if "outside" in facts:
        parts.append(f"{facts['outside']} from outside")
    if "classes" in facts:
        parts.append(f"{facts['classes']} classes")
    return " · ".join(parts)
