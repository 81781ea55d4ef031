"""Reliability diagrams: accuracy against confidence with the band of a calibrated model, for all stored binnings and
without bins (CORP), and the histogram of confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calibrant.reporting.charts.base import altair, base, chart, diagonal, layered, share_axis, tooltip
from calibrant.reporting.charts.palette import BLUE, GREY, ORANGE
from calibrant.reporting.document import Choices, Control, Figure, Section
from calibrant.reporting.report_data import ReportData, Subject, curve_options, has_band, select_columns

CAPTION = (
    "Each point is a bin of rows: its mean confidence and its accuracy. The dashed line is perfect calibration; points "
    "below it are overconfident, points above it underconfident."
)
SHADED = " Shaded: the range of a calibrated model."
CORP = "Without bins: accuracy as an isotonic regression on confidence (Dimitriadis, Gneiting & Jordan 2021)."
COUNTS = "Number of correct and wrong predictions by confidence."
HEADS = {
    "lower": "confidence from", "upper": "confidence to", "n": "rows", "confidence": "mean confidence",
    "accuracy": "accuracy", "band_low": "if calibrated from", "band_high": "if calibrated to",
}  # fmt: skip
CORP_HEADS = {
    "confidence": "confidence", "recalibrated": "fitted accuracy", "n": "rows", "band_low": "if calibrated from",
    "band_high": "if calibrated to",
}  # fmt: skip
KINDS = {"width": "equal width", "mass": "equal mass"}


def section(report: ReportData) -> Section | None:
    """A panel for each input that has the curve."""
    panels = report.panels(_blocks)
    return Section("reliability", "Reliability", panels, "Does confidence match accuracy?") if panels else None


def _blocks(subject: Subject) -> Iterator[Figure | None]:
    """Diagrams of the top label and of single classes, without bins, and the histogram of confidence."""
    classes = {curve_options(name)[1].get("of") for name in subject.curves if name.startswith("reliability(")}
    yield from (_diagram(subject, of) for of in ("top", *sorted(filter(None, classes))))
    corp, curve = subject.curves.get("corp"), subject.curves.get("confidence", {})
    if corp is not None:
        yield Figure(
            key="corp",
            title="Reliability without bins (CORP)",
            chart=corp_chart(),
            data={(): select_columns(corp, CORP_HEADS, "n")},
            heads=CORP_HEADS,
            description="Fitted accuracy against confidence, with the line of perfect calibration",
            caption=CORP,
        )
    if "correct" in curve:
        data: dict[str, list[Any]] = {name: [*curve[name], *curve[name]] for name in ("lower", "upper")}
        outcomes = [outcome for outcome in ("correct", "wrong") for _ in curve["n"]]
        yield Figure(
            key="confidence",
            title="Confidence histogram",
            chart=histogram_chart("confidence"),
            data={(): data | {"rows": [*curve["correct"], *curve["wrong"]], "outcome": outcomes}},
            heads={"lower": "confidence from", "upper": "confidence to", "outcome": "prediction", "rows": "rows"},
            description="Histogram of confidence, stacked by correct and wrong predictions",
            caption=COUNTS,
        )


# ------------------------------------------------------------------------------------------------------ binned
def _diagram(subject: Subject, of: str = "top") -> Figure | None:
    data: Choices = {}
    for name, curve in subject.curves.items():
        kind, options = curve_options(name)
        if kind == "reliability" and options.get("of", "top") == of:
            data[binning_of(options)] = select_columns(curve, HEADS, "n")
    if not data:
        return None
    return Figure(
        key="diagram" if of == "top" else f"diagram-{of}",
        title="Reliability diagram" + ("" if of == "top" else f" of class {of}"),
        chart=reliability_chart(),
        data=data,
        heads=HEADS,
        description="Accuracy against mean confidence of bins, with the line of perfect calibration",
        caption=CAPTION + SHADED * has_band(data.values()),
        controls=binning_controls(data),
    )


def binning_of(options: Mapping[str, str]) -> tuple[str, str]:
    """How the bins of a curve were made, and how many."""
    return KINDS[options.get("binning", "width")], options.get("bins", "15")


def binning_controls(data: Choices) -> tuple[Control, ...]:
    """Controls of both, the default first."""
    binnings = (kind for kind in KINDS.values() if any(option[0] == kind for option in data))
    bins = sorted({option[1] for option in data}, key=lambda b: (b != "15", int(b)))
    return Control("binning", tuple(binnings)), Control("bins", tuple(bins))


@chart
def reliability_chart() -> Any:
    """The band, the diagonal, the gap from each point to it, and points whose area is the number of rows."""
    alt = altair()
    x = alt.X("confidence:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("confidence"))
    y = alt.Y("accuracy:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("accuracy"))
    band = base().mark_rect(color=GREY, opacity=0.28).encode(
        x=alt.X("lower:Q", title="confidence"), x2="upper:Q", y=alt.Y("band_low:Q", title="accuracy"), y2="band_high:Q"
    )  # fmt: skip
    gap = base().mark_rule(color=ORANGE, strokeWidth=2).encode(x=x, y=y, y2="confidence:Q")
    hover = tooltip(
        confidence="mean confidence", accuracy="accuracy", n__i="rows", band_low="if calibrated from",
        band_high="if calibrated to",
    )  # fmt: skip
    points = base().mark_circle(color=BLUE, opacity=1).encode(
        x=x, y=y, size=alt.Size("n:Q", scale=alt.Scale(range=[25, 260]), legend=None), tooltip=hover
    )  # fmt: skip
    line = base().mark_line(color=BLUE).encode(x=x, y=y)
    return layered(band, diagonal(), gap, line, points, height=320)


@chart
def corp_chart() -> Any:
    """The fitted line with its band."""
    alt = altair()
    x = alt.X("confidence:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("confidence"))
    y = alt.Y("recalibrated:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("accuracy"))
    area = base().mark_area(color=GREY, opacity=0.28)
    band = area.encode(x=x, y=alt.Y("band_low:Q", title="accuracy"), y2="band_high:Q")
    hover = tooltip(confidence="confidence", recalibrated="fitted accuracy", n__i="rows")
    line = base().mark_line(color=BLUE, interpolate="monotone").encode(x=x, y=y)
    points = base().mark_circle(color=BLUE, opacity=0, size=80).encode(x=x, y=y, tooltip=hover)
    return layered(band, diagonal(), line, points, height=260)


@chart
def histogram_chart(title: str) -> Any:
    """Stacked bars of correct and wrong predictions."""
    alt = altair()
    kinds = alt.Scale(domain=["correct", "wrong"], range=[BLUE, ORANGE])
    colour = alt.Color("outcome:N", title=None, scale=kinds, legend=alt.Legend())
    hover = tooltip(lower="confidence from", upper="confidence to", outcome__n="prediction", rows__i="rows")
    bars = base().mark_bar(binSpacing=1).encode(
        x=alt.X("lower:Q", bin=alt.Bin(binned=True), axis=alt.Axis(title=title, format=".2~f")), x2="upper:Q",
        y=alt.Y("rows:Q", stack="zero", title="rows"), order=alt.Order("outcome:N", sort="descending"), color=colour,
        tooltip=hover,
    )  # fmt: skip
    return layered(bars, height=160)
