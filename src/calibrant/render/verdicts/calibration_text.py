"""The sentences of a verdict on calibration: one line for each test, and the headline of a rejection."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.errors import plain
from calibrant.registry.lookup import find, metric_label
from calibrant.render.formatting import (
    format_interval,
    format_number,
    format_p_value,
    format_percent,
    format_percent_pair,
)
from calibrant.render.verdicts.direction import DOMINANT, find_test, only_classes_are_off
from calibrant.render.verdicts.model import class_phrase, headline
from calibrant.results.verdict import NEGLIGIBLE, CalibrationTest, Evidence

UNCORRECTED = 0.05
"""The level at which a single p-value looks significant."""
ZERO = 1e-9
"""Size of a statistic up to which it is a rounding error."""
FITTED = "lower than chance gives: fitted to these rows, or dependent rows?"
UNSPREAD = 0.5
"""The share of the lower end of its range below which an error is suspiciously low."""


def describe(test: CalibrationTest, kind: str) -> str:
    """One line on one test: the value, what a calibrated model gives, and what the correction says."""
    label, e = _label(test.metric, kind), test.estimate
    if not test.tested:
        return f"{label} not tested: {test.reason}"
    parts = []
    if math.isfinite(e.null_high):
        parts.append(f"{format_interval(_rounded(e.null_low), _rounded(e.null_high))} if calibrated")
    elif math.isfinite(e.low):
        parts.append(f"{100 * e.level:g}% interval {format_interval(_rounded(e.low), _rounded(e.high))}")
    parts.append(format_p_value(test.p_value, "p"))
    text = f"{label} {format_number(_rounded(e.value))} ({', '.join(parts)})"
    if is_too_low(test):
        return f"{text}: {FITTED}"
    if not test.rejected and test.p_value < UNCORRECTED:
        text += ": not significant after correction"
    elif not test.rejected and math.isfinite(test.detectable) and not math.isnan(test.relevant_error):
        text += f"; 80% power to detect {format_number(_rounded(test.detectable))}"
    return text


def is_too_low(test: CalibrationTest) -> bool:
    """Whether an error is far below what chance gives a calibrated model."""
    low = test.estimate.null_low
    error = find(_name(test.metric)).is_calibration_error
    return error and low > ZERO and test.estimate.value < UNSPREAD * low


def _rounded(value: float) -> float:
    return 0.0 if abs(value) < ZERO else value


def _name(spec: str) -> str:
    return spec.partition("(")[0]


def _label(spec: str, kind: str) -> str:
    """The name of a test; of a binary one without its class, which the verdict names."""
    if kind != "binary" and spec == "mean_gap":
        return "mean confidence − accuracy"
    return metric_label(_name(spec) if kind == "binary" else spec)


# ---------------------------------------------------------------------------------------------- headlines
def rejected_headline(
    status: str, evidence: Evidence, tests: Sequence[CalibrationTest], direction: tuple[str, ...], positive: str
) -> str:
    """What is wrong, by the largest error; a test that is quoted for its size is one that was rejected."""
    order = sorted(
        (test for test in tests if test.rejected),
        key=lambda test: (math.isnan(test.relevant_error), not find(_name(test.metric)).is_calibration_error),
    )
    main = order[0]
    only_classes = evidence.kind == "classes" and only_classes_are_off(tests)
    if only_classes:
        main = max((test for test in order if not math.isnan(test.relevant_error)), key=lambda test: test.smallest)
    size = f"{_label(main.metric, evidence.kind)} {format_number(_rounded(main.estimate.value))}"
    if status == NEGLIGIBLE:
        return headline(f"Miscalibration is detectable but small: {size}", f"Detectable but small: {size}")
    if evidence.kind == "classes" and _classes_stand_out(evidence, tests):
        most = class_phrase(evidence.classes, most=1, numbers=True)
        texts = (class_phrase(evidence.classes, numbers=True), most.partition("; ")[0], class_phrase(evidence.classes))
        return headline(*(_upper(text) for text in texts), f"Miscalibrated by class: {size}")
    if only_classes:
        return headline(f"Miscalibrated by class; no single class stands out: {size}", f"Miscalibrated: {size}")
    if evidence.kind == "regression":
        return _regression_headline(evidence, direction, size)
    if evidence.kind == "classes":
        return _class_headline(evidence, direction, size)
    return _mean_and_shape_headline(evidence, tests, direction, size, positive)


def _classes_stand_out(evidence: Evidence, tests: Sequence[CalibrationTest]) -> bool:
    """Whether classes are notably over- or underpredicted, and that is the main error.

    It is where only classes are off, or where the share of probability on the wrong classes is much larger than the
    difference of mean confidence and accuracy.
    """
    predicted, observed = _shares(evidence)
    gaps = [item.predicted - item.observed for item in evidence.classes]
    moved = max(sum(gap for gap in gaps if gap > 0.0), -sum(gap for gap in gaps if gap < 0.0))
    main = only_classes_are_off(tests) or not moved <= DOMINANT * abs(predicted - observed)
    return bool(class_phrase(evidence.classes)) and main


def _shares(evidence: Evidence) -> tuple[float, float]:
    """Mean prediction and observed share."""
    return evidence.shares if evidence.shares is not None else (math.nan, math.nan)


def _mean_and_shape_headline(
    evidence: Evidence, tests: Sequence[CalibrationTest], direction: tuple[str, ...], size: str, positive: str
) -> str:
    """Of one probability: its mean and its slope, the larger error first."""
    mean_first, slope_first = {}, {}
    slope = find_test(evidence.tests, "slope")
    predicted, observed = format_percent_pair(*_shares(evidence))
    binary, name = evidence.kind == "binary", plain(positive, 30)
    what = ("risks are" if not positive else f"P('{name}') is") if binary else "confidence is"
    for word in direction:
        if word in ("too_extreme", "not_extreme_enough"):
            shape = word.replace("_", " ")
            number = f"calibration slope {math.nan if slope is None else slope.value:.2f}"
            slope_first[word] = f"Predicted {what} {shape} ({number})" if binary else (
                f"Confidence is {shape}: {number}"
            )  # fmt: skip
            mean_first[word] = f"{shape} ({number})"
        elif binary:
            text = f"{word} '{name}': predicts {predicted}, {observed} observed"
            mean_first[word] = slope_first[word] = (
                text if positive else f"{word} risk: predicts {predicted} positives, {observed} occur"
            )
        else:
            mean_first[word] = slope_first[word] = f"{word}: mean confidence {predicted}, accuracy {observed}"
    if direction:
        first = _upper(slope_first[direction[0]])
        if len(direction) > 1:
            brief = {"overestimates": "too high", "underestimates": "too low"}.get(direction[1])
            brief = brief or direction[1].replace("_", " ")
            return headline(f"{first}; {mean_first[direction[1]]}", f"{first}; {brief}", first)
        return headline(first)
    gap = next((test for test in tests if _name(test.metric) == "mean_gap"), None)
    if gap is not None and abs(gap.deviation) >= gap.relevant_error:
        return headline(f"Miscalibrated: {size}")
    agree = "predicted and observed rates agree" if binary else "mean confidence matches accuracy"
    return headline(f"Miscalibrated, though {agree}: {size}", f"Miscalibrated: {size}")


def _class_headline(evidence: Evidence, direction: tuple[str, ...], size: str) -> str:
    predicted, observed = _shares(evidence)
    confidence, accuracy = format_percent_pair(predicted, observed)
    if direction in (("overconfident",), ("underconfident",)):
        word = direction[0].capitalize()
        entropy = find_test(evidence.tests, "entropy_gap")
        if (predicted > observed) == (word == "Overconfident") and abs(predicted - observed) >= NOTICEABLE:
            return headline(f"{word}: mean confidence {confidence}, accuracy {accuracy}")
        if entropy is None:
            return headline(f"{word}: {size}")
        side = "higher" if entropy.value > 0 else "lower"
        return headline(f"{word}: NLL is {format_number(abs(entropy.value))} {side} than the model expects")
    if direction == ("mixed",):
        return headline(
            f"Mixed: mean confidence {confidence}, accuracy {accuracy}, but NLL points the other way",
            f"Miscalibrated in both directions: {size}",
        )
    loss = find_test(evidence.tests, "entropy_gap")
    if loss is not None and size.startswith(metric_label("entropy_gap")):
        side = "higher" if loss.value > 0 else "lower"
        return headline(f"Miscalibrated: NLL is {format_number(abs(loss.value))} {side} than the model expects")
    return headline(f"Miscalibrated, though mean confidence matches accuracy: {size}", f"Miscalibrated: {size}")


NOTICEABLE = 0.005
"""Difference of mean confidence and accuracy from which it is quoted for a direction."""


def _regression_headline(evidence: Evidence, direction: tuple[str, ...], size: str) -> str:
    coverage, bias = find_test(evidence.tests, "coverage_gap"), find_test(evidence.tests, "pit")
    texts = []
    for word in direction:
        if word in ("too_narrow", "too_wide") and coverage is not None:
            gap = format_percent(abs(coverage.value)).removesuffix("%")
            side = "below" if coverage.value < 0 else "above"
            texts.append(f"{word.replace('_', ' ')} (coverage averaged over all levels: {gap} points {side} nominal)")
        elif bias is not None:
            side = "above" if bias.value > 0.5 else "below"
            texts.append(f"{word.replace('_', ' ')} (mean PIT {bias.value:.2f}: outcomes {side} predictions)")
    if not texts:
        return headline(f"Predictive distributions have the wrong shape: {size}", f"Miscalibrated: {size}")
    first = f"Predictive distributions are {texts[0]}"
    second = [f"{texts[0]}; {direction[1].replace('_', ' ')}"] if len(texts) > 1 else []
    return headline(*(f"Predictive distributions are {text}" for text in second), *(_upper(t) for t in second), first,
                    _upper(texts[0]))  # fmt: skip


def _upper(text: str) -> str:
    """With a capital first letter; the rest as it is."""
    return text[:1].upper() + text[1:]
