"""The stored verdict on calibration: the tests of one fixed family, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from calibrant.registry.estimate import Estimate
from calibrant.results.json import Stored

MISCALIBRATED, NEGLIGIBLE, CALIBRATED, INCONCLUSIVE, NOT_TESTED = STATUSES = (
    "miscalibrated", "negligible", "calibrated", "inconclusive", "not_tested",
)  # fmt: skip
DIRECTIONS = (
    "overconfident", "underconfident", "overestimates", "underestimates", "too_extreme", "not_extreme_enough",
    "too_narrow", "too_wide", "biased_high", "biased_low", "mixed",
)  # fmt: skip


RELEVANT_PART = 0.25
"""Of the rate of a rare event: an error of P(event) that is larger matters."""


def relevant_to_rate(relevant: float, predicted: float, observed: float) -> float:
    """The relevant error of the probability of an event: where it or its opposite is rare, a quarter of its rate.

    An error of 0.02 is small for a rate of one half, and turns a risk of 0.02 into no risk at all.
    """
    rates = (max(predicted, observed), 1.0 - min(predicted, observed))
    part = RELEVANT_PART * min(rates)
    return min(relevant, part) if part > 0.0 else relevant  # no rate at all, or none of an event that cannot occur


@dataclass(frozen=True)
class CalibrationTest(Stored):
    """One test of the family: an estimate, and what Holm's correction says of it."""

    JSON_OPTIONAL = ("reason",)

    metric: str
    """The spec, such as `ece(of=1)`."""
    estimate: Estimate
    expected: float
    """The value of a calibrated model; of an error, 0."""
    p_value: float
    """Two-sided: small values are surprising; NaN where it could not be tested."""
    p_adjusted: float
    """Corrected for the number of tests (Holm 1979)."""
    rejected: bool
    relevant_error: float = math.nan
    """The deviation that matters; NaN where the statistic has no such scale."""
    detectable: float = math.nan
    """The smallest deviation that this test detects with 80% power at this n, within the family."""
    reason: str = ""
    """Why it could not be tested."""

    @property
    def tested(self) -> bool:
        """Whether it has a p-value."""
        return not math.isnan(self.p_value)

    @property
    def deviation(self) -> float:
        """The value minus that of a calibrated model."""
        return self.estimate.value - self.expected

    @property
    def largest(self) -> float:
        """The largest deviation inside the interval."""
        return max(abs(self.estimate.low - self.expected), abs(self.estimate.high - self.expected))

    @property
    def smallest(self) -> float:
        """The smallest deviation inside the interval."""
        low, high = self.estimate.low - self.expected, self.estimate.high - self.expected
        return 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))


@dataclass(frozen=True)
class ClassShare(Stored):
    """A class's mean probability beside its share of the labels."""

    name: str
    predicted: float
    observed: float
    p_value: float
    p_adjusted: float
    """Corrected for the number of classes (Holm 1979)."""


@dataclass(frozen=True)
class Verdict(Stored):
    """Is the model calibrated? From the tests of one family alone, whatever metrics were requested."""

    JSON_OPTIONAL = ("classes", "rows_needed", "positive")
    REPR_FIELDS = ("status", "direction", "headline")

    status: str
    """One of `STATUSES`."""
    direction: tuple[str, ...] = ()
    """Some of `DIRECTIONS`, the most important first; empty where none is significant."""
    notion: str = ""
    """The notion of calibration that was tested."""
    headline: str = ""
    """One line, at most 80 characters."""
    details: tuple[str, ...] = ()
    """At most three supporting lines."""
    next_step: str = ""
    evidence: tuple[CalibrationTest, ...] = ()
    classes: tuple[ClassShare, ...] = ()
    """Classes whose share is significantly over- or underpredicted; multi-class only."""
    rows_needed: int = 0
    """The number of rows from which a relevant error would be detected, where there are too few."""
    positive: str = ""
    """The class that a binary verdict speaks of."""
    predicted: float = math.nan
    """The mean probability of the positive class, or the mean confidence."""
    observed: float = math.nan
    """The share of the positive class, or the accuracy."""

    def __str__(self) -> str:
        return "\n".join(
            [self.headline, *(f"  {line}" for line in self.details), *[self.next_step] * bool(self.next_step)]
        )

    def __iter__(self) -> Iterator[str]:
        return iter((self.status, *self.direction))

    def matches(self, word: str) -> bool:
        """Whether a word names the status or a direction."""
        return word == self.status or word in self.direction


UNTESTED = "Calibration not tested"
UNLABELLED = Verdict(NOT_TESTED, headline=UNTESTED, details=("there are no labels",))
NO_CONFIDENCE = Verdict(NOT_TESTED, headline="Calibration not tested: no confidence")
NOT_REQUESTED = Verdict(
    NOT_TESTED, headline=UNTESTED, details=("no calibration error was requested",),
    next_step="evaluate with the default metrics",
)  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """What the pass found for the verdict: the estimates of the family, and what else it speaks of."""

    kind: str
    """binary, classes, judged or regression."""
    tests: Mapping[str, Estimate] = field(default_factory=dict)
    """By spec, in the order of the family."""
    direction: Mapping[str, Estimate] = field(default_factory=dict)
    """Estimates that show a direction, and are no tests of the family."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Specs of the family that could not be computed, and why."""
    classes: tuple[ClassShare, ...] = ()
    shares: tuple[float, float] | None = None
    """Mean prediction and observed share: of the positive class, or mean confidence and accuracy."""
