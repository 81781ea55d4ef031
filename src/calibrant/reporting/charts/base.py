"""Building blocks of charts: Altair charts without data, in the style of the report.

A chart is a Vega-Lite specification whose data set is named `rows`; the page adds the numbers. `chart` caches by
function and options, so that a page with a hundred inputs stores each specification once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from calibrant.errors import MissingExtra
from calibrant.reporting.charts.palette import INK, LINE, SOFT, config

if TYPE_CHECKING:
    import altair as alt

DATA = "rows"
WIDTH = 560
"""Width in pixels of a figure in a file; on the page a chart fills its container."""
P = ParamSpec("P")


def altair() -> Any:
    """The Altair module, or the error that names the extra to install."""
    try:
        import altair
    except ImportError as error:
        raise missing("altair") from error
    return altair


def missing(library: str) -> MissingExtra:
    """The error if a library of the extra is not installed."""
    return MissingExtra(
        "report",
        expected="the plotting libraries",
        got=f"{library} is not installed",
        hint="run `pip install 'calibrant[report]'`",
    )


def chart(make: Callable[P, alt.LayerChart | alt.Chart]) -> Callable[P, Mapping[str, Any]]:
    """Turn a function that makes an Altair chart into one that returns its specification, cached by its options."""

    @cache
    def cached(args: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
        spec = make(*args, **dict(options)).to_dict(validate=False)
        spec.pop("config", None)
        spec.pop("usermeta", None)  # differs between releases of Altair
        return {**spec, "data": {"name": DATA}, "config": config()}

    @wraps(make)
    def specification(*args: P.args, **options: P.kwargs) -> Mapping[str, Any]:
        return cached(args, tuple(sorted(options.items())))

    return specification


def base() -> Any:
    """A chart of the named data."""
    alt = altair()
    return alt.Chart(alt.NamedData(DATA))


def layered(*layers: Any, height: int | None = 260) -> Any:
    """Layers on top of each other, as wide as their container."""
    alt = altair()
    return alt.layer(*layers, data=alt.NamedData(DATA)).properties(
        width="container", **({} if height is None else {"height": height})
    )


def list_chart(*layers: Any, step: int, right: int = 5) -> Any:
    """Layers with a row for each name, `step` pixels high, and `right` pixels of margin at the right."""
    alt = altair()
    margins = {"left": 5, "top": 5, "right": right, "bottom": 5}
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return layered(*layers, height=None).properties(height=alt.Step(step), autosize=fit, padding=margins)


def names_axis() -> Any:
    """The axis of names, in the order of the rows."""
    alt = altair()
    axis = alt.Axis(labelColor=INK, labelLimit=200, ticks=False, domain=False, grid=True, gridOpacity=0.5)
    return alt.Y("name:N", sort=None, title=None, axis=axis)


def value_labels(y: Any) -> Any:
    """The value of each row as text at the right. It must be the first layer: it has a mark for every row, also where
    other layers have none, and so fixes the order of the rows."""
    alt = altair()
    text = alt.condition("isValid(datum.value)", alt.Text("value:Q", format=".4~g"), alt.value(""))
    return base().mark_text(align="left", dx=8, color=INK, aria=False).encode(y=y, x=alt.value("width"), text=text)


def diagonal() -> Any:
    """The line of perfect calibration, from (0, 0) to (1, 1)."""
    alt = altair()
    ends = alt.InlineData([{"x": 0, "y": 0}, {"x": 1, "y": 1}])
    return alt.Chart(ends).mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.2).encode(x="x:Q", y="y:Q")


def reference_line(value: float, *, vertical: bool = False) -> Any:
    """A thin line at a value."""
    alt = altair()
    drawn = alt.Chart(alt.InlineData([{"at": value}])).mark_rule(color=SOFT, strokeDash=[5, 4])
    return drawn.encode(x="at:Q") if vertical else drawn.encode(y="at:Q")


def tooltip(**titles: str) -> list[Any]:
    """A tooltip by field: `name__n` is text, `name__i` a whole number, others have four digits."""
    alt = altair()
    out = []
    for field, title in titles.items():
        name, _, kind = field.partition("__")
        number = {"format": ",.0f" if kind == "i" else ".4~g"} if kind != "n" else {}
        out.append(alt.Tooltip(f"{name}:{'N' if kind == 'n' else 'Q'}", title=title, **number))
    return out


def share_axis(title: str) -> Any:
    """An axis from 0 to 1."""
    alt = altair()
    return alt.Axis(title=title, values=[0, 0.2, 0.4, 0.6, 0.8, 1], gridColor=LINE)
