"""What is gained when the most uncertain rows are not answered, and whether right rows are certain.

- `rejection`: the accuracy of the rows that are left when the least confident share is rejected, rows of equal
  confidence standing in random order: rejected (0, 0.01 … 0.99), accuracy. The area above it is the metric `aac`.
  `rejection(score=entropy)` and, of several members, `rejection(score=mutual_information)` order by these instead.
- `risk_coverage`: the error rate among rows of at least some confidence, at most 200 points: coverage (their share of
  the weight), risk, threshold (the confidence).
- `avu`: accuracy versus uncertainty at 21 thresholds from the lowest to the highest entropy: t, uncertainty, avu,
  p_accurate_certain, p_uncertain_inaccurate (left out where no row is wrong). Of judged answers the uncertainty is one
  minus the confidence, and the name `avu(score=max_probability)`.

References: Nadeem, Zucker & Hanczar (2009); Geifman & El-Yaniv (2017), "Selective classification for deep neural
networks"; Krishnan & Tickoo (2020), "Improving model calibration with accuracy versus uncertainty optimization".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.detection.accuracy_uncertainty import avu_curves
from calibrant.detection.selective import accuracy_of_kept, rejection_curve
from calibrant.evaluation.curves.curve import KEPT, Columns, Curve, Drawn, Make, columns
from calibrant.predictions import Evaluated
from calibrant.registry.estimate import Settings
from calibrant.registry.kept import KeptPairs
from calibrant.registry.pairs import ErrorPairs, Pairs, TopPairs

REJECTED = np.arange(100) / 100
POINTS = 200


def curves(example: Evaluated) -> Iterator[Curve]:
    """Those of the confidence, and those of uncertainties that these predictions have."""
    if example.task not in ("classification", "judged"):
        return
    yield Curve("rejection", lambda example: _kept(TopPairs(), _rejection))
    yield Curve("risk_coverage", lambda example: _kept(TopPairs(), _risk_coverage))
    if example.task == "judged":
        yield Curve("avu(score=max_probability)", lambda example: _kept(ErrorPairs("max_probability"), _avu))
        return
    yield Curve("rejection(score=entropy)", lambda example: _kept(ErrorPairs("entropy"), _rejection_by), whole=True)
    yield Curve("avu", lambda example: _kept(ErrorPairs("entropy"), _avu), whole=True)
    if example.members > 1:
        name, pairs = "rejection(score=mutual_information)", ErrorPairs("mutual_information")
        yield Curve(name, lambda example: _kept(pairs, _rejection_by), whole=True)


def _kept(pairs: Pairs, made: Make) -> Drawn:
    return Drawn((KEPT, pairs), KeptPairs(pairs), made)


def _sums(state: KeptPairs) -> tuple[np.ndarray, np.ndarray]:
    """Weight, and weight of wrong rows, down to each distinct confidence."""
    runs = state.runs()
    return runs.w[::-1].cumsum(), (runs.w - runs.wy)[::-1].cumsum()


def _rejection(state: KeptPairs, settings: Settings) -> Columns:
    del settings
    return columns(rejected=REJECTED, accuracy=accuracy_of_kept(np.arange(100, 0, -1) / 100, *_sums(state)))


def _rejection_by(state: KeptPairs, settings: Settings) -> Columns:
    del settings
    return columns(rejected=REJECTED, accuracy=rejection_curve(*state.arrays()[:3])[1][:-1])


def _risk_coverage(state: KeptPairs, settings: Settings) -> Columns:
    del settings
    mass, wrong = _sums(state)
    coverage = mass / mass[-1]
    place = np.arange(len(mass))
    if len(mass) > POINTS:
        wanted = np.searchsorted(coverage, np.arange(1, POINTS + 1) / POINTS)
        place = np.unique(np.minimum(wanted, len(mass) - 1))
    threshold = state.runs().p[::-1]
    return columns(coverage=coverage[place], risk=(wrong / mass)[place], threshold=threshold[place])


def _avu(state: KeptPairs, settings: Settings) -> Columns:
    del settings
    found = avu_curves(*state.arrays()[:3])
    if not np.isfinite(found.avu).all():  # uncertainties without a finite range
        return {}
    wrong = found.p_uncertain_inaccurate
    return columns(
        t=found.level,
        uncertainty=found.threshold,
        avu=found.avu,
        p_accurate_certain=found.p_accurate_certain,
        p_uncertain_inaccurate=wrong if np.isfinite(wrong).all() else None,
    )
