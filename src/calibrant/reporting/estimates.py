"""Estimates as rows of a chart: how they are called, their numbers as columns, which of them one axis can show, and the
chart of values with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.errors import plain
from calibrant.evaluation.rendering import elide
from calibrant.evaluation.tables import ARROWS
from calibrant.registry import families, metrics
from calibrant.registry.estimate import Estimate
from calibrant.registry.metric import Metric
from calibrant.reporting.charting import altair, base, chart, listed, names_axis, tips, values_beside
from calibrant.reporting.palette import BLUE

WIDEST = 20.0
"""By what factor estimates on one axis may differ: of smaller ones nothing would be seen."""
LONGEST = 44
"""Characters of a name beside a chart."""


def metric_of(spec: str) -> Metric | None:
    """What is known of the metric of a spec; nothing of one that another release had."""
    return metrics().get(spec.partition("(")[0])


def family_of(spec: str) -> int:
    """The place of its family in the registry; −1 where it is not known."""
    name = spec.partition("(")[0]
    return next((k for k, family in enumerate(families()) if any(metric.name == name for metric in family)), -1)


def called(spec: str, e: Estimate | None = None) -> str:
    """A spec with the arrow of its direction; where it has no finite value, with what it is instead."""
    metric = metric_of(spec)
    name = elide(plain(spec), LONGEST) + (ARROWS.get(metric.direction, "") if metric else "")
    if e is None or math.isfinite(e.value):
        return name
    return f"{name} ({'undefined' if math.isnan(e.value) else 'infinite'})"


def titled(spec: str) -> str:
    """The title of its metric."""
    metric = metric_of(spec)
    return metric.title if metric else ""


def interval_of(e: Estimate) -> tuple[float | None, float | None]:
    """Both ends, or none where one of them is not finite."""
    return (e.low, e.high) if math.isfinite(e.low) and math.isfinite(e.high) else (None, None)


def band_of(e: Estimate) -> tuple[float | None, float | None]:
    """The null band, or none."""
    known = math.isfinite(e.null_low) and math.isfinite(e.null_high)
    return (e.null_low, e.null_high) if known else (None, None)


def estimate_columns(names: Sequence[str], estimates: Sequence[Estimate]) -> dict[str, list[Any]]:
    """Name, value, interval and number of rows."""
    ends = [interval_of(e) for e in estimates]
    return {
        "name": list(names),
        "value": [e.value for e in estimates],
        "low": [low for low, _ in ends],
        "high": [high for _, high in ends],
        "n": [e.n for e in estimates],
    }


def without_blank(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Only columns in which something is known."""
    return {name: values for name, values in columns.items() if any(x is not None and x == x for x in values)}


# ---------------------------------------------------------------------------------------------- what goes together
def magnitude(e: Estimate) -> float:
    """The largest number that is drawn of an estimate; 0 where none is."""
    numbers = (e.value, *interval_of(e), *band_of(e))
    return max((abs(x) for x in numbers if x is not None and math.isfinite(x)), default=0.0)


def on_one_axis(
    kind: str, specs: Iterable[str], known: Mapping[str, Estimate], widest: float = WIDEST
) -> dict[str, list[str]]:
    """Specs by the kind they are of; where they differ too much in size, by that too, what most are of first."""
    parts: list[list[str]] = []
    for spec in sorted(specs, key=lambda spec: -magnitude(known[spec])):
        size = magnitude(known[spec])
        if size > 0.0 and (not parts or magnitude(known[parts[-1][0]]) > widest * size):
            parts.append([])
        if parts:
            parts[-1].append(spec)
    order = list(known)
    made = [sorted(part, key=order.index) for part in sorted(parts, key=len, reverse=True)]
    if len(made) < 2:
        return {kind: made[0]} if made else {}
    return {f"{kind}, up to {max(magnitude(known[spec]) for spec in part):.2g}": part for part in made}


# ---------------------------------------------------------------------------------------------------------- chart
@chart
def intervals_chart(what: str, zero: bool) -> Any:
    """A row for each estimate: the interval as a line, the value as a dot with its number at the right."""
    alt = altair()
    y, x = names_axis(), alt.X("value:Q", title=None, scale=alt.Scale(zero=zero))
    hover = tips(name__n=what, title__n="metric", value="value", low="interval from", high="to", n__i="rows")
    lines = base().mark_rule(color=BLUE, strokeWidth=5, opacity=0.45, strokeCap="round").encode(
        y=y, x=alt.X("low:Q", title=None), x2="high:Q", tooltip=hover
    )  # fmt: skip
    dots = base().mark_circle(color=BLUE, size=50, opacity=1).encode(y=y, x=x, tooltip=hover)
    return listed(values_beside(y), lines, dots, step=25, beside=64)
