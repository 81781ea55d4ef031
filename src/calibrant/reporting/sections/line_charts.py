"""Charts of lines: a value against a number, one line a model, told apart by colour, dashes and shapes of points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.reporting.charting import altair, base, chart, layered, share_axis, tips
from calibrant.reporting.palette import SERIES, SOFT
from calibrant.reporting.sections.naming import coloured

DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 3], [4, 2, 1, 2], [1, 3]]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke"]
ROUND = (
    "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0 "
    "? format(datum.value, ',') : ''"
)
"""Of a logarithmic axis 1, 2 and 5 times the powers of ten have labels."""
WHOLE = "datum.value % 1 || datum.value < 1 ? '' : format(datum.value, 'd')"
"""Of an axis of counts and ranks the whole numbers from 1 on have labels."""
BLANK = ("low", "high", "note")


def line_rows(lines: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """The columns of a chart of lines from the points of each: x, y, and where they are known low, high and note."""
    colours = coloured(list(lines))
    places = {label: k for k, label in enumerate(dict.fromkeys(colours.values()))}
    rows = [
        {"name": label, "legend": colours[label], "place": places[colours[label]], **point}
        for label, points in lines.items()
        for point in points
    ]
    keys = dict.fromkeys(("name", "legend", "place", "x", "y", *BLANK, *(key for row in rows for key in row)))
    return {key: [row.get(key) for row in rows] for key in keys}


def lines_drawn(data: Mapping[str, Sequence[Any]]) -> bool:
    """Whether there is anything to draw."""
    return any(value is not None and math.isfinite(value) for value in data["y"])


@chart
def lines_chart(
    across: str,
    up: str,
    *,
    kind: str = "linear",
    band: bool = False,
    share: bool = False,
    ranks: bool = False,
    one_for_one: bool = False,
    legend: bool = True,
    height: int = 300,
) -> Any:
    """Lines with points; kind: how what is below lies, `linear`, `whole`, `log`, `ordered` or `steps`, which are names.

    band: shaded from low to high. share: the values are from 0 to 1. ranks: 1 is on top. one_for_one: with the line on
    which the value is the number below it. legend: whether lines are named, as one alone need not be.
    """
    alt = altair()
    x = _across(across, kind)
    y = _up(up, share=share, ranks=ranks)
    by = {"sort": None, "title": None, "legend": alt.Legend(columns=1) if legend else None}  # alike: one legend of all
    stroke = alt.Stroke("legend:N", scale=alt.Scale(range=SERIES), **by)
    dash = alt.StrokeDash("place:N", sort=None, scale=alt.Scale(range=DASHES), legend=None)
    fill = alt.Fill("legend:N", scale=alt.Scale(range=SERIES), **by)
    shape = alt.Shape("legend:N", scale=alt.Scale(range=SHAPES), **by)
    hover = [*tips(name__n="line"), *tips(x=across, y=up, low="from", high="to", note__n="note")]
    seen = alt.condition("datum.legend === datum.name", alt.value(1), alt.value(0.45))
    line = base().mark_line(invalid="filter").encode(
        x=x, y=y, stroke=stroke, strokeDash=dash, detail="name:N", opacity=seen
    )  # fmt: skip
    size = alt.value(alt.ExprRef("100 - 11 * datum.place"))  # the earlier ones are seen below the later
    point = base().mark_point(filled=True, opacity=1, invalid="filter")
    layers = [line, point.encode(x=x, y=y, fill=fill, shape=shape, size=size, tooltip=hover)]
    if band:
        shade = alt.Color("place:N", sort=None, scale=alt.Scale(range=SERIES), legend=None)
        area = base().mark_area(opacity=0.14, clip=True)
        layers.insert(0, area.encode(x=x, y=alt.Y("low:Q", title=up), y2="high:Q", color=shade, detail="name:N"))
    if one_for_one:
        same = base().mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.2)
        layers.insert(0, same.encode(x=x, y=alt.Y("x:Q", title=up)))
    return layered(*layers, height=height)


def whole_axis() -> Any:
    """An axis of whole numbers; a short one would have labels between them."""
    return altair().Axis(tickMinStep=1, labelOverlap=True, labelExpr=WHOLE)


def _across(title: str, kind: str) -> Any:
    alt = altair()
    if kind == "steps":
        return alt.X("x:N", sort=None, title=title, axis=alt.Axis(labelAngle=0, labelOverlap=True))
    if kind == "ordered":
        return alt.X("x:O", title=title, axis=alt.Axis(labelAngle=0))
    if kind == "log":
        axis = alt.Axis(labelExpr=ROUND, labelOverlap=True)
        return alt.X("x:Q", title=title, scale=alt.Scale(type="log", nice=False), axis=axis)
    axis = whole_axis() if kind == "whole" else alt.Axis(labelOverlap=True)
    return alt.X("x:Q", title=title, scale=alt.Scale(zero=False, nice=False), axis=axis)


def _up(title: str, *, share: bool, ranks: bool) -> Any:
    alt = altair()
    if share:
        return alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis(title))
    if ranks:
        scale = alt.Scale(zero=False, reverse=True, nice=False, padding=8)
        return alt.Y("y:Q", title=title, scale=scale, axis=whole_axis())
    return alt.Y("y:Q", title=title, scale=alt.Scale(zero=False))
