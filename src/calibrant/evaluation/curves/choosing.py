"""Which curves are made of an input: all that its predictions can give without more than its metrics read.

Where metrics are named, the pass may be short of what a curve reads, and the curve is left out. So is one that keeps
rows, unless a metric keeps the same rows anyway, of more than `MOST_KEPT` of them; of more than `MOST_BESIDE` where
metrics are named, so that those which take little memory go on to do so. Whether rows are in memory or in a file does
not matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from calibrant.evaluation.choosing import MOST_KEPT
from calibrant.evaluation.curves import corp, detection, histograms, regression, reliability, selective, widths
from calibrant.evaluation.curves.curve import KEPT, Curve
from calibrant.predictions import Classification, Evaluated
from calibrant.registry.metric import NEEDS, Spec
from calibrant.registry.sharing import Reduced

MOST_BESIDE = 1 << 16
"""Rows up to which curves that keep them are made beside metrics that were named and do not."""
OF_MANY = ("reliability", "pit", "calibration", "scores", "mix")
"""Curves that are made of any number of rows: the others would take longer than reading them."""
FAMILIES = (
    reliability.curves,
    corp.curves,
    histograms.curves,
    selective.curves,
    regression.curves,
    widths.curves,
    detection.curves,
)
"""Every family of curves: each yields those of the predictions that it is given."""


def curves_of(example: Evaluated) -> Iterator[Curve]:
    """Every curve that predictions like these may have."""
    for family in FAMILIES:
        yield from family(example)


def chosen(
    example: Evaluated, n: int, specs: list[Spec], asked: frozenset[Hashable], named: bool
) -> tuple[list[Curve], dict[str, str]]:
    """The curves that are made of n rows beside these metrics, named or not, and why others are not.

    asked: what the metrics ask of the pass.
    """
    most = MOST_BESIDE if named else MOST_KEPT
    made = [spec.metric.accumulate(spec, example) for spec in specs]
    held = {item.key for item in made if isinstance(item, Reduced)}
    light = isinstance(example, Classification) and all(spec.metric.light for spec in specs)
    found, left_out = [], {}
    for curve in curves_of(example):
        reason = _lacks(curve, example, asked, light) or (_keeps(curve, example, held) if n > most else None)
        if reason is None and n > MOST_KEPT and curve.name not in OF_MANY:
            reason = "of millions of rows only the main curve is made"
        if reason is None:
            found.append(curve)
        else:
            left_out[curve.name] = reason
    return found, left_out


def _lacks(curve: Curve, example: Evaluated, asked: frozenset[Hashable], light: bool) -> str | None:
    for need in sorted(curve.needs):
        met, reason = NEEDS[need]
        if not met(example):
            return "it needs y" if need == "labels" and example.task == "regression" else reason
    if not curve.wants <= asked or (curve.whole and light):
        return "it reads more of the predictions than the metrics that were named"
    return None


def _keeps(curve: Curve, example: Evaluated, held: set[Hashable]) -> str | None:
    key = curve.accumulate(example).key
    if key[0] != KEPT or key in held:
        return None
    return "it keeps every row, and there are many: it is made beside metrics that keep them too, as ks and avu do"
