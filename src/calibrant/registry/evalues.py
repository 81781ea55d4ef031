"""Entries of the registry: evidence against calibration that may be looked at any time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.evalue import LOWEST, LogRatios
from calibrant.kernels.loops.evalue import FAR
from calibrant.predictions import Classification, Judged
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Spec
from calibrant.registry.pairs import INFINITE, OF, Pairs, pairs_of, wanted_class
from calibrant.registry.sharing import Reduced

SMALLEST = 1e-300
REFERENCE = (
    "Arnold, Henzi & Ziegel (2023), Annals of Applied Statistics 17: 1909-1935; Vovk & Wang (2021), Annals of "
    "Statistics 49: 1736-1754; Ville (1939), Étude critique de la notion de collectif"
)


@dataclass(frozen=True)
class StatedPairs:
    """Pairs of forecast and outcome in which 0 and 1 mean never and always.

    Of class probabilities, 1.0 may be one minus what was lost in rounding. So they are held off 0 and 1, at distances
    where only alternatives that say less bet, for which that errs on the safe side; unless what came out had
    probability 0.
    """

    pairs: Pairs
    rounded: bool

    def __call__(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """p and y (N,)."""
        p, y = self.pairs(rows)
        if not self.rounded or (p.min() >= SMALLEST and p.max() <= 1.0 - FAR):
            return p, y
        ends = ((p >= 1.0) & (y == 0)) | ((p <= 0.0) & (y == 1))
        impossible = ends & np.isneginf(rows.log_label) if ends.any() else ends
        return np.where(impossible, p, np.clip(p, SMALLEST, 1.0 - FAR)), y


def stated_pairs(spec: Spec, predictions: Classification | Judged) -> StatedPairs:
    """(confidence, correct), or the pairs of a class."""
    return StatedPairs(pairs_of(spec, predictions), rounded=isinstance(predictions, Classification))


@dataclass
class Evidence:
    """Sums of log likelihood ratios; rows that depend on each other have none that could be multiplied."""

    pairs: StatedPairs
    ratios: LogRatios = field(default_factory=LogRatios)
    by_unit: bool = False

    def add(self, rows: Any, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.by_unit |= rows.units is not None
        self.ratios.add(*self.pairs(rows))

    def merge(self, other: Evidence) -> None:
        """Take in what another has seen."""
        self.by_unit |= other.by_unit
        self.ratios.merge(other.ratios)


def _estimate(state: Evidence, settings: Settings) -> Estimate:
    if state.by_unit:
        return Estimate.of(math.nan, state.ratios.n)
    value = log10(state.ratios.log_e())
    if not settings.intervals:
        return Estimate.of(value, state.ratios.n)
    null_high = -math.log10(1.0 - settings.level)  # Markov's inequality
    p_value = min(1.0, 10.0**-value)
    return Estimate.of(value, state.ratios.n, null_low=log10(LOWEST), null_high=null_high, p_value=p_value)


def log10(log_e: float) -> float:
    """The decimal logarithm, of the natural one."""
    return log_e / math.log(10.0)


def _log_e_value(spec: Spec, predictions: Classification | Judged) -> Reduced:
    pairs = stated_pairs(spec, predictions)
    return Reduced(("log_e", pairs), Evidence(pairs), _estimate)


def _refuses(spec: Spec, predictions: Classification | Judged) -> str | None:
    del spec
    weighted = getattr(predictions, "weights", None) is not None
    return "it multiplies likelihoods of rows and has no weighted form" if weighted else None


LOG_E_VALUE = Metric(
    name="log_e_value",
    title="E-value against calibration, log₁₀",
    definition="log₁₀ E, with E the mean of two mixtures of likelihood ratios: of Cox's lines logit q = a + b·logit p, "
    "and of shifts of the logit apart in ten bins. If the predictions are right, E has expectation 1 and the chance "
    "that it ever reaches 1/α is at most α: above log₁₀ 20 = 1.30 calibration is rejected at 5 %, whenever one looks. "
    "The p-value is min(1, 1/E), and the band ends where it falls to 1 − level.",
    reference=REFERENCE,
    direction="lower",
    limits=(-INFINITE, INFINITE),
    needs=frozenset({"hard_labels"}),
    comparable=False,
    bias="Grows with n for any given miscalibration; below 0 is no evidence, and is not evidence of calibration. Finds "
    "less than a test for which the number of rows was fixed beforehand. Infinite once a forecast of 0 comes true. "
    "Rows must be given one by one and not depend on each other given the past: with units it is undefined. The last "
    "value does not depend on the order of rows; looks in between must be in the order in which they came.",
    cost="linear",
    merge="exact",
    of_many=False,
    options=(OF,),
    wanted=wanted_class,
    refuses=_refuses,
    by_unit=False,
    light=True,
    accumulate=_log_e_value,
)

METRICS = (LOG_E_VALUE,)
