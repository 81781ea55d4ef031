"""The verdict on calibration: one fixed family of tests per kind of prediction, judged by one set of rules.

- Family. Binary: mean p − rate, calibration slope, ECE of P(positive). Multi-class: top-label ECE, class-wise error,
  NLL − entropy (the score test of T = 1). Confidence and correctness: mean confidence − accuracy, slope, ECE.
  Regression: mean PIT, coverage, MACE.
- Decision. Holm's correction within the family, at 3%. `miscalibrated`: a test rejects, and the interval of some error
  reaches its relevant size. `negligible`: a test rejects, and all intervals end below it. `calibrated`: none rejects,
  and each error of relevant size would be detected with 80% power. `inconclusive`: none rejects, and there are too few
  rows to say so. `not_tested`: no labels, or no calibration error was requested.
- Direction. Binary: of the positive class and its rate, never of the top label, which points the wrong way on rare
  events. Multi-class: mean confidence − accuracy and NLL − entropy; `mixed` where they disagree. Regression: bias, too
  narrow, too wide.
- Where rows depend on each other (units) or labels are soft, labels cannot be redrawn: means are tested by Student's t,
  errors by their interval at the level of the correction, and an interval of width zero is no evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from calibrant.errors import plain
from calibrant.intervals import normal_quantile
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import find, metric_label
from calibrant.render.formatting import (
    count,
    format_interval,
    format_number,
    format_p_value,
    format_percent,
    format_percent_pair,
)
from calibrant.render.verdicts.model import class_phrase, headline
from calibrant.results.verdict import (
    CALIBRATED,
    INCONCLUSIVE,
    MISCALIBRATED,
    NEGLIGIBLE,
    NOT_TESTED,
    UNTESTED,
    CalibrationTest,
    Evidence,
    Verdict,
    relevant_to_rate,
)

FAMILY_LEVEL = 0.03
"""The probability of accusing a calibrated model."""
DIRECTION_LEVEL = 0.05
"""Once the family rejects, the level at which a statistic shows the direction."""
POWER_QUANTILE = 0.8416212335729143
"""Φ⁻¹(0.8)."""
DOMINANT = 2.0
"""How many times larger the errors of classes are than that of the top label where a headline is about classes."""
FEWEST_ROWS = 32
"""Rows below which no model is called calibrated: 32 right answers of certainty show an accuracy above 95%."""
NOTIONS = {
    "binary": "probability of the positive class",
    "classes": "top label and every class",
    "judged": "confidence",
    "regression": "predictive distributions",
}


@dataclass(frozen=True)
class Subject:
    """What a verdict speaks of."""

    n: int
    members: int = 1
    positive: str = ""
    """The positive class, or empty where it has no name of its own."""
    dependent: bool = False
    """Whether rows depend on each other."""
    level: float = 0.95
    resamples: int = 1000


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (Holm 1979): max over the smaller ones of (m − i)·p_(i); NaN where there is none."""
    known = sorted((p, k) for k, p in enumerate(p_values) if not math.isnan(p))
    out, largest = [math.nan] * len(p_values), 0.0
    for place, (p, k) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - place) * p))
        out[k] = largest
    return out


def judge(evidence: Evidence, subject: Subject, relevant_error: float | None = None) -> Verdict:
    """The verdict that the evidence of one input gives."""
    tests = _tested(evidence, subject, relevant_error)
    known = [test for test in tests if test.tested]
    notion = NOTIONS[evidence.kind]
    if not known:
        reasons = "; ".join(dict.fromkeys(test.reason for test in tests if test.reason)) or "nothing could be estimated"
        return Verdict(NOT_TESTED, headline=UNTESTED, details=(reasons,), evidence=tests, notion=notion)
    errors = [test for test in tests if not math.isnan(test.relevant_error)]
    rejected = [test for test in known if test.rejected]
    verdict = Verdict(INCONCLUSIVE, notion=notion, evidence=tests, positive=subject.positive, classes=evidence.classes)
    details = tuple(describe(test, evidence.kind) for test in tests)[:3]
    if rejected:
        relevant = any(test.largest >= test.relevant_error for test in errors if math.isfinite(test.largest))
        unknown = not any(math.isfinite(test.largest) for test in errors)
        status = MISCALIBRATED if relevant or unknown else NEGLIGIBLE
        direction = DIRECTIONS_OF[evidence.kind](evidence, tests)
        by_class = evidence.kind == "classes" and (only_classes_are_off(tests) or errors_of_classes_dominate(tests))
        step = fix(evidence.kind, direction, subject.members, by_class=by_class)
        return replace(
            verdict, status=status, direction=direction, details=details,
            headline=_rejected_headline(status, evidence, tests, direction, subject),
            next_step=step if status == MISCALIBRATED else "",
        )  # fmt: skip
    needed = _rows_needed(errors, subject)
    if needed <= subject.n and subject.n >= FEWEST_ROWS:
        rows = count(subject.n, "row")
        texts = (f"Well calibrated: no significant miscalibration in {rows}", f"Well calibrated (n = {subject.n})")
        return replace(verdict, status=CALIBRATED, details=details, headline=headline(*texts))
    verb = "is" if subject.n == 1 else "are"
    text = f"{count(subject.n, 'row')} {verb} too few to tell this model from a calibrated one"
    few = 2.0 / (subject.resamples + 1.0) > FAMILY_LEVEL / max(len(known), 1)
    step = collect_rows(needed)
    if few:
        step = f"{subject.resamples} resamples are too few for a decision: use --resamples 1000"
    return replace(
        verdict, details=details, headline=headline(text, f"Inconclusive: only {count(subject.n, 'row')}"),
        next_step=step, rows_needed=int(needed) if math.isfinite(needed) else 0,
    )  # fmt: skip


def _tested(evidence: Evidence, subject: Subject, relevant_error: float | None) -> tuple[CalibrationTest, ...]:
    """The tests of the family with Holm's correction."""
    specs = list(evidence.tests)
    usable = [e.p_value if math.isfinite(e.value) or math.isinf(e.value) else math.nan for e in evidence.tests.values()]
    adjusted = holm(usable)
    family = max(sum(not math.isnan(p) for p in usable), 1)
    scale = normal_quantile(1.0 - FAMILY_LEVEL / family) + POWER_QUANTILE
    scale /= normal_quantile(subject.level) + POWER_QUANTILE
    tests = []
    for spec, p, corrected in zip(specs, usable, adjusted, strict=True):
        e, metric = evidence.tests[spec], find(spec.partition("(")[0])
        reason = evidence.missing.get(spec, "") or ("" if not math.isnan(p) else "it cannot be estimated")
        relevant = metric.relevant_error
        if relevant_error is not None and not math.isnan(relevant):
            relevant = relevant_error
        elif evidence.kind == "binary" and evidence.shares is not None:
            relevant = relevant_to_rate(relevant, *evidence.shares)
        test = CalibrationTest(
            spec, e, metric.expected, p, corrected, corrected <= FAMILY_LEVEL, relevant, scale * e.detectable, reason
        )
        tests.append(test)
    for spec, reason in evidence.missing.items():
        if spec not in evidence.tests:
            none, expected = Estimate.of(math.nan, subject.n), find(spec.partition("(")[0]).expected
            tests.append(CalibrationTest(spec, none, expected, math.nan, math.nan, False, reason=reason))
    return tuple(tests)


def _rows_needed(errors: Sequence[CalibrationTest], subject: Subject) -> float:
    """The number of rows from which each error of relevant size is detected; infinite where that is unknown."""
    needed = 0.0
    for test in errors:
        if not test.tested:
            continue
        smallest = test.detectable if math.isfinite(test.detectable) else test.largest
        if not math.isfinite(smallest):
            return math.inf
        needed = max(needed, subject.n * (smallest / test.relevant_error) ** 2)
    return max(math.ceil(needed), FEWEST_ROWS) if errors else math.inf


def collect_rows(needed: float) -> str:
    """The advice to collect so many rows, to two significant digits."""
    if not math.isfinite(needed):
        return "collect more rows"
    unit = 10 ** max(len(str(int(needed))) - 2, 0)
    return f"collect about {math.ceil(needed / unit) * unit:,} rows in total"


# ---------------------------------------------------------------------------------------------- direction
def _sign(e: Estimate | None, expected: float, level: float = DIRECTION_LEVEL) -> int:
    """1 or −1 where a statistic is significantly above or below its expected value, else 0."""
    if e is None or not e.p_value <= level or math.isinf(e.value):  # a single impossible outcome has no direction
        return 0
    return 1 if e.value > expected else -1 if e.value < expected else 0


def _find(tests: Mapping[str, Estimate], name: str) -> Estimate | None:
    return next((e for spec, e in tests.items() if spec.partition("(")[0] == name), None)


def _sign_of(evidence: Evidence, name: str) -> int:
    return _sign(_find({**evidence.tests, **evidence.direction}, name), find(name).expected)


def _binary_direction(evidence: Evidence, tests: Sequence[CalibrationTest]) -> tuple[str, ...]:
    gap, slope = _sign_of(evidence, "mean_gap"), _sign_of(evidence, "slope")
    words = {1: "overestimates", -1: "underestimates"}
    shapes = {-1: "too_extreme", 1: "not_extreme_enough"}
    return tuple(word for word in (words.get(gap), shapes.get(slope)) if word)


def only_classes_are_off(tests: Sequence[CalibrationTest]) -> bool:
    """Whether the class-wise error is of relevant size, and the first error, that of the top label, is not."""
    sized = [test for test in tests if test.tested and not math.isnan(test.relevant_error)]
    return (
        len(sized) > 1
        and abs(sized[0].deviation) < sized[0].relevant_error
        and any(test.smallest >= test.relevant_error for test in sized[1:])
    )


def errors_of_classes_dominate(tests: Sequence[CalibrationTest]) -> bool:
    """Whether the class-wise error is much larger than the first error, that of the top label.

    Both without what chance gives, in quadrature.
    """
    sized = []
    for test in tests:
        if test.tested and not math.isnan(test.relevant_error):
            chance = 0.5 * (test.estimate.null_low + test.estimate.null_high)
            chance = chance if math.isfinite(chance) else 0.0
            sized.append(math.sqrt(max(test.estimate.value**2 - chance**2, 0.0)))
    return len(sized) > 1 and max(sized[1:]) > DOMINANT * sized[0]


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


def _class_direction(evidence: Evidence, tests: Sequence[CalibrationTest]) -> tuple[str, ...]:
    if only_classes_are_off(tests):
        return ()
    gap, entropy = _sign_of(evidence, "mean_gap"), _sign_of(evidence, "entropy_gap")
    if gap * entropy < 0:
        return ("mixed",)
    sign = gap or entropy
    return (("overconfident",) if sign > 0 else ("underconfident",)) if sign else ()


def _judged_direction(evidence: Evidence, tests: Sequence[CalibrationTest]) -> tuple[str, ...]:
    gap, slope = _sign_of(evidence, "mean_gap"), _sign_of(evidence, "slope")
    words = {1: "overconfident", -1: "underconfident"}
    shapes = {-1: "too_extreme", 1: "not_extreme_enough"}
    return tuple(word for word in (words.get(gap), shapes.get(slope)) if word)


def _regression_direction(evidence: Evidence, tests: Sequence[CalibrationTest]) -> tuple[str, ...]:
    bias, coverage = _sign_of(evidence, "pit"), _sign_of(evidence, "coverage_gap")
    if coverage < 0 and bias and not _pits_spread_too_far(_find(evidence.tests, "pit")):
        coverage = 0  # a shifted distribution covers less, whatever its width
    spread = {-1: "too_narrow", 1: "too_wide"}.get(coverage)
    shift = {1: "biased_low", -1: "biased_high"}.get(bias)
    relative = {test.metric.partition("(")[0]: abs(test.deviation) for test in tests}
    pair = (shift, spread)
    if relative.get("coverage_gap", 0.0) > relative.get("pit", 0.0):
        pair = (spread, shift)
    return tuple(word for word in pair if word)


def _pits_spread_too_far(pit: Estimate | None) -> bool:
    """Whether the variance of the PIT about its own mean is significantly above that of a uniform variable, 1/12."""
    if pit is None or not math.isfinite(pit.low):
        return True
    error = (pit.high - pit.low) / 2.0 / normal_quantile(pit.level)
    ratio = 12.0 * pit.n * error**2
    return ratio - 1.0 > normal_quantile(1.0 - DIRECTION_LEVEL) * math.sqrt(0.8 / pit.n)


DIRECTIONS_OF: dict[str, Callable[[Evidence, Sequence[CalibrationTest]], tuple[str, ...]]] = {
    "binary": _binary_direction,
    "classes": _class_direction,
    "judged": _judged_direction,
    "regression": _regression_direction,
}


# ----------------------------------------------------------------------------------------------- sentences
def describe(test: CalibrationTest, kind: str) -> str:
    """One line on one test: the value, what a calibrated model gives, and what the correction says."""
    label, e = _label(test.metric, kind), test.estimate
    if not test.tested:
        return f"{label} not tested: {test.reason}"
    text = f"{label} {format_number(e.value)}"
    parts = []
    interval = format_interval(e.null_low, e.null_high)
    if math.isfinite(e.null_high):
        parts.append(f"{interval} if calibrated")
    elif math.isfinite(e.low):
        parts.append(f"{100 * e.level:g}% interval {format_interval(e.low, e.high)}")
    parts.append(format_p_value(test.p_value, "p"))
    text += f" ({', '.join(parts)})"
    if not test.rejected and test.p_value < DIRECTION_LEVEL:
        text += ": not significant after correction"
    elif not test.rejected and math.isfinite(test.detectable) and not math.isnan(test.relevant_error):
        text += f"; 80% power to detect {format_number(test.detectable)}"
    return text


def _name(spec: str) -> str:
    return spec.partition("(")[0]


def _label(spec: str, kind: str) -> str:
    """The name of a test; of a binary one without its class, which the verdict names."""
    if kind != "binary" and spec == "mean_gap":
        return "mean confidence − accuracy"
    return metric_label(_name(spec) if kind == "binary" else spec)


def fix(kind: str, direction: Sequence[str] = (), members: int = 1, by_class: bool = False) -> str:
    """The advice to recalibrate; what the members expect comes first."""
    method = {"binary": "beta", "judged": "beta", "regression": "variance"}.get(kind, "temperature")
    if by_class:
        method = "vector"
    elif direction and direction[0].startswith("biased"):
        method = "levels"  # a change of variances leaves the bias
    step = f"recalibrate on held-out rows: `calibrant recalibrate --fit VALIDATION --apply TEST --method {method}`"
    return f"members may expect this: run `calibrant check`; or {step}" if members > 1 else step


def _rejected_headline(
    status: str, evidence: Evidence, tests: Sequence[CalibrationTest], direction: tuple[str, ...], subject: Subject
) -> str:
    errors = [test for test in tests if not math.isnan(test.relevant_error) and math.isfinite(test.estimate.value)]
    order = sorted(errors, key=lambda test: (not test.rejected, not find(_name(test.metric)).is_calibration_error))
    main = order[0] if order else tests[0]
    if only_classes := evidence.kind == "classes" and only_classes_are_off(tests):
        main = max(order, key=lambda test: test.smallest)
    size = f"{_label(main.metric, evidence.kind)} {format_number(main.estimate.value)}"
    if status == NEGLIGIBLE:
        return headline(f"Miscalibration is detectable but small: {size}", f"Detectable but small: {size}")
    if evidence.kind == "classes" and _classes_stand_out(evidence, tests):
        most = class_phrase(evidence.classes, most=1, numbers=True)
        texts = (class_phrase(evidence.classes, numbers=True), most.partition("; ")[0], class_phrase(evidence.classes))
        return headline(*(_upper(text) for text in texts), f"Miscalibrated by class: {size}")
    if only_classes:
        return headline(f"Miscalibrated by class; no single class stands out: {size}", f"Miscalibrated: {size}")
    makers = {"binary": _binary_headline, "classes": _class_headline, "judged": _judged_headline}
    if evidence.kind == "regression":
        return _regression_headline(evidence, direction, size)
    return makers[evidence.kind](evidence, direction, size, subject)


def _shares(evidence: Evidence) -> tuple[float, float]:
    """Mean prediction and observed share."""
    shares = evidence.shares
    return shares if shares is not None else (math.nan, math.nan)


def _binary_headline(evidence: Evidence, direction: tuple[str, ...], size: str, subject: Subject) -> str:
    slope = _find(evidence.tests, "slope")
    shape = ""
    if slope is not None and ("too_extreme" in direction or "not_extreme_enough" in direction):
        word = "too extreme" if "too_extreme" in direction else "not extreme enough"
        shape = f"{word} (calibration slope {slope.value:.2f})"
    predicted, observed = format_percent_pair(*_shares(evidence))
    verb = "Overestimates" if "overestimates" in direction else "Underestimates"
    if "overestimates" in direction or "underestimates" in direction:
        if subject.positive:
            text = f"{verb} '{plain(subject.positive, 30)}': predicts {predicted}, {observed} observed"
        else:
            text = f"{verb} risk: predicts {predicted} positives, {observed} occur"
        return headline(f"{text}; {shape}", text) if shape else headline(text)
    what = f"P('{plain(subject.positive, 30)}')" if subject.positive else "risks"
    if shape:
        verb = "is" if subject.positive else "are"
        return headline(f"Predicted {what} {verb} {shape}")
    return headline(f"Miscalibrated, though predicted and observed rates agree: {size}", f"Miscalibrated: {size}")


def _class_headline(evidence: Evidence, direction: tuple[str, ...], size: str, subject: Subject) -> str:
    predicted, observed = _shares(evidence)
    confidence, accuracy = format_percent_pair(predicted, observed)
    if direction in (("overconfident",), ("underconfident",)):
        word = direction[0].capitalize()
        entropy = _find(evidence.tests, "entropy_gap")
        if _sign_of(evidence, "mean_gap") or entropy is None:
            return headline(f"{word}: mean confidence {confidence}, accuracy {accuracy}")
        side = "higher" if entropy.value > 0 else "lower"
        return headline(f"{word}: NLL is {format_number(abs(entropy.value))} {side} than the model expects")
    if direction == ("mixed",):
        return headline(
            f"Mixed: mean confidence {confidence}, accuracy {accuracy}, but NLL points the other way",
            f"Miscalibrated in both directions: {size}",
        )
    return headline(f"Miscalibrated, though mean confidence matches accuracy: {size}", f"Miscalibrated: {size}")


def _judged_headline(evidence: Evidence, direction: tuple[str, ...], size: str, subject: Subject) -> str:
    confidence, accuracy = format_percent_pair(*_shares(evidence))
    if direction and direction[0] in ("overconfident", "underconfident"):
        return headline(f"{direction[0].capitalize()}: mean confidence {confidence}, accuracy {accuracy}")
    slope = _find(evidence.tests, "slope")
    if direction and slope is not None:
        word = "too extreme" if direction[0] == "too_extreme" else "not extreme enough"
        return headline(f"Confidence is {word}: calibration slope {slope.value:.2f} (1 if calibrated)")
    return headline(f"Miscalibrated, though mean confidence matches accuracy: {size}", f"Miscalibrated: {size}")


def _regression_headline(evidence: Evidence, direction: tuple[str, ...], size: str) -> str:
    coverage, bias = _find(evidence.tests, "coverage_gap"), _find(evidence.tests, "pit")
    texts = []
    for word in direction:
        if word in ("too_narrow", "too_wide") and coverage is not None:
            gap = format_percent(abs(coverage.value)).removesuffix("%")
            side = "below" if coverage.value < 0 else "above"
            texts.append(f"{word.replace('_', ' ')} (coverage {gap} points {side} nominal)")
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
