"""Checks in words: observed and expected values, and which reading of the members explains them.

Reference: Gopal (2021), section 3.1 for the two ways in which calibration error misleads, 3.3 for the two readings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from calibrant.registry.lookup import metrics
from calibrant.render.formatting import format_p_value
from calibrant.results.check import AS_EXPECTED, BAYESIAN, BOTH, HIGHER, INDEPENDENT, INTERVAL, LOWER, UNKNOWN, Check

NEITHER = "neither"
BETTER_THAN_MEMBERS = "it is better calibrated than a single member would be"
BETTER_CALIBRATED = "lower than chance gives: fitted to these rows, or dependent rows?"
WORSE_CALIBRATED = "it is miscalibrated by more than its own uncertainty explains"


@dataclass(frozen=True)
class Interpretation:
    """The sentences about one input, and the reading of the members that the data support."""

    lines: tuple[str, ...]
    supported: str | None = None


def interpret(
    checks: Mapping[str, Check], independent: Mapping[str, Check], reading: str, rule: str = INTERVAL
) -> Interpretation:
    """Put the checks of an input into words; `independent` is empty if only one reading was checked."""
    lines = [describe_check(key, check, rule) for key, check in checks.items()]
    if not independent:
        return Interpretation(tuple(lines))
    if reading != INDEPENDENT and (line := _compare_with_calibration_error(checks, independent, rule)):
        lines.append(line)
    supported, line = _compare_readings(checks, independent, rule)
    return Interpretation((*lines, line), supported)


def is_calibration_error(key: str) -> bool:
    """Whether a statistic is a calibration error, which is positive by chance."""
    metric = metrics().get(key.partition("(")[0])
    return metric is not None and metric.is_calibration_error


def is_too_low(key: str, check: Check) -> bool:
    """Whether a calibration error lies below what the model expects, which accuses no model."""
    return is_calibration_error(key) and check.mid_p < 0.5


def _meaning(key: str, surprise: str, several: bool) -> str:
    """What an observed value below or above the expected range means; empty if the registry does not say."""
    place = (LOWER, HIGHER).index(surprise)
    if is_calibration_error(key):
        return (BETTER_THAN_MEMBERS if several else BETTER_CALIBRATED, WORSE_CALIBRATED)[place]
    metric = metrics().get(key.partition("(")[0])
    return metric.surprise[place] if metric is not None else ""


def expected_range(check: Check, rule: str = INTERVAL) -> tuple[float, float]:
    """The ends between which the model expects the value."""
    return (check.q025, check.q975) if rule == INTERVAL else (check.min, check.max)


def describe_check(key: str, check: Check, rule: str = INTERVAL) -> str:
    """The observed value, the expected range, and the meaning of a value outside it."""
    surprise = check.surprise(rule)
    if surprise == UNKNOWN:
        return f"{key}: undefined on these rows, nothing to check"
    observed, low, high = (f"{value:.4g}".replace("-", "−") for value in (check.observed, *expected_range(check, rule)))
    text = f"{key}: observed {observed}, "
    if surprise != AS_EXPECTED:
        meaning = _meaning(key, surprise, several=not math.isnan(check.nearest))
        text += f"{'above' if surprise == HIGHER else 'below'} the expected {low} to {high}"
        text += f": {meaning}" if meaning else ""
    elif check.insignificant(rule) and is_too_low(key, check):
        text += f"below the expected {low} to {high}: {BETTER_CALIBRATED}"
    elif check.insignificant(rule):
        p = format_p_value(check.test_p, "p")
        text += f"outside the expected {low} to {high}, but not significant after correction ({p})"
    else:
        text += f"expected {low} to {high}: as expected"
    if check.between:
        text += f", but no single member expects this value (the nearest is {check.nearest:.1f} sd away)"
    if rule == INTERVAL and check.close:
        text += f" (borderline at {check.draws} draws; increase --draws)"
    return text


def _compare_with_calibration_error(
    checks: Mapping[str, Check], independent: Mapping[str, Check], rule: str
) -> str | None:
    """What calibration error would say by itself: it treats rows as independent, as the second reading does."""
    key = next((key for key in checks if is_calibration_error(key)), None)
    if key is None or key not in independent:
        return None
    by_members, alone = checks[key].surprise(rule), independent[key].surprise(rule)
    if UNKNOWN in (by_members, alone):
        return None
    judgement = {AS_EXPECTED: "calibrated", HIGHER: "miscalibrated", LOWER: "too well calibrated"}[alone]
    borderline = " (borderline)" if rule == INTERVAL and independent[key].close else ""
    text = f"calibration error alone ({key}, rows treated as independent) would call the model {judgement}{borderline}"
    if alone == HIGHER and by_members == AS_EXPECTED:
        return f"{text}; a single member would be as far off, so this does not contradict the members"
    if alone == AS_EXPECTED and by_members != AS_EXPECTED:
        return f"{text}; but its members do not expect this value"
    return f"{text}; the check of the members {'agrees' if alone == by_members else 'disagrees'}"


def _compare_readings(checks: Mapping[str, Check], independent: Mapping[str, Check], rule: str) -> tuple[str, str]:
    """Which reading explains every statistic that has a value, and the sentence that says so."""
    pairs = [(checks[key], independent[key]) for key in checks if key in independent]
    pairs = [pair for pair in pairs if None not in (pair[0].passed(rule), pair[1].passed(rule))]
    total = len(pairs)
    if not total:
        return NEITHER, "no statistic has a value, so the two readings cannot be compared"
    passed = [sum(bool(pair[k].passed(rule)) for pair in pairs) for k in (0, 1)]
    between = sum(pair[0].between and bool(pair[0].passed(rule)) for pair in pairs)
    fits = passed[0] - between == total, passed[1] == total
    text = f"{passed[0]} of {total} pass when one member draws all rows (Bayesian)"
    text += f", but of these no single member expects {between}" if between else ""
    text += f", {passed[1]} of {total} pass when every row draws its own member (independent)"
    if all(fits):
        return BOTH, f"{text}: both readings fit, and these data do not distinguish them"
    if fits[0]:
        return BAYESIAN, f"{text}: the data support the Bayesian reading"
    if fits[1]:
        return INDEPENDENT, f"{text}: the data support the independent reading"
    closer = "Bayesian" if passed[0] > passed[1] else "independent"
    closest = f"; the {closer} one is closer" if passed[0] != passed[1] else ""
    return NEITHER, f"{text}: neither reading explains the data{closest}"
