"""Charts with a row for each model or pair. Names stand above their marks, not beside them: so they fit a phone too."""

from __future__ import annotations

from typing import Any

from calibrant.reporting.charting import altair, base, chart, layered, level_line, tips
from calibrant.reporting.palette import BLUE, GREY, INK, ORANGE, SOFT
from calibrant.reporting.sections.line_charts import whole_axis

STEP, ABOVE, BELOW = 36, -8, 7
"""Pixels of a row, and how far from its middle the name and the marks are."""
SURE, UNSURE = "beyond chance", "not told apart"
BEFORE, AFTER = "before temperature", "after temperature"


def rowed(*marks: Any, room: int = 0, once: str = "true") -> Any:
    """Marks below the names of their rows.

    room: pixels that what is said of a row takes at its right. once: which of several records of a row has its name.
    """
    alt = altair()
    named = base().transform_filter(once)
    text = named.mark_text(
        align="left", yOffset=ABOVE, fontSize=12, color=INK, limit=alt.ExprRef(f"max(40, width - {room})")
    )
    names = [text.encode(x=alt.value(0), y=of_rows(), text="label:N")]
    if room:
        said = named.mark_text(align="right", yOffset=ABOVE, fontSize=12, color=SOFT)
        names.append(said.encode(x=alt.value("width"), y=of_rows(), text="said:N"))
    return layered(*marks, *names, height=None).properties(height=alt.Step(STEP))


def of_rows() -> Any:
    """The place of a row, in the order of the data."""
    return altair().Y("label:N", sort=None, axis=None)


def along(field: str, title: str, *, zero: bool = False) -> Any:
    """The value that a row shows."""
    alt = altair()
    return alt.X(f"{field}:Q", title=title, scale=alt.Scale(zero=zero), axis=alt.Axis(tickCount=8, labelOverlap=True))


def _marked(x: Any, of: str, shapes: dict[str, tuple[str, str]], filled: str, hover: Any) -> list[Any]:
    """A point in each row: its kind by colour, by shape, and by whether it is filled."""
    alt = altair()
    colours, forms = ([pair[k] for pair in shapes.values()] for k in (0, 1))
    kinds = list(shapes)
    colour = alt.Color(f"{of}:N", title=None, scale=alt.Scale(domain=kinds, range=colours))
    shape = alt.Shape(f"{of}:N", title=None, scale=alt.Scale(domain=kinds, range=forms))
    point = base().mark_point(size=85, strokeWidth=2, opacity=1, yOffset=BELOW)
    inner = base().mark_point(size=85, filled=True, yOffset=BELOW, color=shapes[filled][0], shape=shapes[filled][1])
    seen = alt.condition(f"datum.{of} === '{filled}'", alt.value(1), alt.value(0))
    drawn = point.encode(x=x, y=of_rows(), color=colour, shape=shape, tooltip=hover)
    return [inner.encode(x=x, y=of_rows(), opacity=seen), drawn]


# ----------------------------------------------------------------------------------------------- the charts
@chart
def pairs_chart(title: str) -> Any:
    """A difference with its interval in each row, by shape whether it is beyond chance; the line of no difference."""
    alt = altair()
    shapes = {SURE: (BLUE, "diamond"), UNSURE: (GREY, "circle")}
    hover = tips(label__n="first − second", value="difference", low="from", high="to", p="p (Holm)", said__n="verdict")
    colour = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(shapes), range=[BLUE, GREY]))
    rule = base().mark_rule(strokeWidth=2.5, yOffset=BELOW)
    interval = rule.encode(x=along("low", title, zero=True), x2="high:Q", y=of_rows(), color=colour, tooltip=hover)
    points = _marked(along("value", title, zero=True), "verdict", shapes, SURE, hover)
    return rowed(level_line(0.0, vertical=True), interval, *points, room=90)


@chart
def estimates_chart(title: str, *, intervals: bool = True) -> Any:
    """A value in each row, with its interval where there are any."""
    hover = tips(label__n="input", value="value", low="from", high="to")
    rule = base().mark_rule(strokeWidth=2.5, yOffset=BELOW, color=BLUE)
    interval = rule.encode(x=along("low", title), x2="high:Q", y=of_rows(), tooltip=hover)
    point = base().mark_point(size=85, shape="diamond", filled=True, opacity=1, yOffset=BELOW, color=BLUE)
    placed = point.encode(x=along("value", title), y=of_rows(), tooltip=hover)
    return rowed(*([interval] if intervals else []), placed, room=70)


@chart
def dumbbell_chart(title: str) -> Any:
    """Two values in each row, joined: before (a ring) and after (a filled square)."""
    x = along("value", title)
    hover = tips(label__n="model", state__n="NLL", value="value")
    line = base().mark_line(color=SOFT, strokeWidth=1.5, yOffset=BELOW).encode(x=x, y=of_rows(), detail="label:N")
    shapes = {BEFORE: (ORANGE, "circle"), AFTER: (BLUE, "square")}
    return rowed(line, *_marked(x, "state", shapes, AFTER, hover), once=f"datum.state === '{BEFORE}'")


@chart
def shares_chart(title: str) -> Any:
    """A bar from 0 to 1 in each row."""
    alt = altair()
    x = alt.X("value:Q", title=title, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=6))
    hover = tips(label__n="model", value=title, said__n="rank")
    bar = base().mark_bar(size=9, yOffset=BELOW, color=BLUE).encode(x=x, x2=alt.datum(0), y=of_rows(), tooltip=hover)
    return rowed(bar, room=150)


@chart
def ranks_chart() -> Any:
    """Ranks in each row: a ring for each data set, and their mean as a filled diamond."""
    alt = altair()
    scale = alt.Scale(zero=False, nice=False, padding=12)
    x = alt.X("value:Q", title="rank (1 is the best)", scale=scale, axis=whole_axis())
    hover = tips(label__n="model", dataset__n="data set", value="rank")
    shapes = {"data set": (BLUE, "circle"), "mean": (ORANGE, "diamond")}
    return rowed(*_marked(x, "kind", shapes, "mean", hover), room=90, once="datum.kind === 'mean'")
