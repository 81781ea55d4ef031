"""The curve of each group of rows: reliability of classes, PIT of numbers; the group is chosen in a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calibrant.errors import plain
from calibrant.evaluation.result import Group, Result
from calibrant.reporting.document import Columns, Control, Figure
from calibrant.reporting.gathering import has_band
from calibrant.reporting.naming import distinct
from calibrant.reporting.sections.regression import pit_chart
from calibrant.reporting.sections.reliability import HEADS as RELIABILITY_HEADS
from calibrant.reporting.sections.reliability import reliability_chart

MOST_CHOICES = 30
"""Groups whose curve can be chosen."""
ALL = "all rows"
RANKED_BY = ("nll", "crps", "brier", "pinball", "mse", "ece", "calibration_error")
"""The first that there is tells which groups are worst."""
PIT_HEADS = {
    "lower": "F(y) from",
    "upper": "to",
    "n": "rows",
    "share": "share of rows",
    "band_low": "right: from",
    "band_high": "right: to",
}
TOLD = {
    "reliability": (
        "Accuracy against mean confidence of bins, beside the line on which both are equal",
        "As the reliability diagram of all rows, of one group: below the dashed line it is too sure there.",
        " Shaded: where the points of a calibrated model lie by chance, which is wide in small groups.",
    ),
    "pit": (
        "Histogram of the probability integral transform",
        "Where the outcome lies in the predicted distribution, of one group. Even: right. High at both ends: too sure. "
        "A hump in the middle: not sure enough.",
        " Shaded: where the bars of a right prediction end by chance.",
    ),
}


def curves_figure(result: Result, groups: Sequence[Group]) -> Figure | None:
    """The diagram of the worst groups, and of all rows to begin with; None where no group has a curve."""
    kind = next((kind for kind in TOLD if any(kind in group.curves for group in groups)), None)
    if kind is None:
        return None
    having = [group for group in groups if kind in group.curves]
    worst = sorted(having, key=_badness(having))[:MOST_CHOICES]
    names = distinct(f"{plain(group.by, 200)} = {plain(str(group.value), 200)}".replace("|", "¦") for group in worst)
    curves = {name: group.curves[kind] for name, group in zip(names, worst, strict=True)}
    if kind in result.curves:
        curves = {ALL: result.curves[kind]} | curves
    heads = RELIABILITY_HEADS if kind == "reliability" else PIT_HEADS
    said, caption, shaded = TOLD[kind]
    few = f" The {MOST_CHOICES} worst of {len(having)} groups can be chosen." if len(having) > MOST_CHOICES else ""
    return Figure(
        key=f"{kind}-of-groups",
        title="Reliability of a group" if kind == "reliability" else "PIT of a group",
        chart=reliability_chart() if kind == "reliability" else pit_chart(len(next(iter(curves.values()))["lower"])),
        data={(name,): _filled(curve, heads) for name, curve in curves.items()},
        heads=heads,
        said=said,
        caption=caption + shaded * has_band(curves.values()) + few,
        controls=(Control("group", tuple(curves)),),
    )


def _filled(curve: Mapping[str, Any], heads: Mapping[str, str]) -> Columns:
    """With the columns of a band also where there is none."""
    blank = [None] * len(curve["lower"])
    return {name: curve.get(name, blank) for name in heads}


def _badness(groups: Sequence[Group]) -> Callable[[Group], float]:
    """How groups are ordered: the worst first, by a loss that they have; as they come where they have none."""
    spec = next((spec for spec in RANKED_BY if any(spec in group.metrics for group in groups)), "")

    def key(group: Group) -> float:
        e = group.metrics.get(spec)
        return math.inf if e is None or math.isnan(e.value) else -e.value

    return key
