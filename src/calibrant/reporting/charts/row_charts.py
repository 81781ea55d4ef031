"""Charts with a row for each model or pair. Names are above their marks, which fits a phone."""

from __future__ import annotations

from typing import Any

from calibrant.reporting.charts.base import altair, base, chart, layered, reference_line, tooltip
from calibrant.reporting.charts.line_charts import whole_axis
from calibrant.reporting.charts.palette import BLUE, GREY, INK, ORANGE, SOFT

STEP, ABOVE, BELOW = 36, -8, 7
"""Pixels of a row, and the offsets of the name and of the marks from its middle."""
SIGNIFICANT, NOT_SIGNIFICANT = "significant", "not significant"
BEFORE, AFTER = "before temperature", "after temperature"


def labelled_rows(*marks: Any, margin: int = 0, once: str = "true") -> Any:
    """Marks below the names of their rows.

    margin: pixels for the text of a row at the right. once: a filter for one record per row, which has the name.
    """
    alt = altair()
    named = base().transform_filter(once)
    text = named.mark_text(
        align="left", yOffset=ABOVE, fontSize=12, color=INK, limit=alt.ExprRef(f"max(40, width - {margin})")
    )
    names = [text.encode(x=alt.value(0), y=row_position(), text="label:N")]
    if margin:
        right = named.mark_text(align="right", yOffset=ABOVE, fontSize=12, color=SOFT)
        names.append(right.encode(x=alt.value("width"), y=row_position(), text="text:N"))
    return layered(*marks, *names, height=None).properties(height=alt.Step(STEP))


def row_position() -> Any:
    """The vertical position of a row, in the order of the data."""
    return altair().Y("label:N", sort=None, axis=None)


def value_axis(field: str, title: str, *, zero: bool = False) -> Any:
    """The horizontal axis."""
    alt = altair()
    return alt.X(f"{field}:Q", title=title, scale=alt.Scale(zero=zero), axis=alt.Axis(tickCount=8, labelOverlap=True))


def _marks(x: Any, of: str, shapes: dict[str, tuple[str, str]], filled: str, hover: Any) -> list[Any]:
    """A point in each row whose kind determines its colour, its shape and whether it is filled."""
    alt = altair()
    colours, forms = ([pair[k] for pair in shapes.values()] for k in (0, 1))
    kinds = list(shapes)
    colour = alt.Color(f"{of}:N", title=None, scale=alt.Scale(domain=kinds, range=colours))
    shape = alt.Shape(f"{of}:N", title=None, scale=alt.Scale(domain=kinds, range=forms))
    point = base().mark_point(size=85, strokeWidth=2, opacity=1, yOffset=BELOW)
    inner = base().mark_point(size=85, filled=True, yOffset=BELOW, color=shapes[filled][0], shape=shapes[filled][1])
    visible = alt.condition(f"datum.{of} === '{filled}'", alt.value(1), alt.value(0))
    drawn = point.encode(x=x, y=row_position(), color=colour, shape=shape, tooltip=hover)
    return [inner.encode(x=x, y=row_position(), opacity=visible), drawn]


# ----------------------------------------------------------------------------------------------- the charts
@chart
def pairs_chart(title: str) -> Any:
    """A difference with its interval in each row, whose shape shows significance, and the line of no difference."""
    alt = altair()
    shapes = {SIGNIFICANT: (BLUE, "diamond"), NOT_SIGNIFICANT: (GREY, "circle")}
    hover = tooltip(
        label__n="first − second", value="difference", low="interval from", high="interval to", p="p (Holm)",
        text__n="verdict",
    )  # fmt: skip
    colour = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(shapes), range=[BLUE, GREY]))
    rule = base().mark_rule(strokeWidth=2.5, yOffset=BELOW)
    interval = rule.encode(
        x=value_axis("low", title, zero=True), x2="high:Q", y=row_position(), color=colour, tooltip=hover
    )
    points = _marks(value_axis("value", title, zero=True), "verdict", shapes, SIGNIFICANT, hover)
    return labelled_rows(reference_line(0.0, vertical=True), interval, *points, margin=90)


@chart
def estimates_chart(title: str, *, intervals: bool = True) -> Any:
    """A value in each row, optionally with its interval."""
    hover = tooltip(label__n="input", value="value", low="interval from", high="interval to")
    rule = base().mark_rule(strokeWidth=2.5, yOffset=BELOW, color=BLUE)
    interval = rule.encode(x=value_axis("low", title), x2="high:Q", y=row_position(), tooltip=hover)
    point = base().mark_point(size=85, shape="diamond", filled=True, opacity=1, yOffset=BELOW, color=BLUE)
    placed = point.encode(x=value_axis("value", title), y=row_position(), tooltip=hover)
    return labelled_rows(*([interval] if intervals else []), placed, margin=70)


@chart
def dumbbell_chart(title: str) -> Any:
    """Two connected values in each row: before (a ring) and after (a filled square)."""
    x = value_axis("value", title)
    hover = tooltip(label__n="model", state__n="NLL", value="value")
    line = base().mark_line(color=SOFT, strokeWidth=1.5, yOffset=BELOW).encode(x=x, y=row_position(), detail="label:N")
    shapes = {BEFORE: (ORANGE, "circle"), AFTER: (BLUE, "square")}
    return labelled_rows(line, *_marks(x, "state", shapes, AFTER, hover), once=f"datum.state === '{BEFORE}'")


@chart
def shares_chart(title: str) -> Any:
    """A bar from 0 to 1 in each row."""
    alt = altair()
    x = alt.X("value:Q", title=title, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=6))
    hover = tooltip(label__n="model", value=title, text__n="rank")
    bar = (
        base().mark_bar(size=9, yOffset=BELOW, color=BLUE).encode(x=x, x2=alt.datum(0), y=row_position(), tooltip=hover)
    )
    return labelled_rows(bar, margin=150)


@chart
def ranks_chart() -> Any:
    """Ranks in each row: a ring for each data set, and their mean as a filled diamond."""
    alt = altair()
    scale = alt.Scale(zero=False, nice=False, padding=12)
    x = alt.X("value:Q", title="rank (1 is best)", scale=scale, axis=whole_axis())
    hover = tooltip(label__n="model", dataset__n="data set", value="rank")
    shapes = {"data set": (BLUE, "circle"), "mean": (ORANGE, "diamond")}
    return labelled_rows(*_marks(x, "kind", shapes, "mean", hover), margin=90, once="datum.kind === 'mean'")
