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
from calibrant.reporting.naming import distinct
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
    order, sizes = list(known), {spec: magnitude(known[spec]) for spec in specs}
    seen = sorted((spec for spec, size in sizes.items() if size > 0.0), key=lambda spec: -sizes[spec])
    parts = sorted(_apart(seen, sizes, widest), key=len, reverse=True)
    if not parts:
        return {}
    parts[0] = parts[0] + [spec for spec, size in sizes.items() if size == 0.0]
    made = [sorted(part, key=order.index) for part in parts]
    if len(made) == 1:
        return {kind: made[0]}
    names = distinct(f"{kind}, up to {max(sizes[spec] for spec in part):.2g}" for part in made)
    return dict(zip(names, made, strict=True))


def _apart(specs: list[str], sizes: Mapping[str, float], widest: float) -> list[list[str]]:
    """Specs from the largest to the smallest, cut where neighbours differ most until none is too small for its part."""
    if len(specs) < 2 or sizes[specs[0]] <= widest * sizes[specs[-1]]:
        return [specs] if specs else []
    cut = max(range(1, len(specs)), key=lambda k: sizes[specs[k - 1]] / sizes[specs[k]])
    return _apart(specs[:cut], sizes, widest) + _apart(specs[cut:], sizes, widest)


# ---------------------------------------------------------------------------------------------------------- chart
@chart
def intervals_chart(what: str, zero: bool) -> Any:
    """A row for each estimate: the interval as a line, the value as a dot with its number at the right."""
    alt = altair()
    y, x = names_axis(), alt.X("value:Q", title=None, scale=alt.Scale(zero=zero))
    hover = tips(name__n=what, title__n="metric", value="value", low="interval from", high="to", n__i="rows")
    lines = base().mark_rule(color=BLUE, strokeWidth=5, opacity=0.45, strokeCap="round", aria=False).encode(
        y=y, x=alt.X("low:Q", title=None), x2="high:Q", tooltip=hover
    )  # fmt: skip
    dots = base().mark_circle(color=BLUE, size=50, opacity=1).encode(y=y, x=x, tooltip=hover)
    return listed(values_beside(y), lines, dots, step=25, beside=64)
