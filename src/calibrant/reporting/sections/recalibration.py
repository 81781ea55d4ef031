"""Recalibration: gains in proper scores with paired intervals, metrics and curves before and after, and the fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.registry.lookup import with_role
from calibrant.render import recalibration as rendering
from calibrant.render.formatting import count
from calibrant.render.recalibration import BETTER, NOW_INFINITE, UNCHANGED, WORSE, describe_gain
from calibrant.reporting import document as doc
from calibrant.reporting.charts.base import altair, base, chart, diagonal, layered, reference_line, share_axis, tooltip
from calibrant.reporting.charts.line_charts import DASHES
from calibrant.reporting.charts.palette import BLUE, GREEN, GREY, ORANGE, PAPER, SERIES, SOFT
from calibrant.reporting.document import Block, Choices, Columns, Figure, Section, TableBlock, Text
from calibrant.reporting.estimates import spec_label
from calibrant.reporting.labels import MAX_COLOURS, as_sentence, distinct
from calibrant.reporting.report_data import ReportData, curve_options, has_band
from calibrant.reporting.sections.regression import BAND, MAX_DOTS
from calibrant.reporting.sections.regression import KINDS as COVERAGE_KINDS
from calibrant.reporting.sections.reliability import binning_controls, binning_of
from calibrant.results.evaluation import RECALIBRATION, Evaluation, Result, task_of

LEAD = "Can recalibration fix it, and how much does it gain?"
FIT = (
    "fit-not-converged", "fit-at-bound", "fit-made-worse", "fit-did-not-move", "impossible-labels-left-out",
    "candidate-failed", "close-choice", "scored-on-fitted-rows", "no-labels",
)  # fmt: skip
"""Codes of warnings about the fit."""
RELATIVE, ABSOLUTE = "relative to before", "absolute"
GAINS = (
    "Paired differences of scores on the same rows, before minus after, with their intervals. Only proper scores "
    "measure a gain; it is not significant if the interval contains 0."
)
BEFORE_AFTER = (
    "All metrics before (ring) and after (square); arrows show the better direction. Calibration errors are biased, "
    "more so with few rows: a smaller error is no proof of better calibration, unlike a gain in proper scores."
)
CURVES = "Before (dashed) and after (solid)."
SHADED = " Shaded: the range of a calibrated model after recalibration."
SIZES = (
    "Mean improvement on random subsets of each size. A flat line means that the result does not depend on the size of "
    "the test set (Gruber & Buettner 2022, figure 1)."
)
CUT = (-1.0, 3.0)
CUT_OFF = f" Ratios below {CUT[0]:g} or above {CUT[1]:g} are only in the data."
SIZE_HEADS = {
    "metric": "metric", "size": "rows", "mean": "mean improvement", "sd": "standard deviation", "q05": "5%",
    "q95": "95%", "at": "shown",
}  # fmt: skip
ALL = "all metrics, relative to the largest size"
BEFORE, AFTER = "before", "after"
GAINED, LOST, OPEN = "significantly better", "significantly worse", "not significant"
STEP = 30


def section(report: ReportData) -> Section | None:
    """All recalibrations, in order."""
    evaluations = [e for e in report.evaluations if e.kind == RECALIBRATION]
    blocks: list[Block] = []
    for place, evaluation in enumerate(evaluations):
        several = len(evaluations) > 1
        if several:
            improvement, facts = evaluation.improvement, evaluation.recalibration
            names = f"{improvement.before} → {improvement.after}" if improvement else ""
            blocks.append(doc.Heading(names or str(facts.get("title", "Recalibration"))))
        blocks += _blocks(evaluation, f"-{place + 1}" * several)
    return Section("recalibration", "Recalibration", tuple(blocks), LEAD) if blocks else None


def _blocks(evaluation: Evaluation, suffix: str) -> list[Block]:
    """Conclusions, figures, the fitted method and tables."""
    improvement, facts = evaluation.improvement, evaluation.recalibration
    verdicts = set() if improvement is None else {describe_gain(gain) for gain in improvement.gains.values()}
    points = []
    if improvement is not None:
        tone = "bad" if verdicts & {WORSE, NOW_INFINITE} else "good" if BETTER in verdicts else "neutral"
        first, *others = rendering.describe_improvement(improvement)
        points = [(tone, "Gain", first), *(("neutral", "Conclusion", line) for line in others)]
        sizes = (item.reading() for item in evaluation.sizes if item.after is not None)
        points += [("neutral", "By test set size", line) for line in sizes if line]
    notes = {code for fit in (facts or {}).get("fits", ()) for code, _ in fit.get("said", ())}
    points += [("warn", "Fit", note.message) for note in evaluation.warnings if note.code in FIT or note.code in notes]
    items = tuple((tone, topic, as_sentence(text)) for tone, topic, text in points)
    blocks: list[Block] = [doc.Points(items)] if items else []
    if improvement is None or verdicts - {UNCHANGED}:
        figures = (gains(evaluation), metrics_before_after(evaluation), *curves(evaluation), by_size(evaluation))
        blocks += [replace(figure, key=figure.key + suffix) for figure in figures if figure is not None]
    if facts:
        text = f"{facts['title']} ({facts['method']})"
        if facts["n_parameters"]:
            parameters = count(facts["n_parameters"], "parameter")
            text += f", {parameters} fitted by {facts['loss']} on {facts['fitted_on']}"
            text += "" if facts["converged"] else "; the fit did not converge"
        if any(task_of(item) == "classification" for item in evaluation.inputs):
            text += f"; predicted classes {'do not' if facts['accuracy_preserving'] else 'may'} change"
        text += f"; {'' if facts['injective'] else 'not known to be '}injective. {facts['reference'] or ''}"
        blocks.append(Text((text.rstrip(),)))
    return blocks + [TableBlock(table) for table in rendering.recalibration_tables(evaluation)]


# ----------------------------------------------------------------------------------------------------- gains
def gains(evaluation: Evaluation) -> Figure | None:
    """Gains in each score, relative to a positive score before and absolute."""
    improvement = evaluation.improvement
    known = [] if improvement is None else [gain for gain in improvement.gains.values() if math.isfinite(gain.gain)]
    if not known:
        return None
    heads = {
        "score": "score", "before": "before", "after": "after", "gain": "gain", "low": "interval from",
        "high": "interval to", "p_value": "p-value",
    }  # fmt: skip
    common: dict[str, list[Any]] = {name: [getattr(gain, name) for gain in known] for name in heads}
    kinds = {BETTER: GAINED, WORSE: LOST, NOW_INFINITE: LOST}
    common["kind"] = [kinds.get(describe_gain(gain), OPEN) for gain in known]
    units = {ABSOLUTE: [1.0] * len(known)}
    if any(gain.before > 0 for gain in known):
        units = {RELATIVE: [gain.before if gain.before > 0 else math.nan for gain in known], **units}
    data: Choices = {}
    for option, unit in units.items():
        drawn = {"at": "gain", "at_low": "low", "at_high": "high"}
        scaled = {at: [x / u for x, u in zip(common[name], unit, strict=True)] for at, name in drawn.items()}
        data[(option,)] = common | scaled
    return Figure(
        key="gains",
        title="Gain in proper scores",
        chart=gain_chart(len(known)),
        data=data,
        heads=heads | {"kind": "verdict"},
        description="Gain in each proper score with its interval",
        caption=GAINS,
        controls=(doc.Control("scale", tuple(units)),),
    )


# ---------------------------------------------------------------------------------------------- before and after
def before_and_after(evaluation: Evaluation) -> tuple[Result, Result] | None:
    """The results before and after, if there are both."""
    improvement = evaluation.improvement
    if improvement is None or len(evaluation.results) != 2 or improvement.before == improvement.after:
        return None
    results = {result.input: result for result in evaluation.results}
    before, after = (results.get(name) for name in (improvement.before, improvement.after))
    return None if before is None or after is None else (before, after)


def metrics_before_after(evaluation: Evaluation) -> Figure | None:
    """Every metric of both results, relative to its value before and absolute."""
    pair = before_and_after(evaluation)
    specs = [] if pair is None else [spec for spec in pair[0].metrics if spec in pair[1].metrics]
    if pair is None or not specs:
        return None
    data: Choices = {}
    for option in (RELATIVE, ABSOLUTE):
        rows: list[tuple[Any, ...]] = []
        for spec, label in zip(specs, distinct(map(spec_label, specs)), strict=True):
            first = pair[0].metrics[spec].value
            unit = 1.0 if option == ABSOLUTE else first if first > 0 and math.isfinite(first) else math.nan
            for when, result in zip((BEFORE, AFTER), pair, strict=True):
                e = result.metrics[spec]
                rows.append((label, when, e.value, e.low, e.high, e.value / unit))
        names = ("metric", "when", "value", "low", "high", "at")
        columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
        if option == ABSOLUTE or any(math.isfinite(at) for at in columns["at"]):
            data[(option,)] = columns
    return Figure(
        key="before-after",
        title="Metrics before and after",
        chart=paired_values_chart(len(specs), "value (relative: 1 is the value before)"),
        data=data,
        heads={"metric": "metric", "when": "when", "value": "value", "low": "interval from", "high": "interval to"},
        description="Every metric before and after recalibration",
        caption=BEFORE_AFTER,
        controls=(doc.Control("scale", tuple(option for (option,) in data)),),
    )


# ------------------------------------------------------------------------------------------------------- curves
def curves(evaluation: Evaluation) -> Iterator[Figure]:
    """Reliability diagrams, or coverage for regression, before and after."""
    pair = before_and_after(evaluation)
    if pair is None:
        return
    known = {name: [result.curves[name] for result in pair] for name in pair[0].curves if name in pair[1].curves}
    options = {name: curve_options(name) for name in known}
    binned = {name: own for name, (kind, own) in options.items() if kind == "reliability" and "of" not in own}
    kinds = {name: label for name, label in COVERAGE_KINDS.items() if name in known}
    reliability: Choices
    reliability = {binning_of(own): _overlay(known[name], "confidence", "accuracy") for name, own in binned.items()}
    coverage: Choices = {(label,): _overlay(known[name], "level", "observed") for name, label in kinds.items()}
    every = (
        ("reliability", "confidence", "accuracy", reliability, binning_controls(reliability)),
        (
            "coverage",
            "nominal level",
            "observed coverage",
            coverage,
            (doc.Control("coverage of", tuple(kinds.values())),),
        ),
    )
    for key, x, y, data, controls in every:
        if not data:
            continue
        dots = key == "reliability" or all(len(each["x"]) < MAX_DOTS for each in data.values())
        yield Figure(
            key=key,
            title=f"{key.capitalize()} before and after",
            chart=overlay_chart(x, y, dots=dots),
            data=data,
            heads={"when": "when", "x": x, "y": y, "n": "rows", **BAND},
            description=f"{y.capitalize()} against {x}, before and after, with the line of perfect calibration",
            caption=CURVES + SHADED * has_band(data.values()),
            controls=controls,
        )


def _overlay(pair: Sequence[Mapping[str, Sequence[float]]], x: str, y: str) -> Columns:
    """The rows of both curves; the bins of a curve over levels are the steps between levels."""
    names = ("when", "x", "y", "n", "lower", "upper", "band_low", "band_high")
    out: dict[str, list[Any]] = {name: [] for name in names}
    for when, curve in zip((BEFORE, AFTER), pair, strict=True):
        size = len(curve[x])
        known = {"when": [when] * size, "x": curve[x], "y": curve[y]}
        if "lower" not in curve:
            known |= {"lower": [0.0, *curve[x]][:size], "upper": curve[x]}
        for name in names:
            out[name] += known.get(name) or curve.get(name) or [None] * size
    return out


# ------------------------------------------------------------------------------------------------------ by size
def by_size(evaluation: Evaluation) -> Figure | None:
    """The improvement of common errors at several test set sizes, together with that of a proper score."""
    improvement = evaluation.improvement
    stored = [] if improvement is None or improvement.sizes is None else [improvement.sizes]
    item = next((x for x in (*stored, *evaluation.sizes) if x.after is not None and len(x.sizes) > 1), None)
    if item is None:
        return None
    first = [spec for spec in with_role("sample_size_reference") if spec in item.improvement]
    specs = [*first, *(spec for spec in item.improvement if spec not in first)]
    together = [spec for spec in specs if math.isfinite(item.share(spec))][:MAX_COLOURS]

    def columns(specs: list[str], *, relative: bool) -> Columns:
        """A row for each metric and size; absolute values also have the quantiles of subsets."""
        rows: list[tuple[Any, ...]] = []
        for spec, (k, size) in itertools.product(specs, enumerate(item.sizes)):
            curve = item.improvement[spec]
            at = curve.mean[k] / (curve.mean[-1] if relative else 1.0)
            at_or_cut = at if not relative or CUT[0] <= at <= CUT[1] else None
            numbers, ends = (curve.mean[k], curve.sd[k]), (curve.q05[k], curve.q95[k])
            more = (None, None, 1.0) if relative else (*ends, 0.0)
            rows.append((spec, size, *numbers, *ends, at_or_cut, *more))
        return {name: [row[k] for row in rows] for k, name in enumerate((*SIZE_HEADS, "low", "high", "level"))}

    data: Choices = {}
    if together:
        data[(ALL,)] = columns(together, relative=True)
    changed = [spec for spec in specs if any(math.isfinite(x) and x != 0.0 for x in item.improvement[spec].mean)]
    for spec, label in zip(changed, distinct(changed), strict=True):
        data[(label,)] = columns([spec], relative=False)
    if not data:
        return None
    is_cut = bool(together) and any(x is None for x in data[(ALL,)]["at"])
    return Figure(
        key="sizes",
        title="Improvement by test set size",
        chart=by_size_chart(log=item.sizes[-1] > 4 * item.sizes[0]),
        data=data,
        heads=SIZE_HEADS,
        description="Mean improvement on random subsets against their size",
        caption=SIZES + CUT_OFF * is_cut,
        controls=(doc.Control("metric", tuple(option for (option,) in data)),),
    )


# ------------------------------------------------------------------------------------------------------ charts
@chart
def gain_chart(rows: int) -> Any:
    """Gains with their intervals; colour and shape show their direction."""
    alt = altair()
    y = alt.Y("score:N", sort=None, axis=alt.Axis(title=None, labelLimit=150, grid=False, ticks=False))
    kinds = [GAINED, LOST, OPEN]
    colours, shapes = [GREEN, ORANGE, GREY], ["triangle-right", "triangle-left", "circle"]
    legend = alt.Legend(title=None, columns=2)
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=colours), legend=legend)
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=shapes), legend=legend)
    axis = alt.Axis(title="gain (positive is better)", tickCount=6)
    x = alt.X("at:Q", scale=alt.Scale(nice=False, padding=14), axis=axis)
    drawn = base().transform_filter("isValid(datum.at)")
    known = base().transform_filter("isValid(datum.at_low) && isValid(datum.at_high)")
    spans = known.mark_rule(strokeWidth=2.5).encode(x=alt.X("at_low:Q"), x2="at_high:Q", y=y, color=colour)
    hover = tooltip(
        score__n="score", before="before", after="after", gain="gain", low="interval from", high="interval to",
        kind__n="verdict",
    )  # fmt: skip
    dots = drawn.mark_point(size=130, filled=True, opacity=1).encode(x=x, y=y, color=colour, shape=shape, tooltip=hover)
    return layered(reference_line(0.0, vertical=True), spans, dots, height=STEP * rows)


def _before_after_marks() -> dict[str, Any]:
    """The colour, shape and filling of points: a ring before, a square after."""
    alt = altair()
    values = {"Color": [ORANGE, BLUE], "Shape": ["circle", "square"], "Fill": [PAPER, BLUE]}
    scales = {name: alt.Scale(domain=[BEFORE, AFTER], range=pair) for name, pair in values.items()}
    return {name.lower(): getattr(alt, name)("when:N", title=None, scale=scale) for name, scale in scales.items()}


@chart
def paired_values_chart(rows: int, title: str) -> Any:
    """Two values of each metric on a line: a ring before, a square after."""
    alt = altair()
    y = alt.Y("metric:N", sort=None, axis=alt.Axis(title=None, labelLimit=170, grid=True, ticks=False))
    x = alt.X("at:Q", scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(title=title, tickCount=6))
    drawn = base().transform_filter("isValid(datum.at)")
    line = drawn.mark_line(color=SOFT, strokeWidth=1.5).encode(x=x, y=y, detail="metric:N")
    marks = _before_after_marks()
    hover = tooltip(metric__n="metric", when__n="when", value="value", low="interval from", high="interval to")
    dots = drawn.mark_point(size=85, strokeWidth=2, opacity=1).encode(
        x=x, y=y, **marks, tooltip=hover
    )  # fmt: skip
    return layered(line, dots, height=STEP * rows)


@chart
def overlay_chart(x_title: str, y_title: str, *, dots: bool = True) -> Any:
    """Curves before and after with the diagonal and the band of the one after; dots: whether points are visible."""
    alt = altair()
    whole = alt.Scale(domain=[0, 1])
    x = alt.X("x:Q", scale=whole, axis=share_axis(x_title))
    y = alt.Y("y:Q", scale=whole, axis=share_axis(y_title))
    marks = _before_after_marks()
    dash = alt.StrokeDash("when:N", title=None, scale=alt.Scale(domain=[BEFORE, AFTER], range=[[6, 4], [1, 0]]))
    band = base().transform_filter(f"datum.when === '{AFTER}' && isValid(datum.band_low)").mark_rect(
        color=GREY, opacity=0.28
    ).encode(
        x=alt.X("lower:Q", scale=whole, axis=share_axis(x_title)), x2="upper:Q",
        y=alt.Y("band_low:Q", scale=whole, axis=share_axis(y_title)), y2="band_high:Q",
    )  # fmt: skip
    hover = tooltip(
        when__n="when", x=x_title, y=y_title, n__i="rows", band_low="if calibrated from", band_high="if calibrated to"
    )
    line = base().mark_line().encode(x=x, y=y, color=marks["color"], strokeDash=dash)
    visible = base().mark_point(size=45, strokeWidth=1.8, opacity=1).encode(
        x=x, y=y, **marks, tooltip=hover
    )  # fmt: skip
    invisible = base().mark_circle(size=60, opacity=0).encode(x=x, y=y, tooltip=hover)
    return layered(band, diagonal(), line, visible if dots else invisible, height=320)


@chart
def by_size_chart(*, log: bool) -> Any:
    """Improvements against the size of the test set: lines, the spread of a single one, and a reference level."""
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
    hover = tooltip(
        metric__n="metric", size__i="rows", at="shown value", mean="mean improvement", sd="standard deviation"
    )
    line = base().mark_line().encode(x=x, y=y("at"), color=colour, strokeDash=dash)
    dots = base().mark_circle(size=40, opacity=1).encode(
        x=x, y=y("at"), color=colour, strokeDash=dash, tooltip=hover
    )  # fmt: skip
    return layered(level, band, line, dots, height=280)
