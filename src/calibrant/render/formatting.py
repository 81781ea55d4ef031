"""Numbers, intervals, p-values, percentages and names as tables and sentences show them."""

from __future__ import annotations

import math

from calibrant.results.evaluation import Evaluation, Result

SHORT_WIDTH = 6
"""Maximum characters of a short number."""


# ------------------------------------------------------------------------------------------------ numbers
ROUNDED = 1e-13
"""Size up to which a number is shown as 0: what rounding leaves of a sum of many terms."""


def format_number(value: float) -> str:
    """Four decimals, or three significant digits outside 1e-4 to 1e5."""
    value = 0.0 if abs(value) < ROUNDED else value
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "−infinite"
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.3g}".replace("-", "−")
    return f"{value + 0.0:.4f}".replace("-", "−")  # + 0.0 drops the sign of −0


def format_short(value: float) -> str:
    """At most six characters, so that a table row has room for a bar."""
    if not math.isfinite(value) or abs(value) < ROUNDED:
        return format_number(value)
    if value != 0 and not 1e-4 <= abs(value) < 99999.5:
        return f"{value:.0e}".replace("-", "−")
    texts = (f"{value + 0.0:.{digits}f}" for digits in (4, 3, 2, 1, 0))
    return next(text for text in texts if len(text) <= SHORT_WIDTH).replace("-", "−")


def format_interval(low: float, high: float, *, short: bool = False) -> str:
    """`low to high`, or an empty string where neither end is finite."""
    write = format_short if short else format_number
    return f"{write(low)} to {write(high)}" if math.isfinite(low) or math.isfinite(high) else ""


def format_p_value(p: float, symbol: str = "") -> str:
    """Three decimals, `<0.001` below that, empty if undefined; with a symbol a whole phrase such as `p = 0.031`."""
    if math.isnan(p):
        return ""
    relation, text = "= ", f"{p:.3f}"
    if p < 0.001:
        relation, text = "< ", "0.001"
    elif 0.999 < p < 1.0:
        relation, text = "> ", "0.999"
    return f"{symbol} {relation}{text}" if symbol else relation.strip(" =") + text


def format_percent(share: float, digits: int = 1) -> str:
    """A share as a percentage, never rounded to 0% or 100% unless it is exactly that."""
    text = f"{100.0 * share:.{digits}f}"
    while 0.0 < share < 1.0 and float(text) in (0.0, 100.0) and digits < 4:
        digits += 1
        text = f"{100.0 * share:.{digits}f}"
    return f"{text}%"


def format_percent_pair(one: float, other: float) -> tuple[str, str]:
    """Two percentages to compare: with a decimal where whole numbers would hide the difference."""
    digits = 0 if abs(one - other) >= 0.02 and max(one, other) < 0.995 else 1
    return format_percent(one, digits), format_percent(other, digits)


def format_level(level: float) -> str:
    """The head of an interval column, such as `95% interval`."""
    return f"{100 * level:g}% interval"


def count(n: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1."""
    return f"{n} {noun}{'s' * (n != 1)}"


def blank_if_nan(value: object) -> object:
    """A CSV cell: empty for None and NaN."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


# ------------------------------------------------------------------------------------------------- titles
def input_title(evaluation: Evaluation, result: Result) -> str:
    """The name of an input and its size."""
    facts = next(item for item in evaluation.inputs if item["name"] == result.input)
    parts = [result.input, count(facts.get("checked", facts["n"]), "row")]
    if facts["members"] > 1:
        parts.append(f"{facts['members']} members")
    if "samples" in facts:
        parts.append(count(facts["samples"], "sample"))
    if "outside" in facts:
        parts.append(f"{facts['outside']} OOD")
    if "classes" in facts:
        parts.append(f"{facts['classes']} classes")
    return " · ".join(parts)
