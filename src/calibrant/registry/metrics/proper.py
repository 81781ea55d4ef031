"""Entries of the registry: accuracy, proper scores and the upper bounds that they give."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import partial

from calibrant.kernels.records import PREDICTIONS
from calibrant.kernels.regression_rows import NLL as REGRESSION_NLL
from calibrant.kernels.rows import RANK
from calibrant.predictions import Classification, Judged, Regression
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.state.accumulators import Mean, Share
from calibrant.registry.state.pairs import CLASSES, INFINITE
from calibrant.scores import proper, regression

score = partial(
    Metric, family="scores", axis="scores", direction="lower", limits=(0.0, INFINITE), needs=frozenset({"labels"}),
    cost="linear", merge="exact", interval="studentised",
)  # fmt: skip
"""The defaults of an entry of this file."""

ACCURACY = score(
    name="accuracy",
    aliases=("acc", "acc1", "top1", "top_1"),
    title="Accuracy",
    definition="Share of rows whose most probable class (the first one if tied) is the label; with soft labels, mean "
    "label probability of that class. Judged answers: share of correct answers.",
    reference="Wilson (1927), JASA 22: 209-212, for the interval",
    direction="higher",
    limits=(0.0, 1.0),
    surprise=("accuracy is lower than expected", "accuracy is higher than expected"),
    relevant_error=0.02,
    roles={
        "default": 1,
        "hit_rate": 1,
        "main": 1,
        "group": 1,
        "group_column": 1,
        "comparison": 3,
        "recalibration": 1,
        "check": 1,
        "shift_trend": 1,
        "demo": 1,
    },
    interval="Wilson, with an effective number of rows for weights and units; studentised with soft labels",
    short_pass=True,
    needs_confidence=False,
    accumulate=lambda spec, predictions: Share(proper.accuracy, (0.0, 1.0)),
)
TOP_K = score(
    name="top_k",
    title="Top-k accuracy",
    definition="Share of rows whose label is among the k most probable classes; of tied classes the first ranks "
    "higher.",
    reference="Russakovsky et al. (2015), IJCV 115: 211-252",
    direction="higher",
    limits=(0.0, 1.0),
    needs=frozenset({"hard_labels"}),
    tasks=CLASSES,
    roles={"hit_rate": 2, "main": 20},
    interval="Wilson, with an effective number of rows for weights and units",
    options=(Option("k", 5, "number of classes", at_least=1),),
    accumulate=lambda spec, predictions: Share(lambda rows: proper.top_k(rows, int(spec["k"])), (0.0, 1.0)),
    required_columns=lambda spec, predictions: frozenset({RANK}),
)


def _nll(spec: Spec, predictions: Classification | Judged | Regression) -> Mean:
    if isinstance(predictions, Regression):
        return Mean(regression.nll)
    return Mean(lambda rows: proper.nll(rows, float(spec["clip"])), (0.0, INFINITE))


def _nll_columns(spec: Spec, predictions: Classification | Judged | Regression) -> frozenset[Hashable]:
    if isinstance(predictions, Regression):
        return frozenset({REGRESSION_NLL})
    clipped = spec["clip"] and getattr(predictions, "soft", False)
    return frozenset({("clip", float(spec["clip"]))}) if clipped else frozenset()


def _nll_refuses(spec: Spec, predictions: Classification | Judged | Regression) -> str | None:
    if not isinstance(predictions, Regression):
        return None
    return (
        "it needs a density"
        if predictions.kind != "gaussian"
        else "densities are not clipped"
        if spec["clip"]
        else None
    )


NLL = score(
    name="nll",
    label="NLL",
    aliases=("logloss", "log_loss", "cross_entropy", "crossentropy", "xent", "loss", "nlpd"),
    title="Negative log-likelihood",
    definition="−mean log p(label), in nats; infinite if p(label) = 0; clip= bounds p from "
    "below. Regression: −mean log of the predictive density at y, of a Gaussian or a mixture.",
    reference="Good (1952), JRSS B 14: 107-114; Gneiting & Raftery (2007), JASA 102: 359-378",
    limits=(-INFINITE, INFINITE),
    tasks=frozenset({"classification", "judged", "regression"}),
    proper=True,
    divergence="the expected Kullback-Leibler divergence",
    comparable=False,
    pitfall="uncalibrated-likelihood",
    bias="Unbiased. Before temperature scaling it ranks models wrongly (Ashukha et al. 2020): compare calibrated "
    "log-likelihoods.",
    surprise=("the score is better than expected", "the score is worse than expected"),
    roles={
        "default": 2,
        "main": 2,
        "group": 2,
        "group_column": 4,
        "demo": 2,
        "row_loss": 1,
        "comparison": 1,
        "recalibration": 3,
        "regression_sample_size": 3,
        "check": 4,
    },
    required_columns=_nll_columns,
    refuses=_nll_refuses,
    options=(Option("clip", 0.0, "smallest probability, 0 for none", at_least=0.0, at_most=1.0),),
    short_pass=True,
    accumulate=_nll,
)


def _brier_mean(spec: Spec, predictions: Classification | Judged) -> Mean:
    scale = getattr(predictions, "classes", 2) if spec["per_class"] else 1.0
    return Mean(lambda rows: proper.brier(rows) / scale, (0.0, 2.0 / scale))


BRIER = score(
    name="brier",
    label="Brier",
    aliases=("brier_score",),
    title="Brier score",
    definition="mean Σ_c (p_c − 1{c = label})²: the sum over classes, in [0, 2]. per_class=true divides by C. Judged "
    "answers: over correct and incorrect, twice the squared error of the confidence.",
    reference="Brier (1950), Monthly Weather Review 78: 1-3",
    limits=(0.0, 2.0),
    proper=True,
    divergence="CE₂², the square of the canonical L2 error",
    pitfall="uncalibrated-likelihood",
    bias="Unbiased. An upper bound of the squared canonical calibration error (Gruber & Buettner 2022).",
    surprise=("the score is better than expected", "the score is worse than expected"),
    roles={
        "default": 3,
        "main": 3,
        "group": 3,
        "group_column": 8,
        "comparison": 2,
        "recalibration": 4,
        "sample_size": 9,
        "check": 5,
        "demo": 3,
    },
    options=(Option("per_class", False, "divide by the number of classes"),),
    accumulate=_brier_mean,
)


def _rbs(spec: Spec, predictions: Classification | Judged) -> Mean:
    factor = proper.rbs_factor(getattr(predictions, "classes", 2), float(spec["p"]))
    return Mean(proper.brier, (0.0, 2.0), transform=lambda value: factor * math.sqrt(max(value, 0.0)))


RBS = score(
    name="rbs",
    title="Root Brier score",
    definition="C^(1/p − 1/2)·√Brier, an upper bound of the canonical calibration error CE_p for 1 ≤ p ≤ 2.",
    reference="Gruber & Buettner (2022), NeurIPS 35, section 4 and theorem 3.1",
    root_of="brier",
    pitfall="uncalibrated-likelihood",
    bias="Consistent; biased by the root only, O(1/n).",
    roles={"sample_size_reference": 1, "main": 21, "recalibration": 5, "sample_size": 1},
    interval="studentised, then the root",
    options=(Option("p", 2.0, "norm of the calibration error that is bounded", at_least=1.0, at_most=2.0),),
    accumulate=_rbs,
)
UPPER_BOUND = score(
    name="upper_bound",
    title="Calibration upper bound",
    definition="E[S] − inf_P g_S(P) ≥ CE_S, with g_S the generalised entropy of the proper score S; the infimum is 0 "
    "for the Brier and the log score.",
    reference="Gruber & Buettner (2022), NeurIPS 35, theorem 4.3",
    pitfall="uncalibrated-likelihood",
    bias="Unbiased; the bound is tight as accuracy goes to 1.",
    options=(Option("score", "brier", "the proper score", choices=("brier", "nll")),),
    accumulate=lambda spec, predictions: Mean(
        proper.brier if spec["score"] == "brier" else proper.nll, (0.0, INFINITE)
    ),
    in_report=False,
)

RANKED_PROBABILITY = score(
    name="rps",
    aliases=("ranked_probability_score",),
    label="RPS",
    title="Ranked probability score",
    definition="mean Σ_{k < C} (Σ_{c ≤ k} p_c − 1{label ≤ k})², of classes in the order of their indices: near misses "
    "cost less. Half the Brier score for two classes. Some divide by C − 1.",
    reference="Epstein (1969), Journal of Applied Meteorology 8: 985-987",
    needs=frozenset({"hard_labels"}),
    tasks=CLASSES,
    proper=True,
    pitfall="uncalibrated-likelihood",
    required_columns=lambda spec, predictions: frozenset({PREDICTIONS}),
    accumulate=lambda spec, predictions: Mean(proper.ranked_probability, (0.0, INFINITE)),
    in_report=False,
)

METRICS = (ACCURACY, TOP_K, NLL, BRIER, RBS, UPPER_BOUND, RANKED_PROBABILITY)
