"""In which direction a miscalibrated model errs, and which of its errors dominates.

A rejected test shows that labels do not follow the predictions, and so not the standard errors that predictions imply
either: directions are tested by robust standard errors, from the interval of each statistic, with Holm's correction at
1%. Of the directions that are significant, those of relevant size are named, the largest error first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calibrant.intervals import normal_quantile
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import find
from calibrant.results.verdict import CalibrationTest, Evidence

DIRECTION_LEVEL = 0.01
"""The probability of naming a direction where a model has none."""
SECOND = 0.5
"""The share of the largest error from which another one is named too."""
DOMINANT = 2.0
"""How many times larger the errors of classes are than that of the top label where a headline is about classes."""
UNIFORM_LEVEL = 0.05
"""Level of the test whether PITs spread more than a shift explains."""


@dataclass(frozen=True)
class Word:
    """A direction, and how large the error in it is."""

    text: str
    size: float
    relevant: float = 0.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (Holm 1979): max over the smaller ones of (m − i)·p_(i); NaN where there is none."""
    known = sorted((p, k) for k, p in enumerate(p_values) if not math.isnan(p))
    out, largest = [math.nan] * len(p_values), 0.0
    for place, (p, k) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - place) * p))
        out[k] = largest
    return out


def find_test(tests: Mapping[str, Estimate], name: str) -> Estimate | None:
    """The estimate of this metric, whatever its options."""
    return next((e for spec, e in tests.items() if spec.partition("(")[0] == name), None)


def direction_of(evidence: Evidence, tests: Sequence[CalibrationTest]) -> tuple[str, ...]:
    """Some of `DIRECTIONS`, the largest error first; empty where no direction is significant."""
    if evidence.kind == "classes":
        return _of_classes(evidence, tests)
    if evidence.kind == "regression":
        return _of_regression(evidence, tests)
    binary = evidence.kind == "binary"
    gap, slope = _signs(evidence, ("mean_gap", "slope"))
    mean, shape = mean_and_shape(
        getattr(_find(tests, "mean_gap"), "deviation", 0.0), debiased(_find(tests, "ece")) if tests else 0.0
    )
    up, down = ("overestimates", "underestimates") if binary else ("overconfident", "underconfident")
    relevant = max((t.relevant_error for t in tests if not math.isnan(t.relevant_error)), default=0.0)
    words = []
    if gap:
        words.append(Word(up if gap > 0 else down, mean, relevant))
    if slope:
        words.append(Word("not_extreme_enough" if slope > 0 else "too_extreme", shape, relevant))
    return notable(words)


def notable(words: Sequence[Word]) -> tuple[str, ...]:
    """The largest error, and the other if it is of relevant size too, and not much smaller."""
    ordered = sorted(words, key=lambda word: -word.size)
    others = (word for word in ordered[1:] if word.size >= max(word.relevant, SECOND * ordered[0].size))
    return tuple(word.text for word in (*ordered[:1], *others))


def mean_and_shape(gap: float, error: float) -> tuple[float, float]:
    """The size of the error on average, and of what is left of the whole error without it, in quadrature."""
    return abs(gap), math.sqrt(max(error**2 - gap**2, 0.0)) if math.isfinite(error) else 0.0


def debiased(test: CalibrationTest | None) -> float:
    """An error without what chance gives, in quadrature."""
    if test is None or not math.isfinite(test.estimate.value):
        return 0.0
    chance = 0.5 * (test.estimate.null_low + test.estimate.null_high)
    return math.sqrt(max(test.estimate.value**2 - (chance**2 if math.isfinite(chance) else 0.0), 0.0))


def _find(tests: Sequence[CalibrationTest], name: str) -> CalibrationTest | None:
    return next((test for test in tests if test.metric.partition("(")[0] == name), None)


def robust_p_value(e: Estimate | None, expected: float) -> float:
    """Two-sided, by the standard error of the interval, which does not assume that predictions are right."""
    if e is None or not math.isfinite(e.value):  # a single impossible outcome has no direction
        return math.nan
    if not e.high > e.low:
        return e.p_value
    error = 0.5 * (e.high - e.low) / normal_quantile(e.level)
    return math.erfc(abs(e.value - expected) / error / math.sqrt(2.0))


def _signs(evidence: Evidence, names: Sequence[str]) -> list[int]:
    """For each statistic 1 or −1 where it is significantly above or below its expected value, else 0."""
    every = {**evidence.tests, **evidence.direction}
    estimates = [find_test(every, name) for name in names]
    expected = [find(name).expected for name in names]
    adjusted = holm([robust_p_value(e, x) for e, x in zip(estimates, expected, strict=True)])
    return [
        0 if e is None or not p <= DIRECTION_LEVEL else 1 if e.value > x else -1
        for e, x, p in zip(estimates, expected, adjusted, strict=True)
    ]


# ------------------------------------------------------------------------------------------ several classes
def only_classes_are_off(tests: Sequence[CalibrationTest]) -> bool:
    """Whether the class-wise error is of relevant size, and the first error, that of the top label, is not."""
    sized = [test for test in tests if test.tested and not math.isnan(test.relevant_error)]
    return (
        len(sized) > 1
        and abs(sized[0].deviation) < sized[0].relevant_error
        and any(test.rejected and test.smallest >= test.relevant_error for test in sized[1:])
    )


def errors_of_classes_dominate(tests: Sequence[CalibrationTest]) -> bool:
    """Whether a class-wise error is significant, and much larger than the first error, that of the top label.

    Both without what chance gives, in quadrature.
    """
    sized = [test for test in tests if test.tested and not math.isnan(test.relevant_error)]
    classwise = [debiased(test) for test in sized[1:] if test.rejected]
    return bool(classwise) and max(classwise) > DOMINANT * debiased(sized[0])


def _of_classes(evidence: Evidence, tests: Sequence[CalibrationTest]) -> tuple[str, ...]:
    if only_classes_are_off(tests):
        return ()
    gap, entropy = _signs(evidence, ("mean_gap", "entropy_gap"))
    loss = _find(tests, "entropy_gap")
    if gap and not entropy and loss is not None and loss.rejected:
        entropy = 1 if loss.deviation > 0.0 else -1  # not significant by a robust error, but no agreement either
    if gap * entropy < 0:
        return ("mixed",)
    sign = gap or entropy or _agreeing_sign(evidence, loss)
    return (("overconfident",) if sign > 0 else ("underconfident",)) if sign else ()


AGREEMENT_LEVEL = 0.05
"""The level of one statistic at which it shows a direction that another one shares."""


def _agreeing_sign(evidence: Evidence, loss: CalibrationTest | None) -> int:
    """The sign of NLL − entropy, if that is rejected and mean confidence − accuracy has the same sign."""
    gap = find_test(evidence.direction, "mean_gap")
    if loss is None or not loss.rejected or gap is None or not gap.value * loss.deviation > 0.0:
        return 0
    p = min(robust_p_value(gap, 0.0), robust_p_value(loss.estimate, 0.0))
    return 0 if not p <= AGREEMENT_LEVEL else 1 if gap.value > 0.0 else -1


# ---------------------------------------------------------------------------------------------- regression
def _of_regression(evidence: Evidence, tests: Sequence[CalibrationTest]) -> tuple[str, ...]:
    bias, coverage = _signs(evidence, ("pit", "coverage_gap"))
    if coverage < 0 and bias and not _pits_spread_too_far(find_test(evidence.tests, "pit")):
        coverage = 0  # a shifted distribution covers less, whatever its width
    words = []
    for sign, name, texts in (
        (bias, "pit", {1: "biased_low", -1: "biased_high"}),
        (coverage, "coverage_gap", {-1: "too_narrow", 1: "too_wide"}),
    ):
        if sign and (test := _find(tests, name)) is not None:
            words.append(Word(texts[sign], abs(test.deviation), test.relevant_error))
    return notable(words)


def _pits_spread_too_far(pit: Estimate | None) -> bool:
    """Whether the variance of the PIT about its own mean is significantly above that of a uniform variable, 1/12."""
    if pit is None or not math.isfinite(pit.low):
        return True
    error = (pit.high - pit.low) / 2.0 / normal_quantile(pit.level)
    ratio = 12.0 * pit.n * error**2
    return ratio - 1.0 > normal_quantile(1.0 - UNIFORM_LEVEL) * math.sqrt(0.8 / pit.n)
