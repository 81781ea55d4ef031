"""Entries of the registry: the uncertainty of rows, each reported as its mean."""

from __future__ import annotations

from functools import partial

from calibrant.kernels.rows import MARGIN
from calibrant.registry.metric import Metric
from calibrant.registry.state.accumulators import Mean
from calibrant.registry.state.pairs import CLASSES, INFINITE
from calibrant.scores import uncertainty

row_mean = partial(
    Metric, family="uncertainty", axis="uncertainty", direction="none", limits=(0.0, INFINITE), tasks=CLASSES,
    cost="linear", merge="exact", interval="studentised",
)  # fmt: skip
"""The defaults of an entry of this file."""
MEMBERS = frozenset({"members"})
BOTH = frozenset({"classification", "judged"})
DEPEWEG = "Depeweg et al. (2018), ICML 35: 1184-1193"
METRICS = (
    row_mean(
        name="entropy",
        title="Predictive entropy",
        definition="Mean entropy of the averaged prediction, in nats.",
        reference=DEPEWEG,
        tasks=BOTH,
        roles={"default": 8, "main": 6, "group": 8, "group_column": 10, "shift_uncertainty": 1},
        accumulate=lambda spec, predictions: Mean(uncertainty.entropy, (0.0, INFINITE)),
    ),
    row_mean(
        name="expected_entropy",
        title="Expected entropy",
        definition="Mean over rows and members of the members' entropy: the aleatoric part.",
        reference=DEPEWEG,
        needs=MEMBERS,
        tasks=BOTH,
        accumulate=lambda spec, predictions: Mean(uncertainty.expected_entropy, (0.0, INFINITE)),
    ),
    row_mean(
        name="mutual_information",
        aliases=("mi", "bald"),
        title="Mutual information",
        definition="Entropy of the averaged prediction minus the members' mean entropy: the epistemic part.",
        reference=DEPEWEG,
        needs=MEMBERS,
        tasks=BOTH,
        roles={"default": 9, "main": 8, "group": 9, "group_column": 11, "demo": 7},
        accumulate=lambda spec, predictions: Mean(uncertainty.mutual_information, (0.0, INFINITE)),
    ),
    row_mean(
        name="variation_ratio",
        title="Variation ratio",
        definition="Mean share of members that do not vote for the modal class.",
        reference="Gal (2016), PhD thesis, Cambridge, section 3.3",
        limits=(0.0, 1.0),
        needs=MEMBERS,
        accumulate=lambda spec, predictions: Mean(uncertainty.variation_ratio, (0.0, 1.0)),
    ),
    row_mean(
        name="margin",
        title="Margin",
        definition="Mean probability of the first class minus that of the second; small is uncertain.",
        reference="Scheffer, Decomain & Wrobel (2001), IDA: 309-318",
        limits=(0.0, 1.0),
        accumulate=lambda spec, predictions: Mean(uncertainty.margin, (0.0, 1.0)),
        required_columns=lambda spec, predictions: frozenset({MARGIN}),
    ),
    row_mean(
        name="energy",
        title="Energy",
        definition="Mean −log Σ exp(logits), averaged over members; higher is more uncertain.",
        reference="Liu et al. (2020), NeurIPS 33: 21464-21475",
        limits=(-INFINITE, INFINITE),
        needs=frozenset({"logits"}),
        accumulate=lambda spec, predictions: Mean(uncertainty.energy),
    ),
)
