"""How figures 3, 4, 5 and 10 are drawn: Altair charts without numbers, in the look of reports."""

from __future__ import annotations

from typing import Any

from calibrant.bench.gopal.data import HIGH, LOW
from calibrant.reporting.charting import DATA, altair, base, chart
from calibrant.reporting.palette import BLUE, GREY, INK, LINE, SERIES, SOFT

ROWS, TRUTH = "training rows", "truth"
RED = "#c00000"
PANEL, HIGH_PANEL, BOX = 250, 240, 34
"""Pixels: width and height of a panel, width of a box."""
DECADES = [10.0**k for k in range(-6, 4)]
CROSS = "M-1,-1L1,1M-1,1L1,-1"


def _x() -> Any:
    alt = altair()
    return alt.X("x:Q", scale=alt.Scale(nice=False, zero=False), axis=alt.Axis(title="x", tickCount=6))


def _y(field: str = "y") -> Any:
    alt = altair()
    return alt.Y(f"{field}:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title="y", tickCount=6))


def _without_rows() -> Any:
    """The region that training never sees, shaded."""
    alt = altair()
    ends = alt.Chart(alt.InlineData([{"from": LOW, "to": HIGH}]))
    return ends.mark_rect(color=LINE, opacity=0.6).encode(x="from:Q", x2="to:Q")


def _truth() -> Any:
    """The line of the truth, over all others."""
    kept = _panel().transform_filter(f"datum.function === '{TRUTH}'")
    return kept.mark_line(color=INK, strokeWidth=2, strokeDash=[5, 3]).encode(x=_x(), y=_y())


def _panel() -> Any:
    """A layer of a panel: it has no data of its own, so that it gets the rows of its panel."""
    return altair().Chart()


def _faceted(layers: list[Any], panels: tuple[str, ...], columns: int) -> Any:
    alt = altair()
    drawn = alt.layer(*layers, data=alt.NamedData(DATA)).properties(width=PANEL, height=HIGH_PANEL)
    head = alt.Header(title=None, labelColor=INK, labelFontSize=12, labelLimit=PANEL)
    return drawn.facet(facet=alt.Facet("panel:N", sort=list(panels), header=head), columns=columns)


@chart
def means_chart(models: tuple[str, ...]) -> Any:
    """Figure 3: rows as points, means as lines."""
    alt = altair()
    points = base().transform_filter(f"datum.line === '{ROWS}'").mark_circle(color=GREY, size=12, opacity=0.45)
    names = [*models, TRUTH]
    colours = alt.Scale(domain=names, range=[*SERIES[: len(models)], INK])
    dashes = alt.Scale(domain=names, range=[[1, 0], [7, 3], [2, 3]])
    lines = base().transform_filter(f"datum.line !== '{ROWS}'").mark_line(strokeWidth=2)
    drawn = lines.encode(
        x=_x(), y=_y(), color=alt.Color("line:N", scale=colours, legend=alt.Legend(title=None)),
        strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=alt.Legend(title=None)),
    )  # fmt: skip
    return alt.layer(_without_rows(), points.encode(x=_x(), y=_y()), drawn).properties(width=560, height=320)


@chart
def functions_chart(panels: tuple[str, ...]) -> Any:
    """Figure 4: a thin line for each function, a panel for each reading."""
    thin = _panel().transform_filter(f"datum.function !== '{TRUTH}'").mark_line(color=BLUE, strokeWidth=1, opacity=0.6)
    layers = [thin.encode(x=_x(), y=_y(), detail="function:N"), _truth()]
    return _faceted(layers, panels, len(panels))


@chart
def uncertainty_chart(panels: tuple[str, ...]) -> Any:
    """Figure 10: bands beside functions, a row for each model."""
    band = _panel().transform_filter("isValid(datum.low)").mark_area(color=BLUE, opacity=0.25)
    thin = _panel().transform_filter(f"datum.function !== '{TRUTH}'").mark_line(color=BLUE, strokeWidth=1, opacity=0.7)
    layers = [
        band.encode(x=_x(), y=_y("low"), y2="high:Q"),
        thin.encode(x=_x(), y=_y(), detail="function:N"),
        _truth(),
    ]
    return _faceted(layers, panels, 2)


@chart
def boxes_chart(panels: tuple[str, ...], readings: tuple[str, ...]) -> Any:
    """Figure 5: box 25 to 75 %, whiskers 5 to 95 %, a red cross at the observed value; the axis is logarithmic."""
    alt = altair()
    axis = alt.Axis(title=None, labelAngle=0, labelExpr="split(datum.label, ' ')", grid=False)
    x = alt.X("reading:N", sort=list(readings), axis=axis)

    def y(field: str) -> Any:
        ticks = alt.Axis(title="calibration error", values=DECADES, format="~g")
        return alt.Y(f"{field}:Q", scale=alt.Scale(type="log"), axis=ticks)

    whiskers = _panel().mark_rule(color=SOFT, strokeWidth=1.5).encode(x=x, y=y("q05"), y2="q95:Q")
    ends = [_panel().mark_tick(color=SOFT, thickness=1.5, size=BOX / 2).encode(x=x, y=y(end)) for end in ("q05", "q95")]
    box = _panel().mark_bar(color=BLUE, fillOpacity=0.35, stroke=BLUE, size=BOX).encode(x=x, y=y("q25"), y2="q75:Q")
    median = _panel().mark_tick(color=INK, thickness=2, size=BOX).encode(x=x, y=y("q50"))
    cross = _panel().mark_point(shape=CROSS, color=RED, size=90, strokeWidth=3, opacity=1).encode(x=x, y=y("observed"))
    drawn = _faceted([whiskers, *ends, box, median, cross], panels, len(panels))
    return drawn.resolve_scale(y="independent")
