"""Verdicts on OOD detection: whether a score separates out-of-distribution rows from in-distribution rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import parse
from calibrant.render.formatting import format_percent
from calibrant.render.verdicts.model import (
    InputVerdict,
    Point,
    Tone,
    find_metric,
    format_estimate,
    has_interval,
    headline,
    worst,
)
from calibrant.results.evaluation import Result

GOOD_AUROC = 0.9


def detection_verdict(result: Result, facts: Mapping[str, Any], context: tuple[Point, ...]) -> InputVerdict:
    """The verdict on one set of OOD rows against the in-distribution rows."""
    auroc, fpr = result.metrics.get("auroc"), find_metric(result, ("fpr95",))
    points: list[Point] = []
    text, word = "OOD detection was not assessed: AUROC was not requested", "not assessed"
    if auroc is not None:
        finding, word, tone = _assess(auroc)
        text = finding if math.isnan(auroc.value) else f"{finding}: AUROC {auroc.value:.3f}"
        score = facts.get("meta", {}).get("score")
        by = f"by {score}, " if score else ""
        n, outside = int(facts["n"]), int(facts.get("outside", 0))
        share = f"{format_percent(auroc.value)}{_percent_interval(auroc)} of pairs"
        detail = f"{by}an OOD row ranks above an in-distribution row in {share}"
        sizes = f"{outside} OOD and {n - outside} in-distribution rows"
        points.append(Point(tone, "detection", f"{detail}, from {sizes}", (format_estimate("auroc", auroc),)))
    both = text
    if fpr is not None:
        spec, e = fpr
        tpr = format_percent(float(parse(spec)["level"]), 0)
        both = f"{text}, FPR {format_percent(e.value, 0)} at {tpr} TPR"
        rate = f"{format_percent(e.value)}{_percent_interval(e)} of in-distribution rows"
        detail = f"a threshold that flags {tpr} of OOD rows also flags {rate}"
        points.append(Point("neutral", "false positives", detail, (format_estimate(spec, e),)))
    every = (*points, *context)
    return InputVerdict(result.input, headline(both, text), worst(p.tone for p in every), every, word)


def _assess(auroc: Estimate) -> tuple[str, str, Tone]:
    """The finding for the headline, in a word, and its tone."""
    if math.isnan(auroc.value):
        return "OOD detection is undefined: all rows are on one side", "not assessed", "neutral"
    if not has_interval(auroc):
        return "OOD detection", "not assessed", "neutral"
    if auroc.low >= GOOD_AUROC:
        return "OOD detection is good", "good OOD detection", "good"
    if auroc.low > 0.5:
        return "OOD detection is partial", "partial OOD detection", "warn"
    if auroc.high < 0.5:
        return "OOD detection is inverted: uncertainty is lower on OOD rows", "inverted OOD detection", "bad"
    return "OOD detection is no better than chance", "no OOD detection", "bad"


def _percent_interval(e: Estimate) -> str:
    return f" ({format_percent(e.low)} to {format_percent(e.high)})" if has_interval(e) else ""
