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
from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibrant.calibration.null_mean import detectable_shift, rows_to_detect
from calibrant.intervals import normal_quantile
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import find
from calibrant.render.formatting import count
from calibrant.render.verdicts.calibration_text import FITTED, describe, is_too_low, rejected_headline
from calibrant.render.verdicts.direction import (
    direction_of,
    errors_of_classes_dominate,
    find_test,
    holm,
    only_classes_are_off,
)
from calibrant.render.verdicts.model import headline
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
POWER_QUANTILE = 0.8416212335729143
"""Φ⁻¹(0.8)."""
FEWEST_ROWS = 32
"""Rows below which no model is called calibrated."""
ROUNDING = 1e-12
"""Slack of comparisons of p-values with the level."""
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


def judge(evidence: Evidence, subject: Subject, relevant_error: float | None = None) -> Verdict:
    """The verdict that the evidence of one input gives."""
    tests = _tested(evidence, subject, relevant_error)
    known = [test for test in tests if test.tested]
    notion = NOTIONS[evidence.kind]
    untested = [test for test in tests if not test.tested and find(_name(test.metric)).is_calibration_error]
    if untested and known:
        notion += f"; {', '.join(PARTS.get(_name(test.metric), test.metric) for test in untested)} not tested"
    notion += "; of the averaged prediction on these rows" * (subject.members > 1)
    if not known:
        reasons = "; ".join(dict.fromkeys(test.reason for test in tests if test.reason)) or "nothing could be estimated"
        return Verdict(NOT_TESTED, headline=UNTESTED, details=(reasons,), evidence=tests, notion=notion)
    predicted, observed = evidence.shares or (math.nan, math.nan)
    rejected = [test for test in known if test.rejected]
    verdict = Verdict(
        INCONCLUSIVE, notion=notion, evidence=tests, positive=subject.positive, classes=evidence.classes,
        predicted=predicted, observed=observed, details=tuple(describe(test, evidence.kind) for test in tests)[:3],
    )  # fmt: skip
    if rejected:
        return _rejected(verdict, evidence, subject)
    if 2.0 / (subject.resamples + 1.0) > FAMILY_LEVEL / len(known) * (1.0 + ROUNDING):
        text = f"{subject.resamples} resamples are too few for a decision"
        return replace(verdict, headline=headline(text), next_step="use --resamples 1000")
    sized = [test for test in known if not math.isnan(test.relevant_error)]
    needed = _rows_needed(sized, evidence, subject) if sized or not untested else 0.0
    enough = needed <= subject.n and subject.n >= FEWEST_ROWS
    if enough and not untested:
        rows = count(subject.n, "row")
        texts = (f"Well calibrated: no significant miscalibration in {rows}", f"Well calibrated (n = {subject.n})")
        return replace(verdict, status=CALIBRATED, headline=headline(*texts))
    if enough:
        part = " and ".join(PARTS.get(_name(test.metric), test.metric) for test in untested)
        text = f"Inconclusive: {part} not tested ({untested[0].reason})"
        step = f"{REMEDIES.get(evidence.kind, 'evaluate rows with hard labels')}, to test {part} too"
        return replace(verdict, headline=headline(text, f"Inconclusive: {part} not tested"), next_step=step)
    verb = "is" if subject.n == 1 else "are"
    text = f"{count(subject.n, 'row')} {verb} too few to tell this model from a calibrated one"
    return replace(
        verdict, headline=headline(text, f"Inconclusive: only {count(subject.n, 'row')}"),
        next_step=collect_rows(needed), rows_needed=int(needed) if math.isfinite(needed) else 0,
    )  # fmt: skip


def suspicion(verdict: Verdict) -> str:
    """A warning where an error is far below what chance gives; empty where none is."""
    low = [test.metric for test in verdict.evidence if is_too_low(test)]
    return f"{' and '.join(low)} {'is' if len(low) == 1 else 'are'} {FITTED}" if low else ""


PARTS = {"cwce": "classes", "ece": "the calibration error", "mace": "the shape of distributions"}
"""What an error of the family tests, in the words of a headline."""
REMEDIES = {
    "classes": "evaluate rows with hard labels, and without weights and units",
    "regression": "evaluate rows without units",
}


def _rejected(verdict: Verdict, evidence: Evidence, subject: Subject) -> Verdict:
    """Miscalibrated, or negligibly so where the interval of each error ends below its relevant size."""
    tests, kind = verdict.evidence, evidence.kind
    largest = [t.largest - t.relevant_error for t in tests if t.tested and math.isfinite(t.largest - t.relevant_error)]
    status = MISCALIBRATED if not largest or max(largest) >= 0.0 else NEGLIGIBLE
    direction = direction_of(evidence, tests)
    by_class = kind == "classes" and (only_classes_are_off(tests) or errors_of_classes_dominate(tests))
    step = fix(kind, direction, subject.members, by_class=by_class) if status == MISCALIBRATED else ""
    text = rejected_headline(status, evidence, tests, direction, subject.positive)
    return replace(verdict, status=status, direction=direction, headline=text, next_step=step)


def _name(spec: str) -> str:
    return spec.partition("(")[0]


def _tested(evidence: Evidence, subject: Subject, relevant_error: float | None) -> tuple[CalibrationTest, ...]:
    """The tests of the family with Holm's correction."""
    specs = list(evidence.tests)
    usable = [
        math.nan if math.isnan(e.value) or spec in evidence.missing else e.p_value for spec, e in evidence.tests.items()
    ]
    adjusted = holm(usable)
    family = max(sum(not math.isnan(p) for p in usable), 1)
    scale = normal_quantile(1.0 - FAMILY_LEVEL / family) + POWER_QUANTILE
    factor = scale / (normal_quantile(subject.level) + POWER_QUANTILE)
    variance = _variance_of_count(evidence, subject)
    fewest = detectable_shift(variance, subject.n, FAMILY_LEVEL / family) if math.isfinite(variance) else 0.0
    tests = []
    for spec, p, corrected in zip(specs, usable, adjusted, strict=True):
        e, metric = evidence.tests[spec], find(_name(spec))
        reason = evidence.missing.get(spec, "") or ("" if not math.isnan(p) else "not estimable from these outcomes")
        relevant = metric.relevant_error
        if relevant_error is not None and not math.isnan(relevant):
            relevant = relevant_error
        elif evidence.kind == "binary" and evidence.shares is not None:
            relevant = relevant_to_rate(relevant, *evidence.shares)
        detectable = factor * e.detectable
        if math.isnan(detectable) and e.high > e.low:  # rows that depend on each other: by the width of the interval
            detectable = scale * 0.5 * (e.high - e.low) / normal_quantile(e.level)
        if not math.isnan(relevant) and not math.isnan(detectable):
            detectable = max(detectable, fewest)
        rejected = corrected <= FAMILY_LEVEL * (1.0 + ROUNDING)
        tests.append(CalibrationTest(spec, e, metric.expected, p, corrected, rejected, relevant, detectable, reason))
    for spec, reason in evidence.missing.items():
        if spec not in evidence.tests:
            none, expected = Estimate.of(math.nan, subject.n), find(_name(spec)).expected
            tests.append(CalibrationTest(spec, none, expected, math.nan, math.nan, False, reason=reason))
    return tuple(tests)


def _variance_of_count(evidence: Evidence, subject: Subject) -> float:
    """The variance of the number of right answers (or positives) if predictions are right; NaN where not known."""
    gap = find_test({**evidence.tests, **evidence.direction}, "mean_gap")
    if evidence.kind == "regression" or gap is None or math.isnan(gap.null_high):
        return math.nan
    return (gap.detectable * subject.n / (normal_quantile(subject.level) + POWER_QUANTILE)) ** 2


def _rows_needed(errors: Sequence[CalibrationTest], evidence: Evidence, subject: Subject) -> float:
    """The number of rows from which each error of relevant size is detected; infinite where that is unknown."""
    if not errors:
        return math.inf
    needed, variance = 0.0, _variance_of_count(evidence, subject)
    family = max(sum(not math.isnan(e.p_value) for e in evidence.tests.values()), 1)
    for test in errors:
        if not math.isfinite(test.detectable):
            return math.inf
        if test.detectable <= test.relevant_error:
            continue
        quadratic = subject.n * (test.detectable / test.relevant_error) ** 2
        if math.isfinite(variance) and variance < FEW_SURPRISES:
            rows = rows_to_detect(variance / subject.n, test.relevant_error, FAMILY_LEVEL / family)
            quadratic = min(quadratic, max(float(rows), subject.n + 1.0))
        needed = max(needed, quadratic)
    return max(math.ceil(needed), FEWEST_ROWS)


FEW_SURPRISES = 25.0
"""Expected surprises below which the number of rows follows from counts."""


def collect_rows(needed: float) -> str:
    """The advice to collect so many rows, to two significant digits."""
    if not math.isfinite(needed):
        return "collect more rows"
    unit = 10 ** max(len(str(int(needed))) - 2, 0)
    return f"collect about {math.ceil(needed / unit) * unit:,} rows in total"


def fix(kind: str, direction: Sequence[str] = (), members: int = 1, by_class: bool = False) -> str:
    """The advice to recalibrate; what the members expect comes first."""
    method = {"binary": "beta", "judged": "beta", "regression": "variance"}.get(kind, "temperature")
    if by_class:
        method = "vector"
    elif any(word.startswith("biased") for word in direction):
        method = "levels"  # a change of variances leaves the bias
    step = f"recalibrate on held-out rows: `calibrant recalibrate --fit VALIDATION --apply TEST --method {method}`"
    if members == 1:
        return step
    return f"this is the averaged prediction on these rows; members may expect this: run `calibrant check`; or {step}"
