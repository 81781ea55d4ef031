"""What charts are drawn with: Altair, made without data, in the look of the report.

A chart is a Vega-Lite specification whose data is named `rows`; the numbers come later. Charts that are alike are made
once (`chart` caches by function and options), so that a page with a hundred inputs holds each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from calibrant.errors import MissingExtra
from calibrant.reporting.palette import INK, LINE, SOFT, config

if TYPE_CHECKING:
    import altair as alt

DATA = "rows"
WIDTH = 560
"""Pixels of a figure that is a file; on the page a chart is as wide as its place."""
P = ParamSpec("P")


def altair() -> Any:
    """The library that charts are written in."""
    try:
        import altair
    except ImportError as error:
        raise missing("altair") from error
    return altair


def missing(library: str) -> MissingExtra:
    """What is said where the extra is not installed."""
    return MissingExtra(
        "report",
        expected="the libraries that charts are drawn with",
        came=f"{library} is not installed",
        do="run `pip install 'calibrant[report]'`",
    )


def chart(make: Callable[P, alt.LayerChart | alt.Chart]) -> Callable[P, Mapping[str, Any]]:
    """A function that makes an Altair chart, as one that gives its specification; made once for the same options."""

    @wraps(make)
    def made(*args: P.args, **options: P.kwargs) -> Mapping[str, Any]:
        return known(args, tuple(sorted(options.items())))

    @cache
    def known(args: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
        return specification(make(*args, **dict(options)))

    return made


def specification(drawn: alt.LayerChart | alt.Chart) -> Mapping[str, Any]:
    """The chart as plain data, without what differs from release to release of the library."""
    spec = drawn.to_dict(validate=False)
    spec.pop("config", None)
    spec.pop("usermeta", None)
    return {**spec, "data": {"name": DATA}, "config": config()}


def base() -> Any:
    """A chart of the named data."""
    alt = altair()
    return alt.Chart(alt.NamedData(DATA))


def layered(*layers: Any, height: int | None = 260) -> Any:
    """Layers over each other, as wide as their place."""
    alt = altair()
    drawn = alt.layer(*layers, data=alt.NamedData(DATA))
    return drawn.properties(width="container", **({} if height is None else {"height": height}))


def listed(*layers: Any, step: int, beside: int = 5) -> Any:
    """Layers with a row for each name, so high; `beside` are the pixels that are kept free at the right."""
    alt = altair()
    room = {"left": 5, "top": 5, "right": beside, "bottom": 5}
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return layered(*layers, height=None).properties(height=alt.Step(step), autosize=fit, padding=room)


def names_axis(limit: int = 200) -> Any:
    """The axis of a list of names, in the order of the rows."""
    alt = altair()
    axis = alt.Axis(labelColor=INK, labelLimit=limit, ticks=False, domain=False, grid=True, gridOpacity=0.5)
    return alt.Y("name:N", sort=None, title=None, axis=axis)


def values_beside(y: Any) -> Any:
    """The value of each row of a list, at the right. As the first layer it keeps the order of the rows: it leaves none
    out, as marks do that have no place."""
    alt = altair()
    text = alt.condition("isValid(datum.value)", alt.Text("value:Q", format=".4~g"), alt.value(""))
    return base().mark_text(align="left", dx=8, color=INK, aria=False).encode(y=y, x=alt.value("width"), text=text)


def diagonal() -> Any:
    """The line on which what is said and what happens agree, from (0, 0) to (1, 1)."""
    alt = altair()
    ends = alt.InlineData([{"x": 0, "y": 0}, {"x": 1, "y": 1}])
    return alt.Chart(ends).mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.2).encode(x="x:Q", y="y:Q")


def level_line(value: float, *, vertical: bool = False) -> Any:
    """A thin line at a value."""
    alt = altair()
    drawn = alt.Chart(alt.InlineData([{"at": value}])).mark_rule(color=SOFT, strokeDash=[5, 4])
    return drawn.encode(x="at:Q") if vertical else drawn.encode(y="at:Q")


def tips(**titles: str) -> list[Any]:
    """What is shown where one points: the fields with their titles, numbers in four digits."""
    alt = altair()
    out = []
    for field, title in titles.items():
        name, _, kind = field.partition("__")
        kind = {"": "Q", "n": "N", "i": "I"}[kind]
        if kind == "I":
            out.append(alt.Tooltip(f"{name}:Q", title=title, format=",.0f"))
        else:
            form = {"format": ".4~g"} if kind == "Q" else {}
            out.append(alt.Tooltip(f"{name}:{kind}", title=title, **form))
    return out


def share_axis(title: str) -> Any:
    """An axis from 0 to 1."""
    alt = altair()
    return alt.Axis(title=title, values=[0, 0.2, 0.4, 0.6, 0.8, 1], gridColor=LINE)
