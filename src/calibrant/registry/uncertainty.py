"""Entries of the registry: the uncertainty of rows, each reported as its mean."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from calibrant.kernels.rows import MARGIN, Rows
from calibrant.registry.accumulators import Mean
from calibrant.registry.metric import Metric
from calibrant.registry.pairs import CLASSES, INFINITE
from calibrant.scores import uncertainty


def _row_mean(
    name: str,
    title: str,
    definition: str,
    reference: str,
    score: Callable[[Rows], np.ndarray],
    *,
    needs: frozenset[str] = frozenset(),
    tasks: frozenset[str] = CLASSES,
    limits: tuple[float, float] = (0.0, INFINITE),
    wanted: frozenset[Hashable] = frozenset(),
) -> Metric:
    """A row uncertainty, reported as its mean."""
    return Metric(
        name=name,
        title=title,
        definition=definition,
        reference=reference,
        direction="none",
        limits=limits,
        needs=needs,
        tasks=tasks,
        cost="linear",
        merge="exact",
        interval="studentised",
        accumulate=lambda spec, predictions: Mean(score, limits),
        wanted=lambda spec, predictions: wanted,
    )


MEMBERS = frozenset({"members"})
BOTH = frozenset({"classification", "judged"})
DEPEWEG = "Depeweg et al. (2018), ICML 35: 1184-1193"
METRICS = (
    _row_mean(
        "entropy",
        "Predictive entropy",
        "Mean entropy of the averaged prediction, in nats.",
        DEPEWEG,
        uncertainty.entropy,
        tasks=BOTH,
    ),
    _row_mean(
        "expected_entropy",
        "Expected entropy",
        "Mean over rows and members of the members' entropy: the part that knowing the member would not remove.",
        DEPEWEG,
        uncertainty.expected_entropy,
        needs=MEMBERS,
        tasks=BOTH,
    ),
    _row_mean(
        "mutual_information",
        "Mutual information",
        "Entropy of the averaged prediction minus the members' mean entropy: what the members disagree on.",
        DEPEWEG,
        uncertainty.mutual_information,
        needs=MEMBERS,
        tasks=BOTH,
    ),
    _row_mean(
        "variation_ratio",
        "Variation ratio",
        "Mean share of members that do not vote for the modal class.",
        "Gal (2016), PhD thesis, Cambridge, section 3.3",
        uncertainty.variation_ratio,
        needs=MEMBERS,
        limits=(0.0, 1.0),
    ),
    _row_mean(
        "margin",
        "Margin",
        "Mean probability of the first class minus that of the second; small is uncertain.",
        "Scheffer, Decomain & Wrobel (2001), IDA: 309-318",
        uncertainty.margin,
        limits=(0.0, 1.0),
        wanted=frozenset({MARGIN}),
    ),
    _row_mean(
        "energy",
        "Energy",
        "Mean −log Σ exp(logits), averaged over members; higher is more uncertain.",
        "Liu et al. (2020), NeurIPS 33: 21464-21475",
        uncertainty.energy,
        needs=frozenset({"logits"}),
        limits=(-INFINITE, INFINITE),
    ),
)
