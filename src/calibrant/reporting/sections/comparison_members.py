"""Numbers of members: where models lie on the curve of the pool, what they are worth in its members, CLL over k."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.comparison.records import CllCurve, Equivalent, MeanEquivalent
from calibrant.comparison.result import Comparison
from calibrant.reporting.charting import altair, base, chart, layered, tips
from calibrant.reporting.document import Columns, Figure
from calibrant.reporting.naming import short
from calibrant.reporting.palette import BLUE, INK, ORANGE
from calibrant.reporting.sections.comparison_scopes import ALL, by_scope, controls, model_numbers, scopes
from calibrant.reporting.sections.line_charts import line_rows, lines_chart, lines_drawn, whole_axis
from calibrant.reporting.sections.naming import first_of, labels, numbered

MOST_LEVELS, MOST_LINES = 30, 40
NEAR, TOGETHER = 0.05, 5
"""Shares of a chart within which numbers would lie on each other, and how many are written together."""
POOL, MODEL = "pool", "model"
CENSORED = {"": "within the pool", "below": "worse than one member", "above": "better than the whole pool"}
ON_THE_POOL = (
    "The line is the calibrated log-likelihood of k members of the pool, the mean over random orders, shaded by one "
    "standard deviation. Where a model's level meets it, so many members are as good: its deep-ensemble equivalent, "
    "with its interval. Numbers are those of the first table; triangles lie beyond the pool."
)
WORTH = (
    "How many members of the pool the first k members of a model are worth (figure 2 of Ashukha et al. 2020). On the "
    "dashed line each is worth one; shaded: the mean of the pool more or less a standard deviation."
)
WORTH_HEADS = {
    "name": "model", "x": "its members", "y": "members of the pool", "low": "mean + std reaches it at",
    "high": "mean − std reaches it at", "note": "place",
}  # fmt: skip
CURVES = (
    "Calibrated log-likelihood of the first k members of each model, and of k members of the pool. Higher is better."
)


# --------------------------------------------------------------------------------------------- on the pool
def on_the_pool(comparison: Comparison) -> Figure | None:
    """CLL of the pool against its number of members, and where each model lies on it."""
    known = {scope: each for scope, each in scopes(comparison).items() if _pool(each) is not None and each.equivalents}
    if not known:
        return None
    numbers = model_numbers(comparison)
    count = max(len(each.equivalents) for each in known.values())
    heads = {
        "name": "curve or model", "number": "number of the model", "members": "members of the pool", "cll": "CLL",
        "low": "CLL from", "high": "CLL to", "least": "members from", "most": "members to", "where": "place",
    }  # fmt: skip
    return Figure(
        key="equivalents",
        title="Deep-ensemble equivalents",
        chart=pool_chart(),
        data=by_scope(known, {"": ""}, lambda each, _: _pool_columns(each, numbers)),
        heads=heads,
        said="Calibrated log-likelihood of the pool by its number of members, and the models at their levels",
        caption=ON_THE_POOL + first_of(MOST_LEVELS, count, "models"),
        controls=controls(known, "", {}),
    )


def _pool(comparison: Comparison) -> CllCurve | None:
    """The curve of the pool, where there is more than a point of it."""
    curve = comparison.curves.get(comparison.pool or "")
    return None if curve is None or sum(map(math.isfinite, curve.mean)) < 2 else curve


def _pool_columns(comparison: Comparison, numbers: Mapping[str, int]) -> Columns:
    curve = _pool(comparison)
    rows: list[dict[str, Any]] = []
    for k, mean, std in zip(curve.k, curve.mean, curve.std, strict=True) if curve else ():
        ends = {"low": mean - std, "high": mean + std}
        rows.append({"kind": POOL, "name": f"pool: {short(comparison.pool or '')}", "members": k, "cll": mean, **ends})
    models = [item.model for item in comparison.ranking if item.model in comparison.equivalents][:MOST_LEVELS]
    for name in models:
        found = comparison.equivalents[name]
        row = {"kind": MODEL, "name": short(name), "number": numbers[name], "members": found.value, "cll": found.cll}
        rows.append(row | {"least": found.low, "most": found.high, "where": CENSORED[found.censored]})
    keys = ("kind", "name", "number", "members", "cll", "low", "high", "least", "most", "where")
    return {**{key: [row.get(key) for row in rows] for key in keys}, "written": _written(rows)}


def _written(rows: list[dict[str, Any]]) -> list[str]:
    """The number beside each model; those of models that lie on each other stand together at the first."""
    known = [row["cll"] for row in rows if math.isfinite(row["cll"])]
    ends = [row["members"] for row in rows if math.isfinite(row["members"])]
    height, width = (max(x, default=0.0) - min(x, default=0.0) for x in (known, ends))
    out, first = [""] * len(rows), dict[int, list[int]]()
    for k, row in enumerate(rows):
        if row["kind"] == POOL:
            continue
        near = [j for j in first if abs(rows[j]["cll"] - row["cll"]) <= NEAR * height
                and abs(rows[j]["members"] - row["members"]) <= NEAR * width]  # fmt: skip
        first.setdefault(near[0] if near else k, []).append(row["number"])
    for k, numbers in first.items():
        shown = [str(number) for number in numbers[:TOGETHER]]
        out[k] = ", ".join(shown) + f" +{len(numbers) - TOGETHER}" * (len(numbers) > TOGETHER)
    return out


@chart
def pool_chart() -> Any:
    """The curve with its band, a level for each model, and its number where the level meets the curve."""
    alt = altair()
    free = alt.Scale(zero=False, nice=False)
    x = alt.X("members:Q", title="members of the pool", scale=free, axis=whole_axis())
    y = alt.Y("cll:Q", title="calibrated log-likelihood", scale=alt.Scale(zero=False))
    pool = base().transform_filter(f"datum.kind === '{POOL}'")
    models = base().transform_filter(f"datum.kind === '{MODEL}'")
    hover = tips(name__n="pool", members="members", cll="CLL", low="mean − std", high="mean + std")
    band = pool.mark_area(color=BLUE, opacity=0.16).encode(x=x, y=alt.Y("low:Q", title=""), y2="high:Q")
    line = pool.mark_line(color=BLUE).encode(x=x, y=y)
    dots = pool.mark_point(color=BLUE, opacity=0, size=80).encode(x=x, y=y, tooltip=hover)
    worth = tips(
        number__i="number", name__n="model", members="worth", least="from", most="to", where__n="place", cll="CLL"
    )
    level = models.mark_rule(color=ORANGE, strokeDash=[3, 3], opacity=0.8).encode(x=x, x2=alt.datum(1), y=y)
    interval = models.mark_rule(color=ORANGE, strokeWidth=3, opacity=0.35).encode(
        x=alt.X("least:Q", title=""), x2="most:Q", y=y, tooltip=worth
    )  # fmt: skip
    shapes = alt.Scale(domain=list(CENSORED.values()), range=["circle", "triangle-left", "triangle-right"])
    shape = alt.Shape("where:N", title=None, scale=shapes)
    point = models.mark_point(color=ORANGE, filled=True, opacity=1, size=85).encode(
        x=x, y=y, shape=shape, tooltip=worth
    )
    text = models.mark_text(dy=-11, fontWeight=600, color=INK).encode(x=x, y=y, text="written:N")
    return layered(band, interval, level, line, dots, point, text, height=320)


# ---------------------------------------------------------------------------------------------- equivalents
def equivalents(comparison: Comparison) -> Figure | None:
    """What the first k members of every model are worth; of several data sets, the mean over them first."""
    names = numbered(model_numbers(comparison))
    data: dict[tuple[str, ...], Columns] = {}
    if comparison.mean_equivalents:
        data[(ALL,)] = _worth_columns(comparison.mean_equivalents, names)
    known = {scope: each for scope, each in scopes(comparison).items() if _several(each.equivalent_curves)}
    data |= by_scope(known, {"": ""}, lambda each, _: _worth_columns(each.equivalent_curves, names))
    data = {key: columns for key, columns in data.items() if lines_drawn(columns)}
    if not data:
        return None
    scope = {key[0]: comparison for key in data if key}
    return Figure(
        key="worth",
        title="What members are worth",
        chart=lines_chart("members of the model", "members of the pool", kind="whole", band=True, one_for_one=True),
        data=data,
        heads=WORTH_HEADS,
        said="Members of the pool that the first members of each model are worth",
        caption=WORTH + first_of(MOST_LINES, _lines(comparison), "models"),
        controls=controls(scope, "", {}) if scope else (),
    )


def _lines(comparison: Comparison) -> int:
    """How many models have a curve."""
    every = (comparison, *comparison.datasets.values())
    return len({name for each in every for name, items in each.equivalent_curves.items() if len(items) > 1})


def _several(curves: Mapping[str, tuple[Any, ...]]) -> bool:
    """Whether a curve has more than a point."""
    return any(len(items) > 1 for items in curves.values())


def _worth_columns(
    curves: Mapping[str, tuple[Equivalent, ...] | tuple[MeanEquivalent, ...]], names: Mapping[str, str]
) -> Columns:
    order = [name for name in names if len(curves.get(name, ())) > 1][:MOST_LINES]
    return line_rows({names[name]: [_worth(item) for item in curves[name]] for name in order})


def _worth(item: Equivalent | MeanEquivalent) -> dict[str, Any]:
    if isinstance(item, Equivalent):
        note = CENSORED[item.censored]
    else:
        note = f"mean of {item.datasets} data sets, {item.below} below and {item.above} above the pool"
    return {"x": item.members, "y": item.value, "low": item.lower, "high": item.upper, "note": note}


# --------------------------------------------------------------------------------------------------- curves
def likelihood(comparison: Comparison) -> Figure | None:
    """CLL of the first k members of every model, beside that of the pool."""
    names = numbered(model_numbers(comparison))
    known = {scope: each for scope, each in scopes(comparison).items() if _several(each.equivalent_curves)}
    data = by_scope(known, {"": ""}, lambda each, _: _curve_columns(each, names))
    if not any(lines_drawn(columns) for columns in data.values()):
        return None
    return Figure(
        key="members",
        title="Likelihood by number of members",
        chart=lines_chart("members", "calibrated log-likelihood", kind="whole"),
        data=data,
        heads={"name": "model", "x": "members", "y": "CLL", "note": "members are"},
        said="Calibrated log-likelihood against the number of members, one line a model",
        caption=CURVES + first_of(MOST_LINES, _lines(comparison), "models"),
        controls=controls(known, "", {}),
    )


def _curve_columns(comparison: Comparison, names: Mapping[str, str]) -> Columns:
    curve, curves = _pool(comparison), comparison.equivalent_curves
    lines = {name: [_first_ones(x) for x in curves[name]] for name in names if len(curves.get(name, ())) > 1}
    if curve is not None:
        points = zip(curve.k, curve.mean, strict=True)
        lines[curve.name] = [{"x": k, "y": mean, "note": f"mean of {curve.draws} random orders"} for k, mean in points]
    order = [*names, *(name for name in lines if name not in names)]
    called = {**labels(lines, taken=names.values()), **names}
    return line_rows({called[name]: lines[name] for name in [x for x in order if x in lines][:MOST_LINES]})


def _first_ones(item: Equivalent) -> dict[str, Any]:
    return {"x": item.members, "y": item.cll, "note": "the first ones"}
