"""Line charts; lines are distinguished by colour and by dashes or the shapes of points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.reporting.charts.base import altair, base, chart, layered, share_axis, tooltip
from calibrant.reporting.charts.palette import SERIES, SOFT
from calibrant.reporting.labels import COLOURED, MAX_COLOURS, OTHERS

DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 3], [4, 2, 1, 2], [1, 3]]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke"]
ROUND = (
    "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0 "
    "? format(datum.value, ',') : ''"
)
"""Labels of a logarithmic axis: 1, 2 and 5 times powers of ten."""
WHOLE = "datum.value % 1 || datum.value < 1 ? '' : format(datum.value, 'd')"
"""Labels of an axis of counts or ranks: whole numbers from 1."""
BLANK = ("low", "high", "note")
MIN_POINTS = 2
"""Points that make a line."""
SHORT = 12
"""Maximum characters of names in two columns of a legend, which must fit a phone."""
Titles = tuple[tuple[str, str], ...]


def line_rows(lines: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """The columns of a line chart from the points of each line: x, y and optionally low, high and note."""
    coloured = len(lines) if len(lines) <= MAX_COLOURS else COLOURED  # the others share one entry of the legend
    colours = {label: label if k < coloured else OTHERS for k, label in enumerate(lines)}
    places = {label: k for k, label in enumerate(dict.fromkeys(colours.values()))}
    rows = [
        {"name": label, "legend": colours[label], "place": places[colours[label]], **point}
        for label, points in lines.items()
        for point in points
    ]
    keys = dict.fromkeys(("name", "legend", "place", "x", "y", *BLANK, *(key for row in rows for key in row)))
    return {key: [row.get(key) for row in rows] for key in keys}


def has_points(data: Mapping[str, Sequence[Any]]) -> bool:
    """Whether any point is finite."""
    return any(value is not None and math.isfinite(value) for value in data["y"])


@chart
def lines_chart(
    x_title: str,
    y_title: str,
    *,
    kind: str = "linear",
    band: bool = False,
    share: bool = False,
    ranks: bool = False,
    one_for_one: bool = False,
    legend: bool = True,
    height: int = 300,
) -> Any:
    """Lines with points, from the columns of `line_rows`.

    kind: the scale of x, `linear`, `whole`, `log`, `ordered` or `steps` (names). band: shade from low to high. share:
    values from 0 to 1. ranks: 1 is at the top. one_for_one: with the line y = x. legend: whether lines are named.
    """
    alt = altair()
    free = alt.Scale(zero=False, nice=False)
    axes = {
        "steps": alt.X("x:N", sort=None, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        "ordered": alt.X("x:O", axis=alt.Axis(labelAngle=0)),
        "log": alt.X("x:Q", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(labelExpr=ROUND, labelOverlap=True)),
        "whole": alt.X("x:Q", scale=free, axis=whole_axis()),
        "linear": alt.X("x:Q", scale=free, axis=alt.Axis(labelOverlap=True)),
    }
    x = axes[kind].title(x_title)
    if share:
        y = alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis(y_title))
    elif ranks:
        scale = alt.Scale(zero=False, reverse=True, nice=False, padding=8)
        y = alt.Y("y:Q", title=y_title, scale=scale, axis=whole_axis())
    else:
        y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    by = {"sort": None, "title": None, "legend": alt.Legend(columns=1) if legend else None}  # equal: a shared legend
    stroke = alt.Stroke("legend:N", scale=alt.Scale(range=SERIES), **by)
    dash = alt.StrokeDash("place:N", sort=None, scale=alt.Scale(range=DASHES), legend=None)
    fill = alt.Fill("legend:N", scale=alt.Scale(range=SERIES), **by)
    shape = alt.Shape("legend:N", scale=alt.Scale(range=SHAPES), **by)
    hover = [*tooltip(name__n="line"), *tooltip(x=x_title, y=y_title, low="lower", high="upper", note__n="details")]
    opacity = alt.condition("datum.legend === datum.name", alt.value(1), alt.value(0.45))
    line = base().mark_line(invalid="filter").encode(
        x=x, y=y, stroke=stroke, strokeDash=dash, detail="name:N", opacity=opacity
    )  # fmt: skip
    size = alt.value(alt.ExprRef("100 - 11 * datum.place"))  # earlier points stay visible below later ones
    point = base().mark_point(filled=True, opacity=1, invalid="filter")
    layers = [line, point.encode(x=x, y=y, fill=fill, shape=shape, size=size, tooltip=hover)]
    if band:
        shade = alt.Color("place:N", sort=None, scale=alt.Scale(range=SERIES), legend=None)
        area = base().mark_area(opacity=0.14, clip=True)
        layers.insert(0, area.encode(x=x, y=alt.Y("low:Q", title=y_title), y2="high:Q", color=shade, detail="name:N"))
    if one_for_one:
        same = base().mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.2)
        layers.insert(0, same.encode(x=x, y=alt.Y("x:Q", title=y_title)))
    return layered(*layers, height=height)


def whole_axis() -> Any:
    """An axis of whole numbers, without labels between them on a short axis."""
    return altair().Axis(tickMinStep=1, labelOverlap=True, labelExpr=WHOLE)


@chart
def column_lines_chart(x_title: str, y_title: str, lines: Titles, *, start: bool = False, also: Titles = ()) -> Any:
    """A line for each of these columns over the column x, named by its title.

    start: with a thin line at the first value. also: other columns of the tooltip.
    """
    alt = altair()
    titles = dict(lines)
    names = list(titles.values())
    shown = "{" + ",".join(f"{column!r}:{title!r}" for column, title in lines) + "}[datum.column]"
    folded = base().transform_fold(list(titles), as_=["column", "value"]).transform_calculate(line=shown)
    x = alt.X("x:Q", axis=alt.Axis(title=x_title, tickCount=6))
    y = alt.Y("value:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title=y_title, tickCount=6))
    columns = 1 if max(map(len, names)) > SHORT else 2
    legend = alt.Legend(title=None, columns=columns, symbolSize=300) if len(names) > 1 else None
    colour = alt.Color("line:N", scale=alt.Scale(domain=names, range=SERIES[: len(names)]), legend=legend)
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=DASHES[: len(names)]), legend=legend)
    drawn = folded.mark_line().encode(x=x, y=y, color=colour, strokeDash=dash)
    hover = tooltip(**({"line__n": "line"} if len(names) > 1 else {}), x=x_title, value=y_title, **dict(also))
    points = folded.mark_circle(opacity=0, size=90).encode(x=x, y=y, tooltip=hover)
    if not start:
        return layered(drawn, points)
    first = base().transform_joinaggregate(first="min(x)").transform_filter("datum.x === datum.first")
    level = first.mark_rule(color=SOFT, strokeDash=[4, 4]).encode(y=f"{lines[0][0]}:Q")
    return layered(level, drawn, points)
