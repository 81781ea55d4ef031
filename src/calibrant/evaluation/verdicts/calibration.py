"""Whether probabilities are right: the calibration error beside what chance allows, and the side it errs on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from calibrant.evaluation.caveats import seen_at_best
from calibrant.evaluation.result import Result
from calibrant.evaluation.verdicts.records import (
    SMALL,
    Point,
    Tone,
    find,
    has_interval,
    p_of,
    percent,
    points_of,
    rows_of,
    two_percents,
    with_band,
)
from calibrant.evaluation.wording import number, span
from calibrant.registry.estimate import Estimate

ERRORS = ("ece", "tce", "smooth_ece", "sweep_ece", "kde_tce", "mmce")
"""Errors that may carry the verdict, the first that is there; `ks` is the second test beside it."""
SAID = {"ece": "ECE", "tce": "TCE", "ks": "KS", "mmce": "MMCE", "mace": "MACE", "rmsce": "RMSCE", "mse": "MSE"}
LARGE = 0.05
"""A calibration error that is bad where it is shown to be as large; rows that would not show it are few."""
LARGE_ALONE = 0.1
"""The same of a value without an interval."""
ROUNDING = 1e-9
"""By what share a value may lie above its band without being meant to."""
WEIGHED = 1e-6
"""By what the accuracy of a curve's rows may differ from the metric where rows have no weights."""


@dataclass(frozen=True)
class Belief:
    """How sure a model is on average, and how often it is right; NaN where it is not known."""

    sure: float
    right: float
    accuracy: Estimate | None

    @property
    def gap(self) -> float:
        """Above zero the model is too sure."""
        return self.sure - self.right


@dataclass(frozen=True)
class Calibration:
    """What is found of calibration, in words and with its tone."""

    word: str
    said: tuple[str, ...]
    """For a headline, the longest first."""
    point: Point


# ------------------------------------------------------------------------------------------------ belief
def belief_of(result: Result) -> Belief:
    """From the accuracy and the reliability curve; of weighted rows from the ratio of observed to expected."""
    accuracy = result.metrics.get("accuracy")
    curve = result.curves.get("reliability")
    right = math.nan if accuracy is None else accuracy.value
    if curve and sum(curve["n"]) > 0:
        sure, hits = (_mean(curve, name) for name in ("confidence", "accuracy"))
        if accuracy is None or abs(hits - right) < WEIGHED:
            return Belief(sure, hits, accuracy)
    ratio = result.metrics.get("o_e")
    known = ratio is not None and accuracy is not None and ratio.value > 0
    sure = right / ratio.value if known and ratio is not None else math.nan
    return Belief(sure, right, accuracy)


def _mean(curve: Mapping[str, list[float]], column: str) -> float:
    return sum(n * x for n, x in zip(curve["n"], curve[column], strict=True)) / sum(curve["n"])


# ------------------------------------------------------------------------------------------- calibration
def beyond_chance(e: Estimate) -> bool | None:
    """Whether an error is more than chance allows a calibrated model; None where nothing tells.

    Where there is a band, the value lies above it: chance alone does that in (1 − level)/2 of cases. Where rows depend
    on each other there is none, and the interval of the true error must leave 0 out.
    """
    if math.isfinite(e.null_high):
        return e.value > e.null_high * (1.0 + ROUNDING)
    return e.low > 0.0 if has_interval(e) else None


def calibration(result: Result, belief: Belief) -> Calibration | None:
    """The verdict on calibration, or None where no calibration error was computed."""
    main, ks = find(result, ERRORS), find(result, ("ks",))
    main, ks = (main, ks) if main is not None else (ks, None)
    if main is None:
        return _by_means(belief)
    tests = [test for test in (main, ks) if test is not None]
    numbers = tuple(with_band(spec, e) for spec, e in tests)
    found = [beyond_chance(e) for _, e in tests]
    if all(one is None for one in found):
        said = f"{_tested(*main)}: nothing says what chance gives, so it is not judged"
        return Calibration(
            "not judged", ("Calibration was not tested",), Point("neutral", "calibration", said, numbers)
        )
    if any(found):
        return _off(result, belief, main, ks, numbers)
    return _within(main, ks, numbers)


def _by_means(belief: Belief) -> Calibration | None:
    """Where no error was asked for: whether the interval of the accuracy leaves the mean confidence out."""
    e = belief.accuracy
    if e is None or not has_interval(e) or math.isnan(belief.sure) or e.low <= belief.sure <= e.high:
        return None
    gap = belief.sure - (e.high if belief.gap > 0 else e.low)
    word = "over-confident" if belief.gap > 0 else "under-confident"
    sure, right = two_percents(belief.sure, belief.right)
    ends = f"the {100 * e.level:g} % interval of its accuracy is {percent(e.low)} to {percent(e.high)}"
    point = Point("bad" if abs(gap) >= LARGE else "warn", "calibration", f"{word} by {points_of(belief.gap)}: {ends}")
    return Calibration(word, (f"{word.capitalize()}: {sure} sure, {right} right",), point)


def named(spec: str) -> str:
    """An error as a sentence names it."""
    name, bracket, options = spec.partition("(")
    return SAID.get(name, name) + bracket + options


def _tested(spec: str, e: Estimate) -> str:
    """An error and what it is held against."""
    said = f"{named(spec)} {number(e.value)}"
    if math.isfinite(e.null_high):
        p = f", {p_of(e.p_value)}" if math.isfinite(e.p_value) else ""
        place = "beyond" if beyond_chance(e) else "within"
        return f"{said} is {place} what chance gives a calibrated model ({span(e.null_low, e.null_high)}{p})"
    if has_interval(e):
        return f"{said}; the {100 * e.level:g} % interval of the true error is {span(e.low, e.high)}"
    return said


def would_show(spec: str, n: int, error: float, few: bool) -> str:
    """What so many rows could have shown."""
    least = f"{'only ' * few}a true {named(spec)} of {number(error)}{' or more' * few}"
    return f"{rows_of(n)} would show {least} in four of five cases"


# ------------------------------------------------------------------------------------------------ within
def _within(main: tuple[str, Estimate], ks: tuple[str, Estimate] | None, numbers: tuple[str, ...]) -> Calibration:
    spec, e = main
    limit = e.detectable if math.isfinite(e.detectable) else e.high if not math.isfinite(e.null_high) else math.nan
    limit = max(limit, seen_at_best(e.n))
    few = not limit <= LARGE
    text = _tested(spec, e) + ("; KS agrees" if ks is not None and beyond_chance(ks[1]) is False else "")
    if math.isfinite(e.detectable):
        text += f"; {would_show(spec, e.n, limit, few)}"
    elif few:
        text += f", of {rows_of(e.n)} alone"
    if few:
        said = (
            f"Not told from calibrated by {rows_of(e.n)}, too few to tell",
            f"Not told from calibrated by {rows_of(e.n)}",
        )
        return Calibration("not told from calibrated", said, Point("neutral", "calibration", text, numbers))
    said = (f"Well calibrated as far as {rows_of(e.n)} can tell", "Well calibrated as far as these rows can tell")
    return Calibration("well calibrated", said, Point("good", "calibration", text, numbers))


# --------------------------------------------------------------------------------------------------- off
def _off(
    result: Result,
    belief: Belief,
    main: tuple[str, Estimate],
    ks: tuple[str, Estimate] | None,
    numbers: tuple[str, ...],
) -> Calibration:
    spec, e = main
    large = e.low >= LARGE if has_interval(e) else e.value >= LARGE_ALONE
    tone: Tone = "bad" if large else "warn"
    slight = e.value < SMALL
    over, under = _parts(result)
    mixed = abs(belief.gap) < 0.5 * (over + under) if over + under > 0 else math.isnan(belief.gap)
    texts = [_which(main, ks)]
    if mixed:
        texts += _places(result)
        word = "slightly miscalibrated" if slight else "miscalibrated"
        said = [f"{word.capitalize()} though right on the whole: {named(spec)} {number(e.value)}"] * bool(over + under)
        said.append(f"{word.capitalize()}: {named(spec)} {number(e.value)}")
    else:
        word = ("slightly " * slight) + ("over-confident" if belief.gap > 0 else "under-confident")
        texts.append(f"{word.removeprefix('slightly ')} by {points_of(belief.gap)}")
        sure, right = two_percents(belief.sure, belief.right)
        said = [f"{word.capitalize()}: {sure} sure, {right} right"]
    return Calibration(word, tuple(said), Point(tone, "calibration", "; ".join(texts), numbers))


def _which(main: tuple[str, Estimate], ks: tuple[str, Estimate] | None) -> str:
    """Which of the two tests sees it."""
    if ks is None:
        return _tested(*main)
    seen = beyond_chance(main[1]), beyond_chance(ks[1])
    if all(seen):
        return f"{_tested(*main)}; KS agrees"
    if seen[0]:
        return f"{_tested(*main)}; KS {number(ks[1].value)}, which looks at running sums, does not see it"
    return f"{_tested(*ks)}, though {named(main[0])} {number(main[1].value)} is not"


def _parts(result: Result) -> tuple[float, float]:
    """The mean gap of bins that are too sure, and of those not sure enough, over all rows."""
    rows = _bins(result)
    total = sum(row["n"] for row in rows) or 1.0
    gaps = [row["n"] / total * (row["confidence"] - row["accuracy"]) for row in rows]
    return sum(gap for gap in gaps if gap > 0), -sum(gap for gap in gaps if gap < 0)


def _bins(result: Result) -> list[dict[str, float]]:
    curve = result.curves.get("reliability", {})
    return [dict(zip(curve, row, strict=True)) for row in zip(*curve.values(), strict=True)]


def _places(result: Result) -> list[str]:
    """Where the largest gaps of either side are; with bands, of bins beyond theirs."""
    rows = _bins(result)
    beyond = [row for row in rows if not row.get("band_low", -1.0) <= row["accuracy"] <= row.get("band_high", -1.0)]
    sides = {"too sure": 1.0, "not sure enough": -1.0}
    out = []
    for said, sign in sides.items():
        of_side = [row for row in beyond if sign * (row["confidence"] - row["accuracy"]) > 0]
        if of_side:
            row = max(of_side, key=lambda row: row["n"] * abs(row["confidence"] - row["accuracy"]))
            ends = f"{percent(row['lower'], 0)} and {percent(row['upper'], 0)}"
            sure, right = two_percents(row["confidence"], row["accuracy"])
            out.append(f"{said} between {ends} ({sure} sure, {right} right)")
    return [", ".join(out)] if out else []
