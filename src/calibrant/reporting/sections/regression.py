"""Predictive distributions of regression: PIT, coverage, interval widths, functions of members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calibrant.errors import plain
from calibrant.registry.lookup import on_axis
from calibrant.reporting.charts.base import altair, base, chart, diagonal, layered, share_axis, tooltip
from calibrant.reporting.charts.histograms import split_histogram
from calibrant.reporting.charts.palette import BLUE, GREY, INK, ORANGE
from calibrant.reporting.document import Block, Choices, Control, Figure, Section
from calibrant.reporting.estimates import estimate_table
from calibrant.reporting.report_data import ReportData, Subject, has_band, select_columns

LEAD = "Are the predictive distributions calibrated, and how sharp are they?"
PIT = (
    "The predicted CDF at each observed outcome. A flat histogram is calibrated; U-shaped: distributions are too "
    "narrow; hump-shaped: too wide; sloped: biased. Dashed: the height of a flat histogram."
)
COVERAGE = (
    "Observed share of outcomes inside the central interval of each level, or below the quantile of each level. "
    "Calibrated distributions follow the dashed line; interval coverage below it means that they are too narrow."
)
SHADED = " Shaded: the range of a calibrated model."
KINDS = {"central_coverage": "central interval", "calibration": "quantile"}
WIDTHS = (
    "Distribution of interval widths, for outcomes inside and outside their interval. The height of a bar is its "
    "number of rows, also if bins differ in width."
)
FUNCTIONS = (
    "Thin lines: predictions of single members. Band: the central 95% of the mixture of all members, pointwise, which "
    "hides how rows depend on each other (Gopal 2021, figure 10). Dashed: the mean. Crosses: observed outcomes."
)
BAND = {"band_low": "if calibrated from", "band_high": "if calibrated to"}
PIT_HEADS = {"lower": "F(y) from", "upper": "F(y) to", "n": "rows", "share": "share of rows"} | BAND
COVERAGE_HEADS = {"level": "nominal level", "observed": "observed coverage"} | BAND
MAX_DOTS = 60
"""Levels above which points are invisible."""
LOG_RATIO = 20.0
"""The ratio of widths above which their axis is logarithmic."""


def section(report: ReportData) -> Section | None:
    """A panel for each input that has one of the curves."""
    panels = report.panels(_blocks)
    return Section("regression", "Predictive distributions", panels, LEAD) if panels else None


def _blocks(subject: Subject) -> list[Block]:
    """The figures, and a table above them."""
    figures = [figure for figure in _figures(subject) if figure is not None]
    names = (*on_axis("coverage and width"), *on_axis("distribution"))
    return [*estimate_table(subject.metrics_view, names, "Coverage and spread"), *figures] if figures else []


def _figures(subject: Subject) -> Iterator[Figure | None]:
    """Coverage, PIT, interval widths and functions of members."""
    curves = subject.curves
    kinds = {name: shown for name, shown in KINDS.items() if name in curves}
    coverage: Choices = {
        (shown,): select_columns(curves[name], COVERAGE_HEADS, "level") for name, shown in kinds.items()
    }
    if coverage:
        yield Figure(
            key="coverage",
            title="Coverage",
            chart=coverage_chart(dots=all(len(each["level"]) < MAX_DOTS for each in coverage.values())),
            data=coverage,
            heads=COVERAGE_HEADS,
            description="Observed coverage against the nominal level of an interval or quantile, with the diagonal",
            caption=COVERAGE + SHADED * has_band(coverage.values()),
            controls=(Control("coverage of", tuple(kinds.values())),),
        )
    if "pit" in curves:
        yield Figure(
            key="pit",
            title="PIT histogram",
            chart=pit_chart(len(curves["pit"]["lower"])),
            data={(): select_columns(curves["pit"], PIT_HEADS, "n")},
            heads=PIT_HEADS,
            description="Histogram of the predicted CDF at the observed outcomes, with the band of a calibrated model",
            caption=PIT + SHADED * has_band([curves["pit"]]),
        )
    if "width" in curves:
        curve = curves["width"]
        level = f" of nominal level {100 * curve['level'][0]:.4g}%" if curve.get("level") else ""
        yield split_histogram(
            curve, ("covered", "missed"), key="width", title=f"Interval width{level}",
            of="interval width (units of y)", caption=WIDTHS,
            log=max(curve["upper"]) > LOG_RATIO * min(curve["lower"]) > 0,
        )  # fmt: skip
    if len(curves.get("functions", {}).get("x", ())) > 1:
        curve = curves["functions"]
        members = [name for name in curve if name.startswith("member_")]
        along = plain(str(subject.facts.get("along", "x")), 60)
        heads = {"x": along, "y": "observed", "mean": "mean", "low": "mixture 2.5%", "high": "mixture 97.5%"}
        yield Figure(
            key="functions",
            title=f"Predictions of members along {along}",
            chart=functions_chart(len(members)),
            data={(): select_columns(curve, (*heads, *members), "x")},
            heads=heads | {name: name.replace("_", " ") for name in members},
            description="Predictions of members as lines, the band of their mixture, and observed outcomes as points",
            caption=FUNCTIONS,
        )


# -------------------------------------------------------------------------------------------------- charts
@chart
def pit_chart(bins: int) -> Any:
    """Bars with their bands, and a line at the height of a flat histogram."""
    alt = altair()
    x = alt.X("lower:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("F(y)"))
    top = alt.Axis(title="share of rows", tickCount=6)
    hover = tooltip(**{f"{name}__i" if name == "n" else name: title for name, title in PIT_HEADS.items()})
    bar = base().transform_calculate(zero="0").mark_rect(fill=BLUE, fillOpacity=0.45, stroke=BLUE, strokeWidth=1)
    bars = bar.encode(x=x, x2="upper:Q", y=alt.Y("share:Q", axis=top), y2="zero:Q", tooltip=hover)
    band = base().mark_rect(color=GREY, opacity=0.3).encode(
        x=x, x2="upper:Q", y=alt.Y("band_low:Q", axis=top), y2="band_high:Q"
    )  # fmt: skip
    flat = base().mark_rule(color=INK, strokeDash=[5, 4]).encode(y=alt.datum(1 / bins))
    return layered(band, bars, flat, height=220)


@chart
def coverage_chart(*, dots: bool) -> Any:
    """The band, the diagonal, and the line, with visible points if there are few."""
    alt = altair()
    whole = alt.Scale(domain=[0, 1])
    x = alt.X("level:Q", scale=whole, axis=share_axis("nominal level"))
    y = alt.Y("observed:Q", scale=whole, axis=share_axis("observed coverage"))
    ends = alt.Y("band_low:Q", scale=whole, axis=share_axis("observed coverage"))
    band = base().mark_area(color=GREY, opacity=0.35).encode(x=x, y=ends, y2="band_high:Q")
    hover = tooltip(
        level="nominal level", observed="observed coverage", band_low="if calibrated from", band_high="if calibrated to"
    )
    line = base().mark_line(color=BLUE).encode(x=x, y=y)
    points = base().mark_circle(color=BLUE, opacity=float(dots), size=60).encode(x=x, y=y, tooltip=hover)
    return layered(band, diagonal(), line, points, height=320)


@chart
def functions_chart(members: int) -> Any:
    """The band of the mixture, a thin line per member, the mean, and the observed outcomes."""
    alt = altair()
    x = alt.X("x:Q", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(title="x", tickCount=8))

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title="y", tickCount=6))

    band = base().mark_area(color=GREY, opacity=0.28).encode(x=x, y=y("low"), y2="high:Q")
    names = [f"member_{k + 1}" for k in range(members)]
    each = base().mark_line(color=BLUE, strokeWidth=1, opacity=0.55).transform_fold(
        names, as_=["member", "value"]
    ).encode(x=x, y=y("value"), detail="member:N")  # fmt: skip
    mean = base().mark_line(color=INK, strokeWidth=2, strokeDash=[6, 3]).encode(x=x, y=y("mean"))
    hover = tooltip(x="x", y="observed", mean="mean", low="mixture 2.5%", high="mixture 97.5%")
    observed = base().mark_point(
        shape="cross", color=ORANGE, size=36, strokeWidth=0, filled=True, opacity=0.9
    ).encode(x=x, y=y("y"), tooltip=hover)  # fmt: skip
    return layered(band, each, mean, observed, height=320)
