"""What checks say, in words: what was observed, what was expected, and what calibration error alone would have said.

Reference: Gopal (2021), section 3.1 for the two ways in which calibration error misleads, 3.3 for the two readings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calibrant.checks.check import AS_EXPECTED, HIGHER, INTERVAL, LOWER, UNKNOWN, Check
from calibrant.checks.plan import BAYESIAN, BOTH, INDEPENDENT

NEITHER = "neither"
CALIBRATION = ("ece", "tce", "mce", "calibration_error", "rmsce", "mace")
"""Statistics that stand for calibration error, the first that was checked counting."""
MEANING: Mapping[tuple[str, str], str] = {
    ("accuracy", LOWER): "it is right less often than it believes",
    ("accuracy", HIGHER): "it is right more often than it believes",
    ("nll", LOWER): "its predictions are better than it believes",
    ("nll", HIGHER): "its predictions are worse than it believes",
    ("brier", LOWER): "its predictions are better than it believes",
    ("brier", HIGHER): "its predictions are worse than it believes",
    ("mse", LOWER): "it errs less than it believes",
    ("mse", HIGHER): "it errs more than it believes",
    ("crps", LOWER): "its predictions are better than it believes",
    ("crps", HIGHER): "its predictions are worse than it believes",
    ("picp", LOWER): "its intervals hold less than it believes",
    ("picp", HIGHER): "its intervals hold more than it believes",
}
"""What a surprise of each statistic means."""
OFF = "its probabilities are further off than its own uncertainty allows for"
FITS = "its probabilities fit better than one of its members would: the truth is not like a member"


@dataclass(frozen=True)
class Reading:
    """The sentences of one input, and which reading of the members the data support."""

    lines: tuple[str, ...]
    supported: str | None = None


def reading_of(
    checks: Mapping[str, Check],
    independent: Mapping[str, Check],
    reading: str,
    rule: str = INTERVAL,
) -> Reading:
    """What the checks of an input say; `independent` is empty where one reading was asked for."""
    lines = [sentence(key, check, rule) for key, check in checks.items()]
    alone = calibration_alone(checks, independent, reading, rule)
    lines += [alone] if alone else []
    if not independent:
        return Reading(tuple(lines))
    supported, said = _supported(checks, independent, rule)
    return Reading((*lines, said), supported)


def sentence(key: str, check: Check, rule: str = INTERVAL) -> str:
    """What was observed, what was expected, whether the model is surprised, and what that means."""
    found = check.surprise(rule)
    if found == UNKNOWN:
        return f"{key}: it has no value here, so there is nothing to check"
    low, high = (check.q025, check.q975) if rule == INTERVAL else (check.min, check.max)
    expected = f"{digits(low)} to {digits(high)}"
    if found == AS_EXPECTED:
        said = f"{key}: {digits(check.observed)} was observed, and the model expected {expected}: no surprise"
    else:
        side = "more" if found == HIGHER else "less"
        meaning = _meaning(key.partition("(")[0], found)
        said = f"{key}: {digits(check.observed)} was observed, {side} than the {expected} that the model expected"
        said += f": {meaning}" if meaning else ""
    return said + _but(check, rule)


def _meaning(name: str, found: str) -> str:
    if name in CALIBRATION:
        return OFF if found == HIGHER else FITS
    return MEANING.get((name, found), "")


def _but(check: Check, rule: str) -> str:
    """What should be known before much is made of a verdict."""
    out = ""
    if check.between:
        out += f", but it lies between the members, the nearest {check.nearest:.1f} standard deviations away"
    if rule == INTERVAL and check.close:
        out += f" (a close call: {check.draws} draws do not settle it)"
    return out


def digits(value: float) -> str:
    """Four digits that count."""
    return f"{value:.4g}".replace("-", "−")


def calibration_alone(
    checks: Mapping[str, Check], independent: Mapping[str, Check], reading: str, rule: str
) -> str | None:
    """What calibration error would have said by itself: it takes rows for independent, as the second reading does."""
    key = next((k for name in CALIBRATION for k in checks if k.partition("(")[0] == name), None)
    if key is None or reading == INDEPENDENT or key not in independent:
        return None
    model, alone = checks[key].surprise(rule), independent[key].surprise(rule)
    if UNKNOWN in (model, alone):
        return None
    verdict = "calibrated" if alone == AS_EXPECTED else "miscalibrated" if alone == HIGHER else "too well calibrated"
    verdict += ", in a close call" * (rule == INTERVAL and independent[key].close)
    said = f"calibration error alone ({key}, rows taken for independent) would have called the model {verdict}"
    if alone == HIGHER and model == AS_EXPECTED:
        return f"{said}; one of its members would be off as much, and the model knows it: no ground for mistrust"
    if alone == AS_EXPECTED and model != AS_EXPECTED:
        return f"{said}; yet it is not what the members lead to expect: no ground for trust"
    return f"{said}; the check of the members agrees" if (alone == model) else f"{said}; the members say otherwise"


def _supported(checks: Mapping[str, Check], independent: Mapping[str, Check], rule: str) -> tuple[str, str]:
    """Which reading explains every statistic that has a value; a close call speaks against neither."""
    both = {key: (checks[key], independent[key]) for key in checks if key in independent}
    known = [pair for pair in both.values() if None not in (pair[0].passed(rule), pair[1].passed(rule))]
    if not known:
        return NEITHER, "no statistic has a value, so neither reading can be told from the other"
    ours, theirs = (sum(_explained(pair[k], rule) for pair in known) for k in (0, 1))
    counts = f"{ours} of {len(known)} statistics are as one member for all rows expects (Bayesian), "
    counts += f"{theirs} as a member for each row expects (independent)"
    if any(_explained(one, rule) and not one.passed(rule) for pair in known for one in pair):
        counts += ", close calls among them"
    if ours == theirs == len(known):
        return BOTH, f"{counts}: both readings fit, and these data do not tell them apart"
    if max(ours, theirs) < len(known):
        better = "; the Bayesian one comes nearer" if ours > theirs else ""
        better = "; the independent one comes nearer" if theirs > ours else better
        return NEITHER, f"{counts}: neither reading explains the data{better}"
    if ours == len(known):
        return BAYESIAN, f"{counts}: the data support the Bayesian reading"
    return INDEPENDENT, f"{counts}: the data support the independent reading"


def _explained(check: Check, rule: str) -> bool:
    """Whether the value is such as the reading expects: not between members, of which none does."""
    if check.between:
        return False
    return bool(check.passed(rule)) or (rule == INTERVAL and check.close)
