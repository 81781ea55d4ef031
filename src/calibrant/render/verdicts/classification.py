"""Verdicts on classification and on confidence with correctness: accuracy, calibration, error detection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.registry.estimate import Estimate
from calibrant.registry.metric import NEEDS_LABELS
from calibrant.render.formatting import (
    format_number,
    format_percent,
)
from calibrant.render.verdicts.model import (
    InputVerdict,
    Point,
    Tone,
    bracketed_interval,
    calibration_points,
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
from calibrant.results.verdict import NOT_TESTED, UNTESTED

USEFUL_AUROC = 0.7
"""An AUROC of errors by uncertainty from which uncertainty identifies errors."""
REJECTED = 0.1
"""The share of least certain rows to reject in the example."""
IDENTIFIES = "uncertainty identifies errors"
PARTIAL = "uncertainty identifies some errors"
MISLEADS = "uncertainty is misleading"
INCONCLUSIVE = "inconclusive whether uncertainty identifies errors"


def classification_verdict(result: Result, facts: Mapping[str, Any], context: tuple[Point, ...]) -> InputVerdict:
    """The verdict on one input; `context` holds its points on groups, shift and impossible outcomes."""
    belief = mean_belief(result)
    if math.isnan(belief.accuracy) and any(why.code == NEEDS_LABELS.code for why in result.skipped.values()):
        return _without_labels(result, facts, context)
    calibration, errors = calibration_points(result), _error_detection(result, belief)
    optional = (_accuracy(belief, facts), *calibration, errors, _members(result, facts))
    points = (*(point for point in optional if point is not None), *context, *next_step(result))
    if result.verdict is not None and result.verdict.status != NOT_TESTED:
        finding = "" if errors is None else errors.text.partition(":")[0]
        tail = finding if finding in (IDENTIFIES, PARTIAL, MISLEADS) else ""
        text = result.verdict.headline
        shorter = [f"{text.partition('; ')[0]}; {tail}"] if tail == MISLEADS else []
        head = headline(*([f"{text}; {tail}", *shorter] if tail else []), text)
    elif math.isnan(belief.accuracy):
        head = "Neither accuracy nor calibration was requested"
    else:
        confidence = "" if math.isnan(belief.confidence) else f", mean confidence {format_percent(belief.confidence)}"
        text = f"Accuracy {format_percent(belief.accuracy)}{confidence} (n = {facts['n']})"
        untested = UNTESTED if result.verdict is None else result.verdict.headline
        head = headline(f"{text}; {untested[:1].lower()}{untested[1:]}", text)
    return InputVerdict(result.input, head, tone_of_input(result, points), points, word_of(result))


def _accuracy(belief: Belief, facts: Mapping[str, Any]) -> Point | None:
    if math.isnan(belief.accuracy):
        return None
    text = f"accuracy {format_percent(belief.accuracy)}"
    if not math.isnan(belief.confidence):
        text += f", mean confidence {format_percent(belief.confidence)}"
    numbers = () if belief.estimate is None else (format_estimate("accuracy", belief.estimate),)
    return Point("neutral", "accuracy", text + tiny_note(int(facts["n"])), numbers)


def _error_detection(result: Result, belief: Belief) -> Point | None:
    """Whether the uncertain rows are the wrong ones."""
    e = result.metrics.get("misclassification_auroc")
    if e is None:
        return None
    if math.isnan(e.value):
        reasons = {1.0: "the model made no errors", 0.0: "the model is always wrong"}
        return Point("neutral", "errors", f"{INCONCLUSIVE}: {reasons.get(belief.accuracy, 'AUROC is undefined')}")
    finding: str = INCONCLUSIVE
    tone: Tone = "neutral"
    if has_interval(e):
        if e.low >= USEFUL_AUROC:
            finding, tone = IDENTIFIES, "good"
        elif e.low > 0.5:
            finding = PARTIAL
        elif e.high < 0.5:
            finding, tone = MISLEADS, "bad"
    parts = [f"AUROC {format_number(e.value)}{bracketed_interval(e)}"]
    parts += ["0.5 is chance level"] if finding == INCONCLUSIVE else _rejection(result)
    return Point(tone, "errors", f"{finding}: {'; '.join(parts)}", (format_estimate("misclassification_auroc", e),))


def _rejection(result: Result) -> list[str]:
    """The error rate before and after rejecting the least certain rows."""
    curve = result.curves.get("rejection")
    if not curve or not curve["accuracy"]:
        return []
    accuracy = dict(zip((round(x, 6) for x in curve["rejected"]), curve["accuracy"], strict=True))
    if REJECTED not in accuracy or 0.0 not in accuracy:
        return []
    before, after = 1.0 - accuracy[0.0], 1.0 - accuracy[REJECTED]
    how = "lowers" if after < before else "leaves" if after == before else "raises"
    change = f"from {format_percent(before)} to {format_percent(after)}"
    change = f"at {format_percent(before)}" if after == before else change
    return [f"rejecting the {format_percent(REJECTED, 0)} least certain rows {how} the error rate {change}"]


# ------------------------------------------------------------------------------------------------ members
def shared_uncertainty(facts: Mapping[str, Any]) -> Point | None:
    """Why the mean of an ensemble may look miscalibrated for a good reason."""
    if int(facts["members"]) < 2:
        return None
    text = "ensembles can look miscalibrated because members err together; run `calibrant check` to test for this"
    return Point("neutral", "members", text)


def _members(result: Result, facts: Mapping[str, Any]) -> Point | None:
    """The epistemic share of the entropy."""
    entropy, information = (result.metrics.get(name) for name in ("entropy", "mutual_information"))
    if entropy is None or information is None or not entropy.value > 0.0 or not math.isfinite(information.value):
        return None
    share = format_percent(information.value / entropy.value, 0)
    text = (
        f"{share} of its entropy is epistemic ({facts['members']} members disagree; mutual information "
        f"{format_number(information.value)})"
    )
    numbers = (format_estimate("mutual_information", information), format_estimate("entropy", entropy))
    return Point("neutral", "members", text, numbers)


# ---------------------------------------------------------------------------------------------- no labels
def _without_labels(result: Result, facts: Mapping[str, Any], context: tuple[Point, ...]) -> InputVerdict:
    points = [Point("neutral", "labels", "no labels: accuracy, calibration and error detection cannot be assessed")]
    entropy = result.metrics.get("entropy")
    if entropy is not None and math.isfinite(entropy.value):
        maximum = f"; the maximum is {format_number(math.log(facts['classes']))}" if facts.get("classes", 0) > 1 else ""
        text = f"mean entropy {format_number(entropy.value)}{bracketed_interval(entropy)} nats{maximum}"
        points.append(Point("neutral", "uncertainty", text, (format_estimate("entropy", entropy),)))
    members = _members(result, facts)
    points += [] if members is None else [members]
    head = "No labels: confidence can be summarised, accuracy and calibration cannot"
    return InputVerdict(result.input, head, worst(p.tone for p in context), (*points, *context), "not assessed")


WEIGHT_TOLERANCE = 1e-6
"""Larger differences between a curve's accuracy and the metric mean that rows have weights, which curves ignore."""


@dataclass(frozen=True)
class Belief:
    """Mean confidence and accuracy; NaN where unknown."""

    confidence: float
    accuracy: float
    estimate: Estimate | None
    """The accuracy metric."""

    @property
    def gap(self) -> float:
        """Positive for an overconfident model."""
        return self.confidence - self.accuracy


def mean_belief(result: Result) -> Belief:
    """From the accuracy and the reliability curve; for weighted rows from the ratio of observed to expected."""
    estimate, curve = result.metrics.get("accuracy"), result.curves.get("reliability")
    accuracy = math.nan if estimate is None else estimate.value
    if curve and (total := sum(curve["n"])) > 0:
        confidence, correct = (
            sum(n * x for n, x in zip(curve["n"], curve[column], strict=True)) / total
            for column in ("confidence", "accuracy")
        )
        if estimate is None or abs(correct - accuracy) < WEIGHT_TOLERANCE:
            return Belief(confidence, correct, estimate)
    ratio = result.metrics.get("o_e")
    if ratio is None or estimate is None or not ratio.value > 0:
        return Belief(math.nan, accuracy, estimate)
    return Belief(accuracy / ratio.value, accuracy, estimate)
