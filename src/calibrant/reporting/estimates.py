"""Estimates in charts and tables: labels, columns, which of them fit on one axis, and the chart of intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.errors import plain
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import metrics
from calibrant.registry.metric import Metric
from calibrant.render.evaluation import ARROWS
from calibrant.render.formatting import format_interval, format_level, format_number
from calibrant.render.table import Table, elide
from calibrant.reporting.charts.base import altair, base, chart, list_chart, names_axis, tooltip, value_labels
from calibrant.reporting.charts.palette import BLUE
from calibrant.reporting.document import Block, TableBlock
from calibrant.reporting.labels import distinct
from calibrant.reporting.report_data import ResultView
from calibrant.results.evaluation import Result

MAX_RATIO = 20.0
"""The largest ratio of estimates on one axis: much smaller ones would be invisible."""
MAX_LABEL = 44
"""Maximum characters of a label next to a chart."""


def metric_of(spec: str) -> Metric | None:
    """The registry entry of a spec; None if this release does not know the metric."""
    return metrics().get(spec.partition("(")[0])


def spec_label(spec: str, e: Estimate | None = None) -> str:
    """A spec with the arrow of its better direction, and a note if its value is not finite."""
    metric = metric_of(spec)
    name = elide(plain(spec), MAX_LABEL) + (ARROWS.get(metric.direction, "") if metric else "")
    if e is None or math.isfinite(e.value):
        return name
    return f"{name} ({'undefined' if math.isnan(e.value) else 'infinite'})"


def metric_title(spec: str) -> str:
    """The title of its metric."""
    metric = metric_of(spec)
    return metric.title if metric else ""


def finite_interval(e: Estimate) -> tuple[float | None, float | None]:
    """Both ends, or None twice if one of them is not finite."""
    return (e.low, e.high) if math.isfinite(e.low) and math.isfinite(e.high) else (None, None)


def finite_band(e: Estimate) -> tuple[float | None, float | None]:
    """Both ends of the null band, or None twice."""
    return (e.null_low, e.null_high) if math.isfinite(e.null_low) and math.isfinite(e.null_high) else (None, None)


def estimate_columns(
    names: Iterable[str], estimates: Sequence[Estimate], *, bands: bool = False
) -> dict[str, list[Any]]:
    """Name, value, interval and number of rows; with bands, also the null band."""
    columns: dict[str, list[Any]] = {"name": list(names), "value": [e.value for e in estimates]}
    columns["low"], columns["high"] = ([finite_interval(e)[k] for e in estimates] for k in (0, 1))
    columns["n"] = [e.n for e in estimates]
    if bands:
        columns["null_low"], columns["null_high"] = ([finite_band(e)[k] for e in estimates] for k in (0, 1))
    return columns


def spec_columns(result: Result, specs: Sequence[str], *, bands: bool = False) -> dict[str, list[Any]]:
    """The columns of these metrics of a result, with their titles."""
    estimates = [result.metrics[spec] for spec in specs]
    columns = estimate_columns(map(spec_label, specs, estimates), estimates, bands=bands)
    return columns | {"title": [metric_title(spec) for spec in specs]}


def estimate_table(view: ResultView | None, names: Iterable[str], title: str) -> list[Block]:
    """A table of these metrics with any options; empty if the result has none of them."""
    if view is None:
        return []
    known = view.result.metrics
    specs = [spec for name in names for spec in known if spec.partition("(")[0] == name]
    bands = any(math.isfinite(known[spec].null_high) for spec in specs)
    heads = ("metric", "meaning", "value", format_level(float(view.evaluation.settings["level"])), "if calibrated")
    rows = []
    for spec in specs:
        e = known[spec]
        interval, band = format_interval(e.low, e.high), format_interval(e.null_low, e.null_high)
        rows.append((spec_label(spec), metric_title(spec), format_number(e.value), interval, band)[: 4 + bands])
    return [TableBlock(Table(title, heads[: 4 + bands], tuple(rows), left=2))] if rows else []


# ---------------------------------------------------------------------------------------------------- common axes
def split_by_scale(
    kind: str, specs: Iterable[str], known: Mapping[str, Estimate], max_ratio: float = MAX_RATIO
) -> dict[str, list[str]]:
    """Specs that can share an axis, by name of the group; the largest group first.

    Specs are sorted by the largest number drawn for them and cut at the largest ratio of neighbours until no group
    spans more than `max_ratio`.
    """
    order, sizes = list(known), {spec: magnitude(known[spec]) for spec in specs}

    def split(group: list[str]) -> list[list[str]]:
        if len(group) < 2 or sizes[group[0]] <= max_ratio * sizes[group[-1]]:
            return [group] if group else []
        cut = max(range(1, len(group)), key=lambda k: sizes[group[k - 1]] / sizes[group[k]])
        return split(group[:cut]) + split(group[cut:])

    positive = sorted((spec for spec, size in sizes.items() if size > 0.0), key=lambda spec: -sizes[spec])
    groups = sorted(split(positive), key=len, reverse=True)
    if not groups:
        return {}
    groups[0] = groups[0] + [spec for spec, size in sizes.items() if size == 0.0]
    groups = [sorted(group, key=order.index) for group in groups]
    if len(groups) == 1:
        return {kind: groups[0]}
    names = distinct(f"{kind}, up to {max(sizes[spec] for spec in group):.2g}" for group in groups)
    return dict(zip(names, groups, strict=True))


def magnitude(e: Estimate) -> float:
    """The largest number that is drawn for an estimate; 0 if there is none."""
    numbers = (e.value, *finite_interval(e), *finite_band(e))
    return max((abs(x) for x in numbers if x is not None and math.isfinite(x)), default=0.0)


# ---------------------------------------------------------------------------------------------------------- chart
@chart
def intervals_chart(noun: str, zero: bool) -> Any:
    """A row for each estimate: the interval as a line, the value as a dot with its number at the right."""
    alt = altair()
    y, x = names_axis(), alt.X("value:Q", title=None, scale=alt.Scale(zero=zero))
    hover = tooltip(
        name__n=noun, title__n="meaning", value="value", low="interval from", high="interval to", n__i="rows"
    )
    lines = base().mark_rule(color=BLUE, strokeWidth=5, opacity=0.45, strokeCap="round", aria=False).encode(
        y=y, x=alt.X("low:Q", title=None), x2="high:Q", tooltip=hover
    )  # fmt: skip
    dots = base().mark_circle(color=BLUE, size=50, opacity=1).encode(y=y, x=x, tooltip=hover)
    return list_chart(value_labels(y), lines, dots, step=25, right=64)
