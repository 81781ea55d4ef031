"""Reliability: how often the model is right where it is so sure, with the band of a calibrated model, for all bins that
were stored and without bins (CORP), and how many rows it is how sure of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.reporting.charting import altair, base, chart, diagonal, layered, share_axis, tips
from calibrant.reporting.document import Block, Columns, Control, Figure, Panel, Section
from calibrant.reporting.gathering import Gathered, Subject, curve_options, has_band
from calibrant.reporting.palette import BLUE, GREY, ORANGE

CAPTION = (
    "Each point is a bin of rows: how sure the model was, and how often it was right. On the dashed line it knows how "
    "sure it may be; below it, it is too sure."
)
SHADED = " Shaded: where the points of a calibrated model lie by chance."
CORP = (
    "The same without bins: accuracy as the rising function of confidence that fits best (Dimitriadis, Gneiting & "
    "Jordan 2021)."
)
COUNTS = "How sure the model is of how many rows, and how many of them it gets wrong."
HEADS = {
    "lower": "confidence from",
    "upper": "to",
    "n": "rows",
    "confidence": "mean confidence",
    "accuracy": "accuracy",
    "band_low": "calibrated: from",
    "band_high": "calibrated: to",
}
KINDS = {"width": "equal width", "mass": "equal mass"}


def section(gathered: Gathered) -> Section | None:
    """A panel for each input that has the curve."""
    panels = [Panel(k, found) for k, subject in enumerate(gathered.subjects) if (found := _blocks(subject))]
    lead = "When the model says it is so sure, how often is it right?"
    return Section("reliability", "Reliability", tuple(panels), lead) if panels else None


def _blocks(subject: Subject) -> tuple[Block, ...]:
    figures = [_diagram(subject), *_diagrams_of_class(subject), _corp(subject), _counts(subject)]
    return tuple(figure for figure in figures if figure is not None)


# ------------------------------------------------------------------------------------------------------ binned
def _diagram(subject: Subject, of: str = "top") -> Figure | None:
    data: dict[tuple[str, ...], Columns] = {}
    for name, curve in subject.curves.items():
        kind, options = curve_options(name)
        if kind == "reliability" and options.get("of", "top") == of:
            data[KINDS[options.get("binning", "width")], options.get("bins", "15")] = _filled(curve)
    if not data:
        return None
    bins = sorted({key[1] for key in data}, key=lambda b: (b != "15", int(b)))
    binnings = [kind for kind in KINDS.values() if any(key[0] == kind for key in data)]
    return Figure(
        key="diagram" if of == "top" else f"diagram-{of}",
        title="Reliability diagram" + ("" if of == "top" else f" of class {of}"),
        chart=reliability_chart(),
        data=data,
        heads=HEADS,
        said="Accuracy against mean confidence of bins, beside the line on which both are equal",
        caption=CAPTION + SHADED * has_band(data.values()),
        controls=(Control("binning", tuple(binnings)), Control("bins", tuple(bins))),
    )


def _diagrams_of_class(subject: Subject) -> list[Figure | None]:
    of = {curve_options(name)[1].get("of") for name in subject.curves if name.startswith("reliability(")}
    return [_diagram(subject, name) for name in sorted(filter(None, of))]


def _filled(curve: Mapping[str, Any]) -> Columns:
    """With the columns of a band also where there is none."""
    blank = [None] * len(curve["n"])
    return {name: curve.get(name, blank) for name in HEADS}


@chart
def reliability_chart() -> Any:
    """The band, the diagonal, a bar from each point to it, and the points, as large as their bins are full."""
    alt = altair()
    x = alt.X("confidence:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("confidence"))
    y = alt.Y("accuracy:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("accuracy"))
    band = base().mark_rect(color=GREY, opacity=0.28).encode(
        x=alt.X("lower:Q", title="confidence"), x2="upper:Q", y=alt.Y("band_low:Q", title="accuracy"), y2="band_high:Q"
    )  # fmt: skip
    gap = base().mark_rule(color=ORANGE, strokeWidth=2).encode(x=x, y=y, y2="confidence:Q")
    hover = tips(
        confidence="mean confidence", accuracy="accuracy", n__i="rows", band_low="calibrated: from", band_high="to"
    )
    points = base().mark_circle(color=BLUE, opacity=1).encode(
        x=x, y=y, size=alt.Size("n:Q", scale=alt.Scale(range=[25, 260]), legend=None), tooltip=hover
    )  # fmt: skip
    line = base().mark_line(color=BLUE).encode(x=x, y=y)
    return layered(band, diagonal(), gap, line, points, height=320)


# -------------------------------------------------------------------------------------------------- without bins
def _corp(subject: Subject) -> Figure | None:
    curve = subject.curves.get("corp")
    if curve is None:
        return None
    blank = [None] * len(curve["n"])
    names = ("confidence", "recalibrated", "n", "band_low", "band_high")
    return Figure(
        key="corp",
        title="Reliability without bins (CORP)",
        chart=corp_chart(),
        data={(): {name: curve.get(name, blank) for name in names}},
        heads=dict(zip(names, ("confidence", "fitted accuracy", "rows", "calibrated: from", "to"), strict=True)),
        said="Fitted accuracy against confidence, beside the line on which both are equal",
        caption=CORP,
    )


@chart
def corp_chart() -> Any:
    """A rising line with its band."""
    alt = altair()
    x = alt.X("confidence:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("confidence"))
    y = alt.Y("recalibrated:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis("accuracy"))
    band = (
        base()
        .mark_area(color=GREY, opacity=0.28)
        .encode(x=x, y=alt.Y("band_low:Q", title="accuracy"), y2="band_high:Q")
    )
    hover = tips(confidence="confidence", recalibrated="fitted accuracy", n__i="rows")
    line = base().mark_line(color=BLUE, interpolate="monotone").encode(x=x, y=y)
    points = base().mark_circle(color=BLUE, opacity=0, size=80).encode(x=x, y=y, tooltip=hover)
    return layered(band, diagonal(), line, points, height=260)


# ------------------------------------------------------------------------------------------------------- counts
def _counts(subject: Subject) -> Figure | None:
    curve = subject.curves.get("confidence")
    if curve is None or "correct" not in curve:
        return None
    data: dict[str, list[Any]] = {name: [*curve[name], *curve[name]] for name in ("lower", "upper")}
    kinds = ["right"] * len(curve["n"]) + ["wrong"] * len(curve["n"])
    data |= {"rows": [*curve["correct"], *curve["wrong"]], "answer": kinds}
    return Figure(
        key="confidence",
        title="How sure it is",
        chart=histogram_chart("confidence"),
        data={(): data},
        heads={"lower": "confidence from", "upper": "to", "answer": "answer", "rows": "rows"},
        said="Histogram of confidence, right and wrong answers apart",
        caption=COUNTS,
    )


@chart
def histogram_chart(title: str) -> Any:
    """Stacked bars of right and wrong rows."""
    alt = altair()
    colour = alt.Color(
        "answer:N", title=None, scale=alt.Scale(domain=["right", "wrong"], range=[BLUE, ORANGE]), legend=alt.Legend()
    )
    hover = tips(lower="from", upper="to", answer__n="answer", rows__i="rows")
    bars = base().mark_bar(binSpacing=1).encode(
        x=alt.X("lower:Q", bin=alt.Bin(binned=True), axis=alt.Axis(title=title, format=".2~f")), x2="upper:Q",
        y=alt.Y("rows:Q", stack="zero", title="rows"), order=alt.Order("answer:N", sort="descending"), color=colour,
        tooltip=hover,
    )  # fmt: skip
    return layered(bars, height=160)
