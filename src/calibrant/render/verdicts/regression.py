"""Verdicts on regression: coverage and calibration of the predictive distributions, and their width."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import parse, with_role
from calibrant.render.formatting import format_number, format_p_value, format_percent
from calibrant.render.verdicts.model import (
    InputVerdict,
    Point,
    calibration_points,
    find_metric,
    format_estimate,
    has_interval,
    headline,
    next_step,
    tiny_note,
    tone_of_input,
    word_of,
    worst,
)
from calibrant.results.evaluation import Result
from calibrant.results.verdict import NOT_TESTED

WIDEST_LEVEL = 0.95 + 1e-9

NO_LABELS = ("needs_labels", "needs_hard_labels")

Metric = tuple[str, Estimate]


def regression_verdict(result: Result, facts: Mapping[str, Any], context: tuple[Point, ...]) -> InputVerdict:
    """The verdict on one input; `context` holds its points on groups, shift and impossible outcomes."""
    coverage = find_metric(result, with_role("verdict_coverage")) or _coverage_of_curve(result, facts)
    optional = (_coverage(coverage), *calibration_points(result), _sharpness(result), _members(result, facts))
    points = (*(point for point in optional if point is not None), *context, *next_step(result))
    tested = result.verdict is not None and result.verdict.status != NOT_TESTED
    if not tested and coverage is None and any(why.code in NO_LABELS for why in result.skipped.values()):
        missing = Point("neutral", "labels", "no outcomes y: coverage, calibration and errors cannot be assessed")
        head = "No outcomes: interval widths can be summarised, coverage and calibration cannot"
        return InputVerdict(result.input, head, worst(p.tone for p in context), (missing, *points), "not assessed")
    head = "Calibration not tested"
    if tested and result.verdict is not None:
        head = result.verdict.headline
    elif coverage is not None:
        text = f"{_intervals_cover(coverage)} (n = {facts['n']})"
        head = headline(f"{text}; calibration not tested", text)
    return InputVerdict(result.input, head, tone_of_input(result, points), points, word_of(result))


# ----------------------------------------------------------------------------------------------- coverage
def _level(spec: str) -> float:
    return float(parse(spec)["level"])


def _intervals_cover(coverage: Metric) -> str:
    spec, e = coverage
    return f"{format_percent(_level(spec), 0)} intervals cover {format_percent(e.value)} of outcomes"


def _coverage_of_curve(result: Result, facts: Mapping[str, Any]) -> Metric | None:
    """The coverage of the widest interval up to 95% from the stored curve, where the metric was not requested."""
    curve = result.curves.get("central_coverage")
    rows = [] if not curve else [dict(zip(curve, row, strict=True)) for row in zip(*curve.values(), strict=True)]
    rows = [row for row in rows if row["level"] <= WIDEST_LEVEL]
    if not rows:
        return None
    row = max(rows, key=lambda row: row["level"])
    band = {"null_low": row.get("band_low", math.nan), "null_high": row.get("band_high", math.nan)}
    return f"picp(level={row['level']:g})", Estimate(row["observed"], int(facts["n"]), **band)


def _coverage(coverage: Metric | None) -> Point | None:
    if coverage is None:
        return None
    spec, e = coverage
    interval = f" ({format_percent(e.low)} to {format_percent(e.high)})" if has_interval(e) else ""
    text = f"its {format_percent(_level(spec), 0)} intervals cover {format_percent(e.value)}{interval} of outcomes"
    text += f", {format_p_value(e.p_value, 'p')}" if math.isfinite(e.p_value) else ""
    return Point("neutral", "coverage", text + tiny_note(e.n), (format_estimate(spec, e, band=True),))


# -------------------------------------------------------------------------------------- sharpness, members
def _sharpness(result: Result) -> Point | None:
    """The mean interval width next to the mean error."""
    width, error = find_metric(result, ("width", "sharpness")), find_metric(result, ("mae", "mse"))
    if width is None:
        return None
    quantity = "interval width" if width[0].startswith("width") else "standard deviation"
    text = f"mean {quantity} {format_number(width[1].value)}"
    if error is not None:
        kind = "absolute" if error[0].startswith("mae") else "squared"
        text += f", mean {kind} error {format_number(error[1].value)}"
    return Point("neutral", "sharpness", text, tuple(format_estimate(*m) for m in (width, error) if m is not None))


def _members(result: Result, facts: Mapping[str, Any]) -> Point | None:
    """The epistemic share of the variance."""
    epistemic, aleatoric = (result.metrics.get(name) for name in ("epistemic_variance", "aleatoric_variance"))
    if epistemic is None or aleatoric is None or not epistemic.value + aleatoric.value > 0:
        return None
    share = format_percent(epistemic.value / (epistemic.value + aleatoric.value), 0)
    text = f"{share} of its variance is epistemic ({facts['members']} members disagree)"
    return Point("neutral", "members", text, (format_estimate("epistemic_variance", epistemic),))
