"""The records of a verdict, and the lookups that all verdicts share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from calibrant.errors import plain
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import metric_label
from calibrant.render.formatting import (
    count,
    format_interval,
    format_level,
    format_number,
    format_p_value,
    format_percent_pair,
)
from calibrant.results.evaluation import Result
from calibrant.results.verdict import (
    CALIBRATED,
    INCONCLUSIVE,
    MISCALIBRATED,
    NEGLIGIBLE,
    NOT_TESTED,
    ClassShare,
)
from calibrant.results.verdict import Verdict as CalibrationVerdict

Tone = Literal["good", "warn", "bad", "neutral"]
WORST_FIRST: tuple[Tone, ...] = ("bad", "warn", "good", "neutral")
MAX_HEADLINE = 80
"""Characters of a headline."""
LARGE = 0.05
"""A calibration error that is bad if shown to be this large; rows without the power to detect it are too few."""
ROUNDING = 1e-9
"""Relative tolerance above the band."""
NEXT_STEP = "to fix it, recalibrate on held-out data (`calibrant recalibrate`)"
TINY = 30
"""Rows up to which a test set is called very small."""


@dataclass(frozen=True)
class Point:
    """One finding."""

    tone: Tone
    topic: str
    """Such as calibration, errors, members, groups, shift, gates."""
    text: str
    """A sentence without a full stop."""
    numbers: tuple[str, ...] = ()
    """The estimates behind it with their intervals, such as `ece 0.0162 (0.0000 to 0.0217)`."""


@dataclass(frozen=True)
class InputVerdict:
    """The findings on one input."""

    input: str
    headline: str
    """At most 80 characters."""
    tone: Tone
    points: tuple[Point, ...]
    word: str = ""
    """The headline in a word or two, such as `overconfident`, for counting over many inputs."""


@dataclass(frozen=True)
class Verdict:
    """The findings of an evaluation: is the predictive uncertainty reliable?"""

    headline: str
    """At most 80 characters."""
    tone: Tone
    inputs: tuple[InputVerdict, ...]
    points: tuple[Point, ...] = ()
    """Findings on all inputs together: comparison, improvement, shift across inputs, gates, notes."""


def worst(tones: Iterable[Tone]) -> Tone:
    """The worst tone in the order bad, warn, good, neutral."""
    present = set(tones)
    return next((tone for tone in WORST_FIRST if tone in present), "neutral")


def headline(*candidates: str) -> str:
    """The first candidate that fits into a headline; the last one truncated if none does."""
    texts = [plain(text, 10 * MAX_HEADLINE) for text in candidates]
    return next((text for text in texts if len(text) <= MAX_HEADLINE), plain(texts[-1], MAX_HEADLINE))


def tiny_note(n: int) -> str:
    """A warning to append where there are hardly any rows."""
    return f"; n = {n} is a very small test set" if n <= TINY else ""


# ---------------------------------------------------------------------------------------------- estimates
def has_interval(e: Estimate) -> bool:
    """Whether both interval ends are finite."""
    return math.isfinite(e.low) and math.isfinite(e.high)


def bracketed_interval(e: Estimate) -> str:
    """` (low to high)`, or an empty string."""
    ends = format_interval(e.low, e.high)
    return f" ({ends})" if ends else ""


def format_estimate(spec: str, e: Estimate, *, band: bool = False) -> str:
    """An estimate with its interval and, with `band`, the range of a calibrated model."""
    calibrated = f"; {format_interval(e.null_low, e.null_high)} if calibrated"
    text = f"{spec} {format_number(e.value)}{bracketed_interval(e)}"
    return text + calibrated * (band and math.isfinite(e.null_high))


def find_metric(result: Result, names: Sequence[str]) -> tuple[str, Estimate] | None:
    """The first of these metrics with a finite value, by its plain name or with options.

    Options that change the quantity itself (one class, another norm) do not match.
    """
    for name in names:
        for spec, e in result.metrics.items():
            base, _, options = spec.partition("(")
            if base == name and not ("of=" in options or "norm=" in options) and math.isfinite(e.value):
                return spec, e
    return None


# ------------------------------------------------------------------------------------------- significance
def is_significant(e: Estimate) -> bool | None:
    """Whether a calibration error is larger than chance gives a calibrated model; None without band and interval.

    With a band, the value must lie above it, which chance alone does with probability (1 − level)/2. Where rows depend
    on each other there is no band, and the interval of the true error must exclude 0.
    """
    if math.isfinite(e.null_high):
        return e.value > e.null_high * (1.0 + ROUNDING)
    return e.low > 0.0 if has_interval(e) else None


def describe_test(spec: str, e: Estimate) -> str:
    """An error next to its range for a calibrated model, or its interval."""
    text = f"{metric_label(spec)} {format_number(e.value)}"
    if math.isfinite(e.null_high):
        p = f", {format_p_value(e.p_value, 'p')}" if math.isfinite(e.p_value) else ""
        how = "significantly above" if is_significant(e) else "within"
        return f"{text} is {how} the range of a calibrated model ({format_interval(e.null_low, e.null_high)}{p})"
    if has_interval(e):
        return f"{text}; the {format_level(e.level)} of the true error is {format_interval(e.low, e.high)}"
    return text


def describe_power(spec: str, n: int, error: float, few: bool) -> str:
    """The smallest error that this many rows detect with 80% power."""
    size = f"{metric_label(spec)} ≥ {format_number(error)}"
    return f"n = {n} gives 80% power only for {size}" if few else f"80% power to detect {size} at this n"


@dataclass(frozen=True)
class Calibration:
    """The finding on calibration."""

    word: str
    headlines: tuple[str, ...]
    """Candidates, the longest first."""
    point: Point


def too_few_rows(n: int, point: Point) -> Calibration:
    """No significant error, but not the power to detect a relevant one either."""
    verb = "is" if n == 1 else "are"
    text = f"{count(n, 'row')} {verb} too few to tell this model from a calibrated one"
    return Calibration("inconclusive", (text, f"Inconclusive: only {count(n, 'row')}"), point)


# ------------------------------------------------------------------------------------------------ calibration
NOTABLE = 0.1
"""The relative difference from which a class's share is worth a word."""
MAX_CLASSES = 3
"""Classes that a sentence names."""
TONES: dict[str, Tone] = {
    MISCALIBRATED: "warn", NEGLIGIBLE: "good", CALIBRATED: "good", INCONCLUSIVE: "neutral", NOT_TESTED: "neutral",
}  # fmt: skip
WORDS = {CALIBRATED: "well calibrated", NEGLIGIBLE: "negligibly miscalibrated", NOT_TESTED: "not assessed"}


def tone_of(verdict: CalibrationVerdict) -> Tone:
    """Bad where some error is shown to be of relevant size, instead of merely possible."""
    sizes = [test for test in verdict.evidence if not math.isnan(test.relevant_error)]
    if verdict.status == MISCALIBRATED and any(test.smallest >= test.relevant_error for test in sizes):
        return "bad"
    return TONES[verdict.status]


def word_of(result: Result) -> str:
    """The verdict in a word or two, for counting over many inputs."""
    verdict = result.verdict
    if verdict is None:
        return WORDS[NOT_TESTED]
    if verdict.status == MISCALIBRATED and verdict.direction:
        return verdict.direction[0].replace("_", " ").replace("mixed", "miscalibrated")
    return WORDS.get(verdict.status, verdict.status)


def tone_of_input(result: Result, points: Iterable[Point]) -> Tone:
    """The worst tone of the verdict and the findings; good only where calibration is not left open."""
    tones = [point.tone for point in points]
    if result.verdict is None or result.verdict.status == NOT_TESTED:
        return worst(tones)
    tone = worst([*tones, tone_of(result.verdict)])
    return "neutral" if tone == "good" and result.verdict.status == INCONCLUSIVE else tone


def calibration_points(result: Result) -> list[Point]:
    """The stored verdict as findings, one for each supporting line."""
    verdict = result.verdict
    if verdict is None or verdict.status == NOT_TESTED:
        return []
    points: list[Point] = []
    for k, (line, test) in enumerate(zip(verdict.details, verdict.evidence, strict=False)):
        tone: Tone = tone_of(verdict) if k == 0 and test.tested and verdict.status == CALIBRATED else "neutral"
        if test.rejected and verdict.status == MISCALIBRATED:
            tone = "bad" if test.smallest >= test.relevant_error else "warn"
        points.append(Point(tone, "calibration", line))
    names = class_phrase(verdict.classes)
    if names and verdict.status == MISCALIBRATED:
        points[2:] = [point for point in points[2:] if point.tone in ("bad", "warn")]
        points.append(Point("neutral", "classes", names))
    return points


def next_step(result: Result) -> list[Point]:
    """What to do next, as the last finding."""
    step = "" if result.verdict is None or result.verdict.status == NOT_TESTED else result.verdict.next_step
    return [Point("neutral", "next step", f"next: {step}")] if step else []


def class_phrase(classes: Sequence[ClassShare], most: int = MAX_CLASSES, numbers: bool = False) -> str:
    """Which classes are notably over- and underpredicted, the largest gaps first; with the numbers of the first."""
    parts = []
    for verb, sign in {"overpredicts": 1.0, "underpredicts": -1.0}.items():
        some = sorted(
            (item for item in classes if sign * (item.predicted - item.observed) > NOTABLE * item.observed),
            key=lambda item: -abs(item.predicted - item.observed),
        )
        if some:
            names = [plain(item.name, 20) for item in some[:most]]
            if all(item.name.isdigit() for item in some):
                names[0] = f"{'class' if len(some) == 1 else 'classes'} {names[0]}"
            if numbers:
                predicted, observed = format_percent_pair(some[0].predicted, some[0].observed)
                names[0] += f" ({predicted} predicted, {observed} observed)"
            more = f" and {len(some) - most} more" * (len(some) > most)
            parts.append((-abs(some[0].predicted - some[0].observed), f"{verb} {', '.join(names)}{more}"))
    return "; ".join(text for _, text in sorted(parts))
