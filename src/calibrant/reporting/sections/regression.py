"""Predicted distributions of numbers: PIT, calibration, widths, sampled functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.errors import plain
from calibrant.reporting.charting import altair, base, chart, diagonal, layered, share_axis, tips
from calibrant.reporting.document import Block, Columns, Control, Figure, Panel, Section
from calibrant.reporting.estimate_table import estimates
from calibrant.reporting.gathering import Gathered, Subject, has_band
from calibrant.reporting.histograms import split_histogram
from calibrant.reporting.palette import BLUE, GREY, INK, ORANGE

LEAD = "Do outcomes lie where the predicted distributions say, and how wide are these?"
METRICS = ("picp", "width", "sharpness", "mace", "rmsce", "calibration_error", "ence", "se_var_ratio", "interval_score")
PIT = (
    "How high each outcome lies in its predicted distribution. Even bars: it is right. Bars that are high at both "
    "ends: the distributions are too narrow; in the middle: too wide; at one side: shifted. Dashed: their height if "
    "all were even."
)
COVERAGE = (
    "How often outcomes lie inside the central interval of a level, or below the quantile of that level. On the dashed "
    "line the distributions are right; inside intervals, below it they are too narrow."
)
SHADED = " Shaded: what chance allows a right model."
KINDS = {"central_coverage": "inside the central interval", "calibration": "below the quantile"}
WIDTHS = (
    "How wide the intervals are of how many rows, and whether those that miss are narrower or wider. Bars are as high "
    "as their bins have rows, also where bins differ in width."
)
FUNCTIONS = (
    "Each thin line is what one member predicts: whole functions, whose bends rows have in common. The band holds 95 % "
    "of the mixture of all members, row by row, which hides that (Gopal 2021, figure 10). Dashed: the mean; crosses: "
    "outcomes."
)
BAND = ("band_low", "band_high")
MANY = 60
"""Levels from which points are not seen."""
FAR = 20.0
"""By what factor widths differ where equal ratios are drawn equally far apart."""


def section(gathered: Gathered) -> Section | None:
    """A panel for each input that has one of the curves."""
    panels = [Panel(k, found) for k, subject in enumerate(gathered.subjects) if (found := _blocks(subject))]
    return Section("regression", "Predicted distributions", tuple(panels), LEAD) if panels else None


def _blocks(subject: Subject) -> tuple[Block, ...]:
    made = (_coverage(subject), _pit(subject), _widths(subject), _functions(subject))
    figures = [figure for figure in made if figure is not None]
    return (*estimates(subject.scored, METRICS, "Coverage and spread"), *figures) if figures else ()


def _filled(curve: Mapping[str, Sequence[float]], *names: str) -> Columns:
    """These columns, and those of the band also where there is none."""
    blank = [None] * len(curve[names[0]])
    return {name: curve.get(name, blank) for name in (*names, *BAND)}


# ------------------------------------------------------------------------------------------------- PIT
def _pit(subject: Subject) -> Figure | None:
    curve = subject.curves.get("pit")
    if curve is None:
        return None
    heads = {"lower": "F(y) from", "upper": "to", "n": "rows", "share": "share of rows"}
    return Figure(
        key="pit",
        title="Where outcomes lie (PIT)",
        chart=pit_chart(len(curve["lower"])),
        data={(): _filled(curve, "lower", "upper", "n", "share")},
        heads=heads | {"band_low": "if right: from", "band_high": "to"},
        said="Histogram of the predicted distribution function at the outcome, beside the band of a right model",
        caption=PIT + SHADED * has_band([curve]),
    )


@chart
def pit_chart(bins: int) -> Any:
    """Bars over the band of each, and a line at their height if all were even."""
    alt = altair()
    x = alt.X("lower:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("F(y)"))
    top = alt.Axis(title="share of rows", tickCount=6)
    hover = tips(
        lower="F(y) from", upper="to", share="share of rows", n__i="rows", band_low="if right: from", band_high="to"
    )  # fmt: skip
    bar = base().transform_calculate(zero="0").mark_rect(fill=BLUE, fillOpacity=0.45, stroke=BLUE, strokeWidth=1)
    bars = bar.encode(x=x, x2="upper:Q", y=alt.Y("share:Q", axis=top), y2="zero:Q", tooltip=hover)
    band = base().mark_rect(color=GREY, opacity=0.3).encode(
        x=x, x2="upper:Q", y=alt.Y("band_low:Q", axis=top), y2="band_high:Q"
    )  # fmt: skip
    even = base().mark_rule(color=INK, strokeDash=[5, 4]).encode(y=alt.datum(1 / bins))
    return layered(band, bars, even, height=220)


# ------------------------------------------------------------------------------------------ calibration
def _coverage(subject: Subject) -> Figure | None:
    data: dict[tuple[str, ...], Columns] = {
        (shown,): _filled(subject.curves[name], "level", "observed")
        for name, shown in KINDS.items()
        if name in subject.curves
    }
    if not data:
        return None
    return Figure(
        key="coverage",
        title="Coverage",
        chart=coverage_chart(dots=all(len(each["level"]) < MANY for each in data.values())),
        data=data,
        heads={"level": "level", "observed": "observed share", "band_low": "if right: from", "band_high": "to"},
        said="Observed share of outcomes against the level of interval or quantile, beside the line of a right model",
        caption=COVERAGE + SHADED * has_band(data.values()),
        controls=(Control("outcomes that lie", tuple(shown for (shown,) in data)),),
    )


@chart
def coverage_chart(*, dots: bool) -> Any:
    """The band, the diagonal, and the line with its points, which are seen where they are few."""
    alt = altair()
    whole = alt.Scale(domain=[0, 1])
    x = alt.X("level:Q", scale=whole, axis=share_axis("level"))
    y = alt.Y("observed:Q", scale=whole, axis=share_axis("observed share"))
    ends = alt.Y("band_low:Q", scale=whole, axis=share_axis("observed share"))
    band = base().mark_area(color=GREY, opacity=0.35).encode(x=x, y=ends, y2="band_high:Q")
    hover = tips(level="level", observed="observed", band_low="if right: from", band_high="to")
    line = base().mark_line(color=BLUE).encode(x=x, y=y)
    points = base().mark_circle(color=BLUE, opacity=float(dots), size=60).encode(x=x, y=y, tooltip=hover)
    return layered(band, diagonal(), line, points, height=320)


# ----------------------------------------------------------------------------------- widths and functions
def _widths(subject: Subject) -> Figure | None:
    curve = subject.curves.get("width")
    if curve is None:
        return None
    level = f" that should hold {100 * curve['level'][0]:.4g} %" if curve.get("level") else ""
    lowest, highest = min(curve["lower"]), max(curve["upper"])
    return split_histogram(
        curve, ("covered", "missed"), ("covered", "missed"), key="width", title=f"Width of intervals{level}",
        of="width of the interval, in the units of y", caption=WIDTHS, log=highest > FAR * lowest > 0,
    )  # fmt: skip


def _functions(subject: Subject) -> Figure | None:
    curve = subject.curves.get("functions")
    if curve is None or len(curve["x"]) < 2:
        return None
    members = [name for name in curve if name.startswith("member_")]
    along = plain(str(subject.facts.get("along", "x")), 60)
    blank = [None] * len(curve["x"])
    data = {name: curve.get(name, blank) for name in ("x", "y", "mean", "low", "high", *members)}
    heads = {"x": along, "y": "observed", "mean": "mean", "low": "mixture: 2.5 %", "high": "97.5 %"}
    named = {name: name.replace("_", " ") for name in members}
    return Figure(
        key="functions",
        title=f"What members predict along {along}",
        chart=functions_chart(len(members)),
        data={(): data},
        heads=heads | named,
        said="Predictions of single members as lines, the band of their mixture, and the outcomes as points",
        caption=FUNCTIONS,
    )


@chart
def functions_chart(members: int) -> Any:
    """The band of the mixture, a thin line for each member, the mean, and the outcomes."""
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
    hover = tips(x="x", y="observed", mean="mean", low="mixture: 2.5 %", high="97.5 %")
    observed = base().mark_point(
        shape="cross", color=ORANGE, size=36, strokeWidth=0, filled=True, opacity=0.9
    ).encode(x=x, y=y("y"), tooltip=hover)  # fmt: skip
    return layered(band, each, mean, observed, height=320)
