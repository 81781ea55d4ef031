"""Verdicts on detection: whether a score tells outside rows from inside rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.evaluation.result import Result
from calibrant.evaluation.verdicts.records import (
    InputVerdict,
    Point,
    Tone,
    exact,
    find,
    has_interval,
    headline,
    interval_of,
    percent,
    worst,
)
from calibrant.registry import parse
from calibrant.registry.estimate import Estimate

WELL = 0.9
"""An AUROC from which outside rows are told well."""


def detection_verdict(result: Result, facts: Mapping[str, Any], others: tuple[Point, ...]) -> InputVerdict:
    """One outside against the inside."""
    auroc, cost = result.metrics.get("auroc"), find(result, ("fpr95",))
    known = (None if auroc is None else _ranking(auroc, facts), None if cost is None else _cost(*cost))
    points = (*(point for point in known if point is not None), *others)
    if auroc is None:
        said, word = "Whether outside rows are told from inside was not asked for", "not judged"
    else:
        said, word, _ = _told(auroc)
        said = f"{said}: AUROC {auroc.value:.3f}"
    both = said
    if cost is not None:
        both = f"{said}, {percent(cost[1].value, 0)} false alarms to find {percent(_found(cost[0]), 0)}"
    return InputVerdict(result.input, headline(both, said), worst(p.tone for p in points), points, word)


def _told(auroc: Estimate) -> tuple[str, str, Tone]:
    """How well outside rows are told: for the headline, in a word, and the tone."""
    if math.isnan(auroc.value):
        return "Nothing to tell apart", "not judged", "neutral"
    if not has_interval(auroc):
        return "Outside against inside", "not judged", "neutral"
    if auroc.low >= WELL:
        return "Outside is told well", "told well", "good"
    if auroc.low > 0.5:
        return "Outside is told in part", "told in part", "warn"
    if auroc.high < 0.5:
        return "Its uncertainty is lower outside", "misled", "bad"
    return "Outside is not told from inside", "not told", "bad"


def _ranking(auroc: Estimate, facts: Mapping[str, Any]) -> Point:
    score = facts.get("meta", {}).get("score")
    by = f" by {score}" if score else ""
    n, outside = int(facts["n"]), int(facts.get("outside", 0))
    text = f"an outside row ranks above an inside row{by} in {percent(auroc.value)} of pairs"
    ends = f" ({percent(auroc.low)} to {percent(auroc.high)})" if has_interval(auroc) else ""
    return Point(
        _told(auroc)[2], "detection", f"{text}{ends}, of {outside} outside and {n - outside} inside rows",
        (exact("auroc", auroc),),
    )  # fmt: skip


def _found(spec: str) -> float:
    return float(parse(spec)["level"])


def _cost(spec: str, e: Estimate) -> Point:
    ends = f" ({percent(e.low)} to {percent(e.high)})" if has_interval(e) else interval_of(e)
    text = f"a threshold that finds {percent(_found(spec), 0)} of outside rows also stops {percent(e.value)}{ends}"
    return Point("neutral", "false alarms", f"{text} of inside rows", (exact(spec, e),))
