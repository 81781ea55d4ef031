"""Verdicts on regression: whether outcomes lie where predicted distributions say, and how wide these are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.evaluation.result import Result
from calibrant.evaluation.verdicts.calibration import LARGE, Calibration, beyond_chance, named, would_show
from calibrant.evaluation.verdicts.classes import shared_doubt
from calibrant.evaluation.verdicts.records import (
    InputVerdict,
    Point,
    Tone,
    exact,
    find,
    has_interval,
    headline,
    interval_of,
    p_of,
    percent,
    rows_of,
    with_band,
    worst,
)
from calibrant.evaluation.wording import number, span
from calibrant.registry import parse
from calibrant.registry.estimate import Estimate

ERRORS = ("mace", "rmsce", "calibration_error")
TAILS = (0.1, 0.9)
"""Levels at which the tails are looked at."""
MANY = 3.0
"""Times the upper end of its band, from which an error of another scale is large."""
MARGIN = 0.02
"""By what a share must differ where there is no band."""
TINY = 30
ENOUGH = 100
"""Rows from which it is worth saying that nothing was seen, where nothing says what would have been."""
WIDEST = 0.95 + 1e-9
SCALES = ("mace", "rmsce")
"""Errors that are mean differences of shares, which `LARGE` is meant for."""


def regression_verdict(result: Result, facts: Mapping[str, Any], others: tuple[Point, ...]) -> InputVerdict:
    """One input of numbers; `others` are points on groups, shift and notes."""
    error, cover = find(result, ERRORS), find(result, ("picp",)) or _from_curve(result, facts)
    if error is None and cover is None and any("needs y" in why or "label" in why for why in result.skipped.values()):
        return _without_outcomes(result, facts, others)
    found = _calibration(result, error, cover)
    doubt = shared_doubt(facts) if found.point.tone in ("warn", "bad") else None
    known = (_coverage(cover), found.point, doubt, _sharpness(result, facts), _members(result, facts))
    points = (*(point for point in known if point is not None), *others)
    return InputVerdict(result.input, headline(*found.said), worst(p.tone for p in points), points, found.word)


# ----------------------------------------------------------------------------------------------- coverage
def _level(spec: str) -> float:
    return float(parse(spec)["level"])


def _from_curve(result: Result, facts: Mapping[str, Any]) -> tuple[str, Estimate] | None:
    """The coverage of the widest interval up to 95 %, where the metric was not asked for: curves have it."""
    curve = result.curves.get("central_coverage")
    rows = [] if not curve else [dict(zip(curve, row, strict=True)) for row in zip(*curve.values(), strict=True)]
    rows = [row for row in rows if row["level"] <= WIDEST]
    if not rows:
        return None
    row = max(rows, key=lambda row: row["level"])
    band = {"null_low": row.get("band_low", math.nan), "null_high": row.get("band_high", math.nan)}
    return f"picp(level={row['level']:g})", Estimate(row["observed"], int(facts["n"]), **band)


def _misses(cover: tuple[str, Estimate]) -> bool | None:
    """Whether the coverage differs from its level beyond chance: p below half of 1 − level, or by its interval."""
    spec, e = cover
    if math.isfinite(e.p_value):
        return e.p_value < (1.0 - _confidence(e)) / 2.0
    if math.isfinite(e.null_high):
        return not e.null_low <= e.value <= e.null_high
    if not has_interval(e):
        return None
    return not e.low <= _level(spec) <= e.high


def _confidence(e: Estimate) -> float:
    return e.level if math.isfinite(e.level) else 0.95


def _coverage(cover: tuple[str, Estimate] | None) -> Point | None:
    """What share of outcomes the intervals hold."""
    if cover is None:
        return None
    spec, e = cover
    ends = f" ({percent(e.low)} to {percent(e.high)})" if has_interval(e) else ""
    text = f"its {percent(_level(spec), 0)} intervals hold {percent(e.value)}{ends} of outcomes"
    if math.isfinite(e.p_value):
        text += f", {p_of(e.p_value)}"
    tiny = f"; a test set of {rows_of(e.n)} is tiny" if e.n <= TINY else ""
    return Point("neutral", "coverage", text + tiny, (with_band(spec, e),))


# -------------------------------------------------------------------------------------------- calibration
def _calibration(result: Result, error: tuple[str, Estimate] | None, cover: tuple[str, Estimate] | None) -> Calibration:
    tests = [None if error is None else beyond_chance(error[1]), None if cover is None else _misses(cover)]
    numbers = tuple(with_band(*one) for one in (error, cover) if one is not None)
    if all(one is None for one in tests):
        asked = "a calibration error or coverage" if error is None and cover is None else "what chance gives it"
        text = f"calibration is not judged: {asked} was not computed"
        return Calibration(
            "not judged", ("Calibration was not tested",), Point("neutral", "calibration", text, numbers)
        )
    if not any(tests):
        return _within(error, cover, numbers)
    return _off(result, error, cover, numbers)


def _tested(error: tuple[str, Estimate] | None) -> list[str]:
    if error is None or beyond_chance(error[1]) is None:
        return []
    spec, e = error
    place = "beyond" if beyond_chance(e) else "within"
    p = f", {p_of(e.p_value)}" if math.isfinite(e.p_value) else ""
    band = f" ({span(e.null_low, e.null_high)}{p})" if math.isfinite(e.null_high) else interval_of(e)
    return [f"{named(spec)} {number(e.value)} is {place} what chance gives right distributions{band}"]


def _within(
    error: tuple[str, Estimate] | None, cover: tuple[str, Estimate] | None, numbers: tuple[str, ...]
) -> Calibration:
    n = (error or cover)[1].n  # type: ignore[index]
    shares = error is not None and error[0].startswith(SCALES)
    limit = error[1].detectable if shares and error is not None else math.nan
    few = not limit <= LARGE if shares else n < ENOUGH
    texts = _tested(error) or ["the coverage is within what chance gives right distributions"]
    if math.isfinite(limit) and error is not None:
        texts.append(would_show(error[0], n, limit, few))
    hold = "" if cover is None else f": {percent(_level(cover[0]), 0)} intervals hold {percent(cover[1].value)}"
    if few:
        said: tuple[str, ...] = (f"Not told from calibrated by {rows_of(n)}, too few to tell",)
        return Calibration("not told from calibrated", said, Point("neutral", "calibration", "; ".join(texts), numbers))
    if error is None and cover is not None:  # one level alone does not show calibration
        level, held = percent(_level(cover[0]), 0), percent(cover[1].value)
        said = (f"Its {level} intervals hold {held} of outcomes, as far as {rows_of(n)} tell as they should",
                f"Its {level} intervals hold {held} of outcomes, as they should")  # fmt: skip
        return Calibration("right coverage", said, Point("good", "calibration", "; ".join(texts), numbers))
    said = (f"Well calibrated as far as {rows_of(n)} can tell{hold}", f"Well calibrated as far as {n} rows can tell")
    return Calibration("well calibrated", said, Point("good", "calibration", "; ".join(texts), numbers))


def _off(
    result: Result,
    error: tuple[str, Estimate] | None,
    cover: tuple[str, Estimate] | None,
    numbers: tuple[str, ...],
) -> Calibration:
    word, how = _shape(result, cover)
    texts = [*_tested(error), how]
    large = _large(error)
    tone: Tone = "bad" if large else "warn"
    first = how
    if word == "biased":
        first = f"{how} (mean PIT {result.metrics['pit'].value:.2f})"
    elif cover is not None:
        first = f"its {percent(_level(cover[0]), 0)} intervals hold {percent(cover[1].value)} of outcomes"
    said = (f"{word.capitalize()}: {first}", word.capitalize())
    return Calibration(word, said, Point(tone, "calibration", "; ".join(texts), numbers))


def _large(error: tuple[str, Estimate] | None) -> bool:
    """Whether an error is shown to be large; one of another scale where it is several times what chance allows."""
    if error is None:
        return False
    spec, e = error
    if not spec.startswith(SCALES):
        return e.value > MANY * e.null_high
    return e.low >= LARGE if has_interval(e) else e.value >= 2 * LARGE


def _shape(result: Result, cover: tuple[str, Estimate] | None) -> tuple[str, str]:
    """What is wrong with the distributions: biased, too narrow, too wide; in a word and in a sentence."""
    low, high = _tails(result)
    pit = result.metrics.get("pit")
    off_centre = pit is not None and has_interval(pit) and not pit.low <= 0.5 <= pit.high
    if pit is not None and off_centre and low * high <= 0:
        side = "above" if pit.value > 0.5 else "below"
        return "biased", f"outcomes lie {side} what is predicted too often"
    spread = low + high
    if spread == 0 and cover is not None:
        spread = 1 if cover[1].value < _level(cover[0]) else -1
    if spread > 0:
        return "over-confident", "its distributions are too narrow"
    if spread < 0:
        return "under-confident", "its distributions are too wide"
    return "miscalibrated", "its distributions have the wrong shape"


def _tails(result: Result) -> tuple[int, int]:
    """Of the lower and of the upper tail: 1 where it holds more outcomes than it should, −1 where fewer, else 0."""
    curve = result.curves.get("calibration")
    if not curve or not curve["level"]:
        return 0, 0
    rows = [dict(zip(curve, row, strict=True)) for row in zip(*curve.values(), strict=True)]
    return tuple(_tail(min(rows, key=lambda row: abs(row["level"] - level)), level) for level in TAILS)  # type: ignore[return-value]


def _tail(row: Mapping[str, float], level: float) -> int:
    low, high = row.get("band_low", row["level"] - MARGIN), row.get("band_high", row["level"] + MARGIN)
    above = int(row["observed"] > high) - int(row["observed"] < low)
    return above if level < 0.5 else -above


# -------------------------------------------------------------------------------------- sharpness, members
def _sharpness(result: Result, facts: Mapping[str, Any]) -> Point | None:
    """How wide the intervals are, beside how far predictions miss."""
    width, miss = find(result, ("width", "sharpness")), find(result, ("mae", "mse"))
    if width is None:
        return None
    what = "its intervals are {} wide" if width[0].startswith("width") else "its standard deviation is {}"
    text = what.format(number(width[1].value)) + " on average"
    if miss is not None:
        kind = "absolute" if miss[0].startswith("mae") else "squared"
        text += f", its mean {kind} error is {number(miss[1].value)}"
    numbers = tuple(exact(*one) for one in (width, miss) if one is not None)
    return Point("neutral", "sharpness", text, numbers)


def _members(result: Result, facts: Mapping[str, Any]) -> Point | None:
    """How much of the variance is disagreement of members."""
    parts = [result.metrics.get(name) for name in ("epistemic_variance", "aleatoric_variance")]
    if parts[0] is None or parts[1] is None or not parts[0].value + parts[1].value > 0:
        return None
    share = parts[0].value / (parts[0].value + parts[1].value)
    text = f"{percent(share, 0)} of its variance is that its {facts['members']} members disagree"
    return Point("neutral", "members", text, (exact("epistemic_variance", parts[0]),))


def _without_outcomes(result: Result, facts: Mapping[str, Any], others: tuple[Point, ...]) -> InputVerdict:
    said = "there are no outcomes y: coverage, calibration and errors could not be judged"
    known = (Point("neutral", "labels", said), _sharpness(result, facts), _members(result, facts))
    points = (*(point for point in known if point is not None), *others)
    head = "No outcomes: it can be told how wide it predicts, not whether it is right"
    return InputVerdict(result.input, head, worst(p.tone for p in others), points, "not judged")
