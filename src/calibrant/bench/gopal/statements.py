"""What the paper says of its table and figures, each as a question to the checks of one seed.

A check passes where the observed value lies within the range of the replicates: the paper's 0 < p < 1.

Reference: Gopal (2021), section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from calibrant.bench.gopal.data import IN, OUT
from calibrant.bench.gopal.readings import BAYESIAN, INDEPENDENT, MASKS, READINGS, Place
from calibrant.bench.recipes import Statement
from calibrant.checks.check import Check

Checks = Mapping[Place, Check]
"""The six checks of a seed."""


def passes(checks: Checks, reading: str, where: str) -> bool:
    """By the paper's rule."""
    return bool(checks[reading, where].passed_range)


def sharper(checks: Checks, where: str) -> bool:
    """Whether sharpness rises from the independent ensemble to the Bayesian one to dropout."""
    first, second, third = (checks[reading, where].sharpness for reading in READINGS)
    return first < second < third


SAID: Mapping[str, Callable[[Checks], bool]] = {
    "in distribution all three pass": lambda c: all(passes(c, r, IN) for r in READINGS),
    "in distribution dropout has a larger calibration error than the ensemble": lambda c: (
        c[MASKS, IN].observed > c[BAYESIAN, IN].observed
    ),
    "in distribution sharpness rises: independent, Bayesian ensemble, dropout": lambda c: sharper(c, IN),
    "out of distribution the independent ensemble fails": lambda c: not passes(c, INDEPENDENT, OUT),
    "out of distribution the Bayesian ensemble passes": lambda c: passes(c, BAYESIAN, OUT),
    "out of distribution MC dropout passes": lambda c: passes(c, MASKS, OUT),
    "out of distribution sharpness rises: independent, Bayesian ensemble, dropout": lambda c: sharper(c, OUT),
}


def statements_of(seeds: Iterable[Checks]) -> tuple[Statement, ...]:
    """Every statement, with whether each seed shows it."""
    every = tuple(seeds)
    return tuple(Statement(said, tuple(bool(ask(checks)) for checks in every)) for said, ask in SAID.items())
