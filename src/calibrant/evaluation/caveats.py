"""What must be known to read the numbers of one input: biases, intervals that cover less, too few rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from calibrant.errors import plain
from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.wording import number
from calibrant.intervals import APPROXIMATE
from calibrant.registry.estimate import Estimate

ABOUT = " ~"
"""Behind intervals that may cover less than their level."""
ROUNDING = 1e-9
"""By what a value may lie beyond its interval without being meant to."""

MISSED = 0.2
"""How often an error that rows would show is not seen."""


def is_about(e: Estimate) -> bool:
    """Whether the interval may cover less than its level."""
    return e.method.endswith(APPROXIMATE)


def seen_at_best(n: int) -> float:
    """The error that n rows show in four of five cases where every miss shows, as it does of certain answers alone."""
    return 1.0 - MISSED ** (1.0 / n) if n > 0 else 1.0


def detectable(result: Result) -> list[str]:
    """What so many rows could not show; the verdict says it too."""
    ece = result.metrics.get("ece")
    if ece is None or not math.isfinite(ece.detectable):
        return []
    least = max(ece.detectable, seen_at_best(ece.n))
    return [f"{ece.n} row{'s' * (ece.n != 1)} would show a true ECE of {number(least)} in four of five cases"]


def caveats(result: Result) -> list[str]:
    """Sentences about the metrics of an input that are biased, or whose intervals may fall short."""
    out, known = [], result.metrics
    above = [spec for spec, e in known.items() if e.value > e.high * (1.0 + ROUNDING)]
    if above:
        out.append(f"{', '.join(above)}: the value is biased upwards, and the interval is of the true error")
    negative = [spec for spec, e in known.items() if e.value < 0.0 == e.low]
    if negative:
        out.append(f"{', '.join(negative)}: the value is unbiased and may fall below 0; the true error does not")
    below = [spec for spec, e in known.items() if e.value < e.low and spec not in negative]
    if below:
        out.append(f"{', '.join(below)}: the value is biased downwards, and the interval is of the true error")
    about = [spec for spec, e in known.items() if is_about(e)]
    if about:
        first, *others = dict.fromkeys(spec.partition("(")[0] for spec in about)
        told = f"`calibrant metrics {first}`" + (f" (or {', '.join(others)})" if others else "")
        out.append(f"{ABOUT.strip()} may cover less than it says: {told} says when")
    return out


def by_reason(skipped: Mapping[str, str]) -> dict[str, list[str]]:
    """What was left out, by why it was."""
    reasons: dict[str, list[str]] = {}
    for name, why in skipped.items():
        reasons.setdefault(plain(why), []).append(plain(name))
    return reasons


def false_discoveries(evaluation: Evaluation) -> float:
    """The share that lies above a band: a group that is alone has a star where it is beyond its band."""
    return round(0.5 - float(evaluation.settings["level"]) / 2, 6)
