"""Scores of `calibrant compare` that are not metrics: they need rows to fit a temperature, or a pool of models."""

from __future__ import annotations

import math
from typing import NamedTuple

ASHUKHA = (
    "Ashukha, Lyzhov, Molchanov & Vetrov (2020), Pitfalls of in-domain uncertainty estimation and ensembling, ICLR 8"
)


class ComparisonScore(NamedTuple):
    """A score and, if it is a metric at the best temperature, that metric."""

    title: str
    definition: str
    reference: str
    label: str
    raw: str = ""
    """The metric without temperature scaling."""
    direction: str = "higher"
    limits: tuple[float, float] = (-math.inf, math.inf)
    """The least and the greatest value."""
    aliases: tuple[str, ...] = ()


COMPARISON_SCORES = {
    "cll": ComparisonScore(
        "Calibrated log-likelihood",
        "The mean log-likelihood at the best temperature T, p_T ∝ p^(1/T), which is fitted on one half of the rows and "
        "scores the other, both ways and several times, or is that of clean rows. NLL (ts) is its negative.",
        f"{ASHUKHA}, section 2.2",
        "CLL",
        raw="nll",
        limits=(-math.inf, 0.0),
        aliases=("log_likelihood", "likelihood", "loglik", "calibrated_log_likelihood"),
    ),
    "brier_ts": ComparisonScore(
        "Brier score at the best temperature",
        "The mean over rows of Σ(p_T − y)², with the temperature of the calibrated log-likelihood.",
        f"{ASHUKHA}, section 2.2; Brier (1950)",
        "Brier (ts)",
        raw="brier",
        direction="lower",
        limits=(0.0, 2.0),
    ),
    "dee": ComparisonScore(
        "Deep-ensemble equivalent (DEE)",
        "The number of members of the pool whose average has the calibrated log-likelihood of the model: "
        "min k with CLL(k) ≥ CLL, within 1 and the size of the pool; < 1 and > K lie beyond it.",
        f"{ASHUKHA}, equations 4 and 5",
        "DEE",
        limits=(1.0, math.inf),
        aliases=("deep_ensemble_equivalent",),
    ),
}
CALIBRATED = tuple(name for name, score in COMPARISON_SCORES.items() if score.raw)
"""Scores at the best temperature."""
