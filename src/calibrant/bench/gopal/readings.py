"""The rows and columns of table 1, and what the paper has in them.

A *reading* is a model and how its members draw: the ensemble with a member for each row (independent) or with one for
all rows (Bayesian), and dropout with one mask for all rows.

Reference: Gopal (2021), table 1 and section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.bench.gopal.data import IN, OUT

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
"""The p-value and the sharpness that the paper has."""


def passes_in_paper(place: Place) -> bool:
    """The paper's rule: a check passes where its p-value is neither 0 nor 1."""
    return 0.0 < PAPER[place][0] < 1.0
