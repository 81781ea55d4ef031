"""Charts by number of members: deep-ensemble equivalents, and calibrated log-likelihood of the first k members."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.reporting.charts.base import altair, base, chart, layered, tooltip
from calibrant.reporting.charts.line_charts import has_points, line_rows, lines_chart, whole_axis
from calibrant.reporting.charts.palette import BLUE, INK, ORANGE
from calibrant.reporting.document import Choices, Columns, Figure
from calibrant.reporting.labels import first_of, labels, numbered_labels, short
from calibrant.reporting.sections.comparison.models import ALL, all_model_numbers, by_scope, controls, scopes
from calibrant.results.comparison import CllCurve, Comparison, Equivalent, MeanEquivalent

MAX_LEVELS, MAX_LINES = 30, 40
MIN_DISTANCE, MAX_NUMBERS = 0.05, 5
"""The distance of labels as a share of the chart below which they are merged, and the most numbers of one label."""
POOL, MODEL = "pool", "model"
CENSORED = {"": "within the pool", "below": "worse than one member", "above": "better than the whole pool"}
EQUIVALENTS = (
    "Line: calibrated log-likelihood of k members of the pool, mean over random orders; shaded: one standard "
    "deviation. A model's level crosses it at its deep-ensemble equivalent, the number of members that are as good, "
    "shown with its interval. Numbers are those of the first table; triangles lie outside the range of the pool."
)
POOL_HEADS = {
    "name": "curve or model", "number": "model number", "members": "members of the pool", "cll": "CLL",
    "low": "CLL from", "high": "CLL to", "least": "members from", "most": "members to", "where": "position",
}  # fmt: skip
BY_MEMBERS = (
    "Deep-ensemble equivalent of the first k members of each model (figure 2 of Ashukha et al. 2020). On the dashed "
    "line each member is as good as one of the pool. Shaded: pool mean ± one standard deviation."
)
BY_MEMBERS_HEADS = {
    "name": "model", "x": "its members", "y": "members of the pool", "low": "at mean + std",
    "high": "at mean − std", "note": "position",
}  # fmt: skip
CURVES = (
    "Calibrated log-likelihood of the first k members of each model and of k members of the pool. Higher is better."
)


# --------------------------------------------------------------------------------------------- equivalents
def equivalents(comparison: Comparison) -> Figure | None:
    """CLL of the pool against its number of members, and the equivalent of each model."""
    known = {scope: each for scope, each in scopes(comparison).items() if _pool(each) is not None and each.equivalents}
    if not known:
        return None
    numbers = all_model_numbers(comparison)

    def columns(each: Comparison, _: str) -> Columns:
        curve, rows = _pool(each), list[dict[str, Any]]()
        for k, mean, std in zip(curve.k, curve.mean, curve.std, strict=True) if curve else ():
            row = {"kind": POOL, "name": f"pool: {short(each.pool or '')}", "members": k, "cll": mean}
            rows.append(row | {"low": mean - std, "high": mean + std})
        for name in [item.model for item in each.ranking if item.model in each.equivalents][:MAX_LEVELS]:
            own = each.equivalents[name]
            row = {"kind": MODEL, "name": short(name), "number": numbers[name], "members": own.value, "cll": own.cll}
            rows.append(row | {"least": own.low, "most": own.high, "where": CENSORED[own.censored]})
        return {**{key: [row.get(key) for row in rows] for key in ("kind", *POOL_HEADS)}, "text": _numbers(rows)}

    count = max(len(each.equivalents) for each in known.values())
    return Figure(
        key="equivalents",
        title="Deep-ensemble equivalents",
        chart=pool_chart(),
        data=by_scope(known, {"": ""}, columns),
        heads=POOL_HEADS,
        description="Calibrated log-likelihood of the pool by its number of members, and the models at their levels",
        caption=EQUIVALENTS + first_of(MAX_LEVELS, count, "models"),
        controls=controls(known, "", {}),
    )


def _pool(comparison: Comparison) -> CllCurve | None:
    """The curve of the pool, if it has more than one point."""
    curve = comparison.curves.get(comparison.pool or "")
    return None if curve is None or sum(map(math.isfinite, curve.mean)) < 2 else curve


def _numbers(rows: list[dict[str, Any]]) -> list[str]:
    """The number next to each model; overlapping numbers are merged at the first of them."""
    known = [row["cll"] for row in rows if math.isfinite(row["cll"])]
    ends = [row["members"] for row in rows if math.isfinite(row["members"])]
    height, width = (max(x, default=0.0) - min(x, default=0.0) for x in (known, ends))
    out, first = [""] * len(rows), dict[int, list[int]]()
    for k, row in enumerate(rows):
        if row["kind"] == POOL:
            continue
        near = [j for j in first if abs(rows[j]["cll"] - row["cll"]) <= MIN_DISTANCE * height
                and abs(rows[j]["members"] - row["members"]) <= MIN_DISTANCE * width]  # fmt: skip
        first.setdefault(near[0] if near else k, []).append(row["number"])
    for k, numbers in first.items():
        shown = [str(number) for number in numbers[:MAX_NUMBERS]]
        out[k] = ", ".join(shown) + f" +{len(numbers) - MAX_NUMBERS}" * (len(numbers) > MAX_NUMBERS)
    return out


@chart
def pool_chart() -> Any:
    """The curve with its band, a level for each model, and its number where the level crosses the curve."""
    alt = altair()
    free = alt.Scale(zero=False, nice=False)
    x = alt.X("members:Q", title="members of the pool", scale=free, axis=whole_axis())
    y = alt.Y("cll:Q", title="calibrated log-likelihood", scale=alt.Scale(zero=False))
    pool = base().transform_filter(f"datum.kind === '{POOL}'")
    models = base().transform_filter(f"datum.kind === '{MODEL}'")
    hover = tooltip(name__n="pool", members="members", cll="CLL", low="mean − std", high="mean + std")
    band = pool.mark_area(color=BLUE, opacity=0.16).encode(x=x, y=alt.Y("low:Q", title=""), y2="high:Q")
    line = pool.mark_line(color=BLUE).encode(x=x, y=y)
    dots = pool.mark_point(color=BLUE, opacity=0, size=80).encode(x=x, y=y, tooltip=hover)
    model_hover = tooltip(
        number__i="number", name__n="model", members="equivalent", least="interval from", most="interval to",
        where__n="position", cll="CLL",
    )  # fmt: skip
    level = models.mark_rule(color=ORANGE, strokeDash=[3, 3], opacity=0.8).encode(x=x, x2=alt.datum(1), y=y)
    interval = models.mark_rule(color=ORANGE, strokeWidth=3, opacity=0.35).encode(
        x=alt.X("least:Q", title=""), x2="most:Q", y=y, tooltip=model_hover
    )  # fmt: skip
    shapes = alt.Scale(domain=list(CENSORED.values()), range=["circle", "triangle-left", "triangle-right"])
    shape = alt.Shape("where:N", title=None, scale=shapes)
    point = models.mark_point(color=ORANGE, filled=True, opacity=1, size=85).encode(
        x=x, y=y, shape=shape, tooltip=model_hover
    )
    text = models.mark_text(dy=-11, fontWeight=600, color=INK).encode(x=x, y=y, text="text:N")
    return layered(band, interval, level, line, dots, point, text, height=320)


# ---------------------------------------------------------------------------------- equivalents by members
def equivalents_by_members(comparison: Comparison) -> Figure | None:
    """The equivalent of the first k members of every model; for several data sets, their mean first."""
    names = numbered_labels(all_model_numbers(comparison))
    data: Choices = {}
    if comparison.mean_equivalents:
        data[(ALL,)] = _equivalent_columns(comparison.mean_equivalents, names)
    known = {scope: each for scope, each in scopes(comparison).items() if _several(each.equivalent_curves)}
    data |= by_scope(known, {"": ""}, lambda each, _: _equivalent_columns(each.equivalent_curves, names))
    data = {key: columns for key, columns in data.items() if has_points(columns)}
    if not data:
        return None
    scope = {key[0]: comparison for key in data if key}
    return Figure(
        key="equivalents-by-members",
        title="Equivalents by number of members",
        chart=lines_chart("members of the model", "members of the pool", kind="whole", band=True, one_for_one=True),
        data=data,
        heads=BY_MEMBERS_HEADS,
        description="Deep-ensemble equivalent of the first k members of each model",
        caption=BY_MEMBERS + first_of(MAX_LINES, _count_curves(comparison), "models"),
        controls=controls(scope, "", {}) if scope else (),
    )


def _count_curves(comparison: Comparison) -> int:
    """The number of models with a curve."""
    every = (comparison, *comparison.datasets.values())
    return len({name for each in every for name, items in each.equivalent_curves.items() if len(items) > 1})


def _several(curves: Mapping[str, tuple[Any, ...]]) -> bool:
    """Whether any curve has more than one point."""
    return any(len(items) > 1 for items in curves.values())


def _equivalent_columns(
    curves: Mapping[str, tuple[Equivalent, ...] | tuple[MeanEquivalent, ...]], names: Mapping[str, str]
) -> Columns:
    def point(item: Equivalent | MeanEquivalent) -> dict[str, Any]:
        if isinstance(item, Equivalent):
            note = CENSORED[item.censored]
        else:
            note = f"mean of {item.datasets} data sets, {item.below} below and {item.above} above the pool"
        return {"x": item.members, "y": item.value, "low": item.lower, "high": item.upper, "note": note}

    order = [name for name in names if len(curves.get(name, ())) > 1][:MAX_LINES]
    return line_rows({names[name]: [point(item) for item in curves[name]] for name in order})


# --------------------------------------------------------------------------------------------------- curves
def likelihood(comparison: Comparison) -> Figure | None:
    """CLL of the first k members of every model and of the pool."""
    names = numbered_labels(all_model_numbers(comparison))
    known = {scope: each for scope, each in scopes(comparison).items() if _several(each.equivalent_curves)}

    def columns(each: Comparison, _: str) -> Columns:
        curve, curves = _pool(each), each.equivalent_curves
        lines = {
            name: [{"x": item.members, "y": item.cll, "note": "first members"} for item in curves[name]]
            for name in names
            if len(curves.get(name, ())) > 1
        }
        if curve is not None:
            note = f"mean of {curve.draws} random orders"
            lines[curve.name] = [{"x": k, "y": y, "note": note} for k, y in zip(curve.k, curve.mean, strict=True)]
        order = [*names, *(name for name in lines if name not in names)]
        shown = {**labels(lines, taken=names.values()), **names}
        return line_rows({shown[name]: lines[name] for name in [x for x in order if x in lines][:MAX_LINES]})

    data = by_scope(known, {"": ""}, columns)
    if not any(has_points(columns) for columns in data.values()):
        return None
    return Figure(
        key="members",
        title="Likelihood by number of members",
        chart=lines_chart("members", "calibrated log-likelihood", kind="whole"),
        data=data,
        heads={"name": "model", "x": "members", "y": "CLL", "note": "order"},
        description="Calibrated log-likelihood against the number of members, one line per model",
        caption=CURVES + first_of(MAX_LINES, _count_curves(comparison), "models"),
        controls=controls(known, "", {}),
    )
