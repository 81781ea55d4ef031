"""Lines over a number: one for each column, told apart by colour and by dashes, with values where one points."""

from __future__ import annotations

from typing import Any

from calibrant.reporting.charting import altair, base, chart, layered, tips
from calibrant.reporting.palette import SERIES, SOFT

DASHES = [[1, 0], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 3], [1, 4]]
FEWEST = 2
"""Points that make a line."""
SHORT = 12
"""Characters of names that stand beside each other in a legend, on a phone too."""
Titles = tuple[tuple[str, str], ...]


@chart
def lines_chart(x_title: str, y_title: str, lines: Titles, *, start: bool = False, also: Titles = ()) -> Any:
    """A line for each of these columns over the column x, by the titles that they have beside them.

    start: with a thin line at the height at which they begin. also: other columns that are told where one points.
    """
    alt = altair()
    titles = dict(lines)
    names = list(titles.values())
    shown = "{" + ",".join(f"{column!r}:{title!r}" for column, title in lines) + "}[datum.column]"
    folded = base().transform_fold(list(titles), as_=["column", "value"]).transform_calculate(line=shown)
    x = alt.X("x:Q", axis=alt.Axis(title=x_title, tickCount=6))
    y = alt.Y("value:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title=y_title, tickCount=6))
    beside = 1 if max(map(len, names)) > SHORT else 2
    legend = alt.Legend(title=None, columns=beside, symbolSize=300) if len(names) > 1 else None
    colour = alt.Color("line:N", scale=alt.Scale(domain=names, range=SERIES[: len(names)]), legend=legend)
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=DASHES[: len(names)]), legend=legend)
    drawn = folded.mark_line().encode(x=x, y=y, color=colour, strokeDash=dash)
    hover = tips(**({"line__n": "line"} if len(names) > 1 else {}), x=x_title, value=y_title, **dict(also))
    points = folded.mark_circle(opacity=0, size=90).encode(x=x, y=y, tooltip=hover)
    return layered(*([_level(lines[0][0])] if start else []), drawn, points)


def _level(column: str) -> Any:
    """A thin line at the height at which a column begins."""
    first = base().transform_joinaggregate(first="min(x)").transform_filter("datum.x === datum.first")
    return first.mark_rule(color=SOFT, strokeDash=[4, 4]).encode(y=f"{column}:Q")
