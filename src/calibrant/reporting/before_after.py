"""Charts of two predictions of the same rows: gains with their intervals, values joined, curves over each other."""

from __future__ import annotations

from typing import Any

from calibrant.reporting.charting import altair, base, chart, diagonal, layered, level_line, share_axis, tips
from calibrant.reporting.lines import DASHES
from calibrant.reporting.palette import BLUE, GREEN, GREY, ORANGE, PAPER, SERIES, SOFT

BEFORE, AFTER = "before", "after"
GAINED, LOST, OPEN = "better beyond chance", "worse beyond chance", "within chance"
STEP = 30


@chart
def gain_chart(rows: int) -> Any:
    """Gains with their intervals about 0; which way they point is their shape too."""
    alt = altair()
    y = alt.Y("score:N", sort=None, axis=alt.Axis(title=None, labelLimit=150, grid=False, ticks=False))
    kinds = [GAINED, LOST, OPEN]
    colours, shapes = [GREEN, ORANGE, GREY], ["triangle-right", "triangle-left", "circle"]
    legend = alt.Legend(title=None, columns=2)
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=colours), legend=legend)
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=shapes), legend=legend)
    axis = alt.Axis(title="gain: right of 0 is better", tickCount=6)
    x = alt.X("at:Q", scale=alt.Scale(nice=False, padding=14), axis=axis)
    drawn = base().transform_filter("isValid(datum.at)")
    known = base().transform_filter("isValid(datum.at_low) && isValid(datum.at_high)")
    spans = known.mark_rule(strokeWidth=2.5).encode(x=alt.X("at_low:Q"), x2="at_high:Q", y=y, color=colour)
    hover = tips(
        score__n="score", before="before", after="after", gain="gain", low="interval from", high="to", kind__n="it is",
    )  # fmt: skip
    dots = drawn.mark_point(size=130, filled=True, opacity=1).encode(x=x, y=y, color=colour, shape=shape, tooltip=hover)
    return layered(level_line(0.0, vertical=True), spans, dots, height=STEP * rows)


@chart
def joined_chart(rows: int, title: str) -> Any:
    """Two values of each metric on a line: a ring before, a disc after."""
    alt = altair()
    y = alt.Y("metric:N", sort=None, axis=alt.Axis(title=None, labelLimit=170, grid=True, ticks=False))
    x = alt.X("at:Q", scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(title=title, tickCount=6))
    drawn = base().transform_filter("isValid(datum.at)")
    kinds = [BEFORE, AFTER]
    line = drawn.mark_line(color=SOFT, strokeWidth=1.5).encode(x=x, y=y, detail="metric:N")
    colour = alt.Color("when:N", title=None, scale=alt.Scale(domain=kinds, range=[ORANGE, BLUE]))
    shape = alt.Shape("when:N", title=None, scale=alt.Scale(domain=kinds, range=["circle", "square"]))
    fill = alt.Fill("when:N", title=None, scale=alt.Scale(domain=kinds, range=[PAPER, BLUE]))
    hover = tips(metric__n="metric", when__n="when", value="value", low="interval from", high="to")
    dots = drawn.mark_point(size=85, strokeWidth=2, opacity=1).encode(
        x=x, y=y, color=colour, shape=shape, fill=fill, tooltip=hover
    )  # fmt: skip
    return layered(line, dots, height=STEP * rows)


@chart
def overlaid_chart(x_title: str, y_title: str, *, dots: bool = True) -> Any:
    """Curves before and after over the diagonal, with the band of the one after; dots: whether points are seen."""
    alt = altair()
    whole, kinds = alt.Scale(domain=[0, 1]), [BEFORE, AFTER]
    x = alt.X("x:Q", scale=whole, axis=share_axis(x_title))
    y = alt.Y("y:Q", scale=whole, axis=share_axis(y_title))
    colour = alt.Color("when:N", title=None, scale=alt.Scale(domain=kinds, range=[ORANGE, BLUE]))
    dash = alt.StrokeDash("when:N", title=None, scale=alt.Scale(domain=kinds, range=[[6, 4], [1, 0]]))
    shape = alt.Shape("when:N", title=None, scale=alt.Scale(domain=kinds, range=["circle", "square"]))
    fill = alt.Fill("when:N", title=None, scale=alt.Scale(domain=kinds, range=[PAPER, BLUE]))
    band = base().transform_filter(f"datum.when === '{AFTER}' && isValid(datum.band_low)").mark_rect(
        color=GREY, opacity=0.28
    ).encode(
        x=alt.X("lower:Q", scale=whole, axis=share_axis(x_title)), x2="upper:Q",
        y=alt.Y("band_low:Q", scale=whole, axis=share_axis(y_title)), y2="band_high:Q",
    )  # fmt: skip
    hover = tips(when__n="when", x=x_title, y=y_title, n__i="rows", band_low="if calibrated: from", band_high="to")
    line = base().mark_line().encode(x=x, y=y, color=colour, strokeDash=dash)
    seen = base().mark_point(size=45, strokeWidth=1.8, opacity=1).encode(
        x=x, y=y, color=colour, shape=shape, fill=fill, tooltip=hover
    )  # fmt: skip
    felt = base().mark_circle(size=60, opacity=0).encode(x=x, y=y, tooltip=hover)
    return layered(band, diagonal(), line, seen if dots else felt, height=320)


@chart
def by_size_chart(*, log: bool) -> Any:
    """Improvements against the size of the test set: lines, the spread of one that is alone, and a level."""
    alt = altair()
    kind = {"type": "log"} if log else {"zero": False}
    x = alt.X("size:Q", scale=alt.Scale(nice=False, **kind), axis=alt.Axis(title="rows", tickCount=6))

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", axis=alt.Axis(title="improvement", tickCount=6))

    legend = alt.Legend(title=None, columns=2, labelLimit=130, symbolSize=300, symbolType="stroke")
    colour = alt.Color("metric:N", sort=None, scale=alt.Scale(range=SERIES), legend=legend)
    dash = alt.StrokeDash("metric:N", sort=None, scale=alt.Scale(range=DASHES), legend=legend)
    level = base().transform_aggregate(level="max(level)").mark_rule(color=SOFT, strokeDash=[4, 4]).encode(y=y("level"))
    band = base().mark_area(color=BLUE, opacity=0.16).encode(x=x, y=y("low"), y2="high:Q")
    hover = tips(metric__n="metric", size__i="rows", at="shown", mean="mean improvement", sd="standard deviation")
    line = base().mark_line().encode(x=x, y=y("at"), color=colour, strokeDash=dash)
    dots = base().mark_circle(size=40, opacity=1).encode(
        x=x, y=y("at"), color=colour, strokeDash=dash, tooltip=hover
    )  # fmt: skip
    return layered(level, band, line, dots, height=280)
