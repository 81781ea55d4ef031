"""Entries of the registry: an e-value, evidence against calibration that is valid at any stopping time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from calibrant.calibration.evalue import LOWEST, LogRatios
from calibrant.kernels.loops.evalue import FAR
from calibrant.predictions import Classification, Judged
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Spec, refuse_weights
from calibrant.registry.state.accumulators import Reduced, State
from calibrant.registry.state.pairs import INFINITE, OF, Pairs, class_columns, pairs_of

SMALLEST = 1e-300
REFERENCE = (
    "Arnold, Henzi & Ziegel (2023), Annals of Applied Statistics 17: 1909-1935; Vovk & Wang (2021), Annals of "
    "Statistics 49: 1736-1754; Ville (1939), Étude critique de la notion de collectif"
)


@dataclass(frozen=True)
class StatedPairs:
    """Pairs of forecast and outcome in which 0 and 1 mean never and always.

    A class probability of 1.0 may be a rounded one. Class probabilities are therefore clipped away from 0 and 1, at
    distances where only less extreme alternatives bet, which makes clipping conservative. They are not clipped where
    the observed outcome had probability 0.
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
class Evidence(State):
    """Sums of log likelihood ratios. Ratios of dependent rows cannot be multiplied, so units make it undefined."""

    pairs: StatedPairs
    ratios: LogRatios = field(default_factory=LogRatios)
    MERGED: ClassVar = ("ratios",)

    def collect(self, rows: Any, spread: bool) -> None:
        """Add the ratios of these rows."""
        self.ratios.add(*self.pairs(rows))


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
    """Convert a natural logarithm to a decimal one."""
    return log_e / math.log(10.0)


LOG_E_VALUE = Metric(
    name="log_e_value",
    title="E-value against calibration, log₁₀",
    definition="log₁₀ E, with E the mean of two mixtures of likelihood ratios: of Cox's lines logit q = a + b·logit p, "
    "and of shifts of the logit apart in ten bins. If the predictions are right, E has expectation 1 and the chance "
    "that it ever reaches 1/α is at most α: above log₁₀ 20 = 1.30 calibration is rejected at the 5% level, at any "
    "time. The p-value is min(1, 1/E), and the band ends where it falls to 1 − level.",
    reference=REFERENCE,
    family="calibration tests",
    axis="",
    direction="lower",
    limits=(-INFINITE, INFINITE),
    needs=frozenset({"hard_labels"}),
    comparable=False,
    bias="Grows with n for any given miscalibration; values below 0 are no evidence of calibration. Less powerful "
    "than a test with a fixed number of rows. Infinite after an outcome with forecast probability 0. Rows must be "
    "independent given the past: with units it is undefined. The final value does not depend on the order of rows; "
    "intermediate values require the order of arrival.",
    cost="linear",
    merge="exact",
    slow=True,
    options=(OF,),
    required_columns=class_columns,
    refuses=refuse_weights("it multiplies likelihoods of rows and has no weighted form"),
    supports_units=False,
    short_pass=True,
    accumulate=lambda spec, predictions: Reduced(
        ("log_e", stated_pairs(spec, predictions)), Evidence(stated_pairs(spec, predictions)), _estimate
    ),
)

METRICS = (LOG_E_VALUE,)
