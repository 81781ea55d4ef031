"""The rows and columns of table 1, the paper's values, and its claims as tests of the checks of one seed.

A *reading* is a model and how replicates draw its members: the ensemble with one member per row (independent) or one
for all rows (Bayesian), and dropout with one mask for all rows.

Reference: Gopal (2021), table 1 and sections 3.3 and 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from calibrant.bench.gopal.data import IN, OUT
from calibrant.bench.papers import Statement
from calibrant.results.check import Check

ENSEMBLE, DROPOUT = "deep_ensemble", "mc_dropout"
MODELS = {ENSEMBLE: "deep ensemble", DROPOUT: "MC dropout"}
INDEPENDENT, BAYESIAN, MASKS = "Independent Ensemble", "Bayesian Ensemble", "MC Dropout"
READINGS = {INDEPENDENT: ENSEMBLE, BAYESIAN: ENSEMBLE, MASKS: DROPOUT}
"""The rows of the table, and the model of each."""
SETS = {IN: "in distribution", OUT: "out of distribution"}
Place = tuple[str, str]
"""A reading and a set: a cell of the table."""
PAPER: Mapping[Place, tuple[float, float]] = {
    (INDEPENDENT, IN): (0.088, 0.002),
    (BAYESIAN, IN): (0.034, 0.008),
    (MASKS, IN): (0.227, 0.057),
    (INDEPENDENT, OUT): (1.0, 0.001),
    (BAYESIAN, OUT): (0.197, 0.396),
    (MASKS, OUT): (0.186, 1.319),
}
"""The paper's p-value and sharpness."""


def passes_in_paper(place: Place) -> bool:
    """The paper's rule: a check passes if its p-value is neither 0 nor 1."""
    return 0.0 < PAPER[place][0] < 1.0


# -------------------------------------------------------------------------------------------------- claims
Checks = Mapping[Place, Check]
"""The six checks of a seed."""


def passes(checks: Checks, reading: str, where: str) -> bool:
    """Whether a check passes by the paper's rule."""
    return bool(checks[reading, where].passed_range)


def sharper(checks: Checks, where: str) -> bool:
    """Whether sharpness increases from the independent to the Bayesian ensemble, and from there to dropout."""
    first, second, third = (checks[reading, where].sharpness for reading in READINGS)
    return first < second < third


CLAIMS: Mapping[str, Callable[[Checks], bool]] = {
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
    """Every claim, with its outcome for each seed."""
    every = tuple(seeds)
    return tuple(Statement(claim, tuple(bool(test(checks)) for checks in every)) for claim, test in CLAIMS.items())
