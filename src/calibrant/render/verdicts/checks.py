"""Verdicts on posterior predictive checks: whether the observed statistics are what the model expects.

- Decision. Holm's correction over the statistics of a reading, at 2%. `miscalibrated`: every reading of the members
  rejects, and some deviation may reach its relevant size. `negligible`: every reading rejects, and in one of them no
  deviation reaches it. `calibrated`: one reading explains every default statistic and has 80% power against each
  deviation of relevant size. `inconclusive`: neither.
- A calibration error below what the model expects is a warning (fitted or dependent rows), never a rejection; only
  under the Bayesian reading of several members, which expects miscalibration, it speaks against that reading.
- Direction. Two classes: the share of the positive class, and the log score, which shows predictions that are too
  extreme, or not enough. More classes: accuracy and the log score. Regression: the mean and coverage. The largest error
  comes first; a share or mean must be significant by a standard error that allows for the observed dispersion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.calibration.null_mean import detectable_shift, rows_to_detect
from calibrant.errors import plain
from calibrant.intervals import normal_quantile
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import metric_label, metrics
from calibrant.registry.metrics.proper import ACCURACY, BRIER, NLL
from calibrant.registry.metrics.regression_spread import PICP
from calibrant.render.formatting import count, format_number, format_p_value, format_percent_pair
from calibrant.render.verdicts.calibration import FEW_SURPRISES, FEWEST_ROWS, POWER_QUANTILE, collect_rows, fix
from calibrant.render.verdicts.check_sentences import describe_check, expected_range, is_calibration_error, is_too_low
from calibrant.render.verdicts.direction import (
    DIRECTION_LEVEL,
    Word,
    errors_of_classes_dominate,
    mean_and_shape,
    notable,
    only_classes_are_off,
)
from calibrant.render.verdicts.model import InputVerdict, Point, headline, tone_of, word_of, worst
from calibrant.results.check import (
    AS_EXPECTED,
    BAYESIAN,
    CLASS_FREQUENCY,
    HIGHER,
    LEVEL,
    LOWER,
    MEAN,
    UNKNOWN,
    Check,
)
from calibrant.results.evaluation import Result
from calibrant.results.verdict import (
    CALIBRATED,
    INCONCLUSIVE,
    MISCALIBRATED,
    NEGLIGIBLE,
    NOT_TESTED,
    CalibrationTest,
    Verdict,
    relevant_to_rate,
)

SURPRISING = 0.01
"""A single p-value up to which no model is called calibrated, although no statistic is significant after correction."""
RELEVANT_SHARE = 0.02
"""The deviation of a class's share that matters."""
RELEVANT_BIAS = 0.07
"""The bias that matters, in standard deviations of an outcome: it moves the mean PIT by 0.02."""
SHOW_DIRECTION = (CLASS_FREQUENCY, ACCURACY.name, MEAN, PICP.name)
"""Statistics that headlines quote: they come first among the points."""
MAX_POINTS = 3
"""Statistics with a point of their own."""


@dataclass(frozen=True)
class CheckSubject:
    """What a verdict on checks speaks of."""

    kind: str
    """binary, classes, judged or regression."""
    n: int
    members: int = 1
    positive: str = ""
    """The class whose share is among the statistics, if it has a name of its own."""
    complete: bool = True
    """Whether the default statistics are among those checked."""
    draws: int = 0
    """Number of replicates; 0 if distributions were computed."""
    relevant_error: float | None = None
    shares: tuple[float, float] | None = None
    """The predicted and the observed share of the positive class of binary predictions."""


@dataclass(frozen=True)
class _Reading:
    """The checks by one reading of the members."""

    name: str
    checks: Mapping[str, Check]
    tests: tuple[CalibrationTest, ...]
    variance: float = math.nan
    """The variance of the number of right answers, or of positives; NaN for regression."""

    @property
    def explains(self) -> bool:
        """Whether every statistic is as expected, by the average and by some member."""
        return not any(test.rejected for test in self.tests) and not any(c.between for c in self.checks.values())

    @property
    def relevant(self) -> bool:
        """Whether some deviation may reach its relevant size; True where none has such a size."""
        sized = [test for test in self.tests if test.tested and not math.isnan(test.relevant_error)]
        endless = any(test.rejected and math.isinf(test.estimate.value) for test in self.tests)
        return endless or not sized or any(test.largest >= test.relevant_error for test in sized)

    def needed(self, n: int) -> float:
        """The number of rows from which each deviation of relevant size would be detected."""
        sized = [test for test in self.tests if test.tested and not math.isnan(test.relevant_error)]
        few, level = self.variance < FEW_SURPRISES, LEVEL / max(sum(test.tested for test in self.tests), 1)
        needed = []
        for test in sized:
            rows = n * (test.detectable / test.relevant_error) ** 2
            if few and rows > n:
                rows = min(rows, max(rows_to_detect(self.variance / n, test.relevant_error, level), n + 1.0))
            needed.append(rows)
        return max(needed, default=math.inf)


def judge_checks(readings: Mapping[str, Mapping[str, Check]], subject: CheckSubject, rule: str) -> Verdict:
    """The verdict on the checks of one input, by one or two readings of the members."""
    judged = [_reading(name, checks, subject, rule) for name, checks in readings.items()]
    known = sum(test.tested for test in judged[0].tests)
    notion = "posterior predictive checks"
    if not known:
        return Verdict(NOT_TESTED, headline="Posterior predictive checks are undefined on these rows", notion=notion)
    fitting = [reading for reading in judged if reading.explains]
    if not fitting:
        return _rejected(judged, subject, rule, notion)
    chosen = min(fitting, key=lambda reading: reading.needed(subject.n))
    verdict = Verdict(
        INCONCLUSIVE, notion=f"{notion}, {chosen.name} reading" if len(judged) > 1 else notion,
        evidence=chosen.tests, positive=subject.positive, details=_details(chosen, rule),
    )  # fmt: skip
    passed = f"{known} of {known} checks pass"
    expected = f"As the model expects: {passed}"
    average = ""
    if len(judged) > 1 and len(fitting) == 1 and chosen.name != BAYESIAN:
        expected = average = f"The averaged prediction is as expected ({known} of {known} checks), no single member"
    least = 2.0 / (subject.draws + 1.0)
    if subject.draws and least > LEVEL / known:
        draws = math.ceil(2.0 * known / LEVEL)
        text = f"{subject.draws} draws are too few for a decision"
        return replace(verdict, headline=headline(text), next_step=f"use --draws {draws}, or --draws exact")
    low = {key for key, check in chosen.checks.items() if is_too_low(key, check)}
    doubtful = [test for test in chosen.tests if test.tested and test.metric not in low]
    surprising = min(doubtful, key=lambda test: test.p_value, default=None)
    if surprising is not None and surprising.p_value <= SURPRISING:
        text = f"{passed}, but {surprising.metric} is borderline ({format_p_value(surprising.p_value, 'p')})"
        step = f"increase --draws, or collect more rows than {subject.n:,}"
        return replace(verdict, headline=headline(text, f"{passed}, but one is borderline"), next_step=step)
    if not subject.complete:
        text = "check the default statistics, or run `calibrant evaluate`, for a verdict on calibration"
        return replace(verdict, headline=headline(expected), next_step=text)
    needed = max(chosen.needed(subject.n), FEWEST_ROWS)
    if needed <= subject.n:
        text = average or f"{expected} ({count(subject.n, 'row')})"
        return replace(verdict, status=CALIBRATED, headline=headline(text, expected))
    if chosen.name == BAYESIAN and subject.members > 1:
        text = f"As some member expects ({known} of {known} checks), with little power at {count(subject.n, 'row')}"
        return replace(verdict, headline=headline(text, f"As some member expects: {passed}"))
    rows = count(subject.n, "row")
    few = f"{passed}, but {rows} {'is' if subject.n == 1 else 'are'} too few to detect a relevant deviation"
    return replace(
        verdict, headline=headline(average or few, f"{passed}, but {rows} give them little power"),
        next_step=collect_rows(needed), rows_needed=int(needed) if math.isfinite(needed) else 0,
    )  # fmt: skip


def _reading(name: str, checks: Mapping[str, Check], subject: CheckSubject, rule: str) -> _Reading:
    """The checks by one reading, and every statistic as a test: its deviation, and the deviations that matter and show.

    Where predictions are nearly certain, a deviation adds to the noise: what would be detected follows from counts.
    """
    family = max(sum(check.passed(rule) is not None for check in checks.values()), 1)
    z = normal_quantile(1.0 - LEVEL / family) + POWER_QUANTILE
    may_be_low = name == BAYESIAN and subject.members > 1
    variance, fewest = math.nan, 0.0
    counted = _named(checks, CLASS_FREQUENCY if subject.kind == "binary" else ACCURACY.name)
    if subject.kind != "regression" and counted is not None and math.isfinite(counted.sd):
        variance = (counted.sd * counted.n) ** 2
        fewest = detectable_shift(variance, counted.n, LEVEL / family)
    tests = []
    for key, check in checks.items():
        low, high = expected_range(check, rule)
        error, noise, detectable = check.observed - check.mean, normal_quantile(0.95) * check.sd, z * check.sd
        if is_calibration_error(key):  # positive by chance: what is left of it in quadrature
            detectable = math.sqrt(max((check.mean + detectable) ** 2 - check.mean**2, 0.0))
            error = math.sqrt(max(check.observed**2 - check.mean**2, 0.0))
        estimate = Estimate(
            check.observed, check.n, check.mean + error - noise, check.mean + error + noise, 0.95,
            null_low=low, null_high=high, p_value=check.test_p,
        )  # fmt: skip
        passed = check.passed(rule)
        reason = "it is undefined on these rows" if passed is None else ""
        p_value = math.nan if passed is None else check.test_p
        relevant = _relevant(key, check, subject)
        test = CalibrationTest(
            key, estimate, check.mean, p_value, check.p_adjusted,
            passed is False and (may_be_low or not is_too_low(key, check)),
            relevant, detectable if math.isnan(relevant) else max(detectable, fewest), reason,
        )  # fmt: skip
        tests.append(test)
    return _Reading(name, checks, tuple(tests), variance)


def _named(checks: Mapping[str, Check], name: str) -> Check | None:
    """The check of this statistic, whatever its options."""
    return next((check for key, check in checks.items() if key.partition("(")[0] == name), None)


def _relevant(key: str, check: Check, subject: CheckSubject) -> float:
    """The deviation of a statistic that matters; NaN where it has no such size."""
    name = key.partition("(")[0]
    if name == MEAN:
        return RELEVANT_BIAS * check.sd * math.sqrt(check.n) if check.sd > 0.0 else math.nan
    metric = metrics().get(name)
    relevant = RELEVANT_SHARE if name == CLASS_FREQUENCY else math.nan if metric is None else metric.relevant_error
    if math.isnan(relevant):
        return relevant
    if subject.relevant_error is not None:
        return subject.relevant_error
    return relevant if subject.shares is None else relevant_to_rate(relevant, *subject.shares)


def _details(reading: _Reading, rule: str) -> tuple[str, ...]:
    """The most surprising statistics first."""
    order = sorted(reading.tests, key=lambda test: (not test.rejected, test.p_value if test.tested else 2.0))
    lines = []
    for test in order[:3]:
        line = describe_check(test.metric, reading.checks[test.metric], rule)
        p = f" ({format_p_value(test.p_value, 'p')})" if test.tested and "(p" not in line else ""
        lines.append(line + p)
    return tuple(lines)


# ---------------------------------------------------------------------------------------------- rejections
def _rejected(judged: Sequence[_Reading], subject: CheckSubject, rule: str, notion: str) -> Verdict:
    """Where no reading explains the data: the direction is that of the reading with the fewest rejections."""
    chosen = min(reversed(judged), key=lambda reading: sum(test.rejected for test in reading.tests))
    status = MISCALIBRATED if all(reading.relevant for reading in judged) else NEGLIGIBLE
    rejected = [test for test in chosen.tests if test.rejected] or list(chosen.tests)
    errors = [test for test in chosen.tests if is_calibration_error(test.metric)]
    only_classes = subject.kind == "classes" and only_classes_are_off(errors)
    by_class = only_classes or (subject.kind == "classes" and errors_of_classes_dominate(errors))
    main = min(rejected, key=lambda test: (math.isnan(test.relevant_error), test.p_value))
    if only_classes:
        main = max(errors, key=lambda test: test.smallest)
    if all(is_calibration_error(test.metric) and test.deviation < 0.0 for test in rejected):
        text = f"Better calibrated than a single member expects: {main.metric} {format_number(main.estimate.value)}"
        return Verdict(
            INCONCLUSIVE, (), notion, headline(text), _details(chosen, rule),
            "use --members both: does the averaged prediction fit?", chosen.tests, positive=subject.positive,
        )  # fmt: skip
    relevant = max((test.relevant_error for test in errors if not math.isnan(test.relevant_error)), default=0.0)
    direction = () if only_classes else _direction(chosen.checks, subject.kind, relevant)
    size = f"{main.metric} {format_number(main.estimate.value)}, expected {format_number(main.expected)}"
    text = _headline(chosen.checks, direction, subject) if direction else ""
    if status == NEGLIGIBLE:
        text = f"Not quite as the model expects, but close: {size}"
    elif not any(test.rejected for test in chosen.tests):
        text = "The average of the members fits, but no single member does"
    fallback = headline(f"Not as the model expects: {size}", f"Not as the model expects: {main.metric}")
    return Verdict(
        status, direction, f"{notion}, {chosen.name} reading" if len(judged) > 1 else notion,
        headline(text, fallback) if text else fallback, _details(chosen, rule),
        fix(subject.kind, direction, by_class=by_class) if status == MISCALIBRATED else "",
        chosen.tests, positive=subject.positive,
    )  # fmt: skip


def _direction(checks: Mapping[str, Check], kind: str, relevant: float) -> tuple[str, ...]:
    """Some of `DIRECTIONS`, the largest error first; empty where no statistic shows one."""
    if kind == "regression":
        return _direction_of_regression(checks)
    loss = _significant_side(_named(checks, NLL.name))
    spread = _dispersion(_named(checks, BRIER.name))
    if kind == "classes":
        gap = -_robust_side(_named(checks, ACCURACY.name), spread)
        if gap * loss < 0:
            return ("mixed",)
        return {1: ("overconfident",), -1: ("underconfident",)}.get(gap or loss, ())
    binary = kind == "binary"
    counted = _named(checks, CLASS_FREQUENCY if binary else ACCURACY.name)
    errors = [check for key, check in checks.items() if is_calibration_error(key)]
    error = max((math.sqrt(max(c.observed**2 - c.mean**2, 0.0)) for c in errors), default=0.0)
    mean, shape = mean_and_shape(0.0 if counted is None else counted.observed - counted.mean, error)
    words = []
    if side := -_robust_side(counted, spread):
        up, down = ("overestimates", "underestimates") if binary else ("overconfident", "underconfident")
        words.append(Word(up if side > 0 else down, mean, relevant))
    if loss:
        words.append(Word("too_extreme" if loss > 0 else "not_extreme_enough", shape, relevant))
    return notable(words)


def _direction_of_regression(checks: Mapping[str, Check]) -> tuple[str, ...]:
    """A shifted distribution covers less, whatever its width: coverage is compared with that of one shifted so far."""
    mean, coverage, words = _named(checks, MEAN), _named(checks, PICP.name), []
    spread, expected, shift = 1.0, math.nan, 0.0
    if coverage is not None and 0.0 < coverage.mean < 1.0:
        expected, z = coverage.mean, normal_quantile(coverage.mean)
        inside = min(max(coverage.observed, 1.0 / coverage.n), 1.0 - 0.5 / coverage.n)
        spread = max(z / normal_quantile(inside), 1.0)
    if mean is not None and mean.sd > 0.0 and (side := _robust_side(mean, spread)):
        shift = abs(mean.observed - mean.mean) / (mean.sd * math.sqrt(mean.n))
        words.append(
            Word("biased_low" if side > 0 else "biased_high", BIAS_OF_PIT * shift, BIAS_OF_PIT * RELEVANT_BIAS)
        )
    if coverage is not None and math.isfinite(expected) and _significant_side(coverage):
        z = normal_quantile(expected)
        expected = 0.5 * (math.erf((z - shift) / math.sqrt(2.0)) + math.erf((z + shift) / math.sqrt(2.0)))
        size = abs(coverage.observed - expected)
        if size > normal_quantile(1.0 - DIRECTION_LEVEL / 2.0) * coverage.sd:
            narrow = coverage.observed < expected
            words.append(Word("too_narrow" if narrow else "too_wide", size, PICP.relevant_error))
    return notable(words)


BIAS_OF_PIT = 0.28
"""How far a small bias of one standard deviation moves the mean PIT."""


def _significant_side(check: Check | None) -> int:
    """1 or −1 where a statistic is significantly above or below what the model expects, after correction, else 0."""
    if check is None or not math.isfinite(check.observed):
        return 0
    p = check.test_p if math.isnan(check.p_adjusted) else check.p_adjusted
    return 0 if not p <= LEVEL else 1 if check.mid_p > 0.5 else -1


def _robust_side(check: Check | None, spread: float) -> int:
    """The side of a mean or share; its standard error is larger by a factor than the model expects."""
    if check is None or not math.isfinite(check.observed) or not check.test_p <= DIRECTION_LEVEL:
        return 0
    if check.sd > 0.0:
        z = abs(check.observed - check.mean) / (check.sd * spread)
        if z < normal_quantile(1.0 - DIRECTION_LEVEL / 2.0):
            return 0
    return 1 if check.mid_p > 0.5 else -1


def _dispersion(brier: Check | None) -> float:
    """How many times larger the standard deviation of outcomes about predictions is than the model expects."""
    if brier is None or not brier.mean > 0.0 or not math.isfinite(brier.observed):
        return 1.0
    return max(math.sqrt(brier.observed / brier.mean), 1.0)


def _headline(checks: Mapping[str, Check], direction: tuple[str, ...], subject: CheckSubject) -> str:
    """The direction, with the statistic that shows it."""
    word = direction[0].replace("_", " ")
    share = _named(checks, CLASS_FREQUENCY)
    if share is not None and word in ("overestimates", "underestimates"):
        predicted, observed = format_percent_pair(share.mean, share.observed)
        if subject.positive:
            return f"{word.capitalize()} '{plain(subject.positive, 30)}': predicts {predicted}, {observed} observed"
        return f"{word.capitalize()} risk: predicts {predicted} positives, {observed} occur"
    coverage, mean = _named(checks, PICP.name), _named(checks, MEAN)
    if word in ("too narrow", "too wide") and coverage is not None:
        expected, observed = format_percent_pair(coverage.mean, coverage.observed)
        return f"Predictive distributions are {word}: expected coverage {expected}, observed {observed}"
    if subject.kind == "regression" and mean is not None:
        shown = f"expected mean {format_number(mean.mean)}, observed {format_number(mean.observed)}"
        return f"Predictive distributions are {word}: {shown}"
    accuracy, loss = _named(checks, ACCURACY.name), _named(checks, NLL.name)
    shown_by_accuracy = accuracy is not None and accuracy.test_p <= DIRECTION_LEVEL
    if word in ("overconfident", "underconfident") and accuracy is not None and shown_by_accuracy:
        expected, observed = format_percent_pair(accuracy.mean, accuracy.observed)
        if (accuracy.observed < accuracy.mean) == (word == "overconfident"):
            return f"{word.capitalize()}: expected accuracy {expected}, observed {observed}"
    if loss is None:
        return ""
    label, numbers = metric_label(NLL.name), f"{format_number(loss.observed)}, expected {format_number(loss.mean)}"
    return f"{word.capitalize()}: {label} {numbers}"


# ------------------------------------------------------------------------------------------------- display
def check_verdict(result: Result, settings: Mapping[str, Any], context: tuple[Point, ...]) -> InputVerdict:
    """The stored verdict as findings, then what differs from what the model expects, and what the members say."""
    rule, verdict = str(settings["rule"]), result.verdict
    if verdict is None:
        head = "Checked by an earlier version, without a verdict: run `calibrant check` again"
        return InputVerdict(result.input, head, "neutral", context)
    tone = tone_of(verdict)
    surprises = {key: check.surprise(rule) for key, check in result.checks.items()}
    failed = [key for key, surprise in surprises.items() if surprise in (LOWER, HIGHER)]
    defined = sum(surprise != UNKNOWN for surprise in surprises.values())
    points = []
    if failed:
        n = max((check.n for check in result.checks.values()), default=0)
        whose = "a single member" if result.independent else "the model"
        verb = "differs" if len(failed) == 1 else "differ"
        text = f"{len(failed)} of {defined} statistics {verb} from what {whose} expects (n = {n})"
        points.append(Point("neutral" if tone == "good" else tone, "checks", text))
    shown = [test.metric for test in verdict.evidence if test.rejected and test.metric in failed]
    shown.sort(key=lambda key: key.partition("(")[0] not in SHOW_DIRECTION)
    for key in (shown or failed)[:MAX_POINTS]:
        check = result.checks[key]
        low, high = map(format_number, expected_range(check, rule))
        numbers = (f"{key} {format_number(check.observed)}; expected {low} to {high}",)
        points.append(Point("warn", "failed check", describe_check(key, check, rule), numbers))
    for key, check in result.checks.items():
        if surprises[key] == AS_EXPECTED and check.insignificant(rule) and len(points) < MAX_POINTS:
            topic = "too low" if is_too_low(key, check) else "not significant"
            points.append(Point("neutral", topic, describe_check(key, check, rule)))
    each = tuple(f"{key}: " for key in result.checks)
    overall = [line for line in result.reading if not line.startswith(each)]
    points += [Point("neutral", "members", line) for line in overall]
    if verdict.next_step:
        points.append(Point("neutral", "next step", f"next: {verdict.next_step}"))
    every = (*points, *context)
    word = word_of(result) if verdict.status != CALIBRATED else "as expected"
    return InputVerdict(result.input, verdict.headline, worst([tone, *(p.tone for p in every)]), every, word)
