"""Entries of the registry: accuracy, proper scores and the upper bounds that they give."""

from __future__ import annotations

import math
from collections.abc import Hashable

from calibrant.kernels.regression_rows import NLL as REGRESSION_NLL
from calibrant.kernels.rows import RANK
from calibrant.predictions import Classification, Judged, Regression
from calibrant.registry.accumulators import Mean, Share
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import CLASSES, INFINITE
from calibrant.scores import proper, regression

ACCURACY = Metric(
    name="accuracy",
    title="Accuracy",
    definition="Share of rows whose most probable class (the first of equals) is the label; with soft labels, mean "
    "label probability of that class. Judged answers: share of right answers.",
    reference="Wilson (1927), JASA 22: 209-212, for the interval",
    direction="higher",
    limits=(0.0, 1.0),
    needs=frozenset({"labels"}),
    cost="linear",
    merge="exact",
    interval="Wilson, with an effective number of rows for weights and units; studentised with soft labels",
    light=True,
    accumulate=lambda spec, predictions: Share(proper.accuracy, (0.0, 1.0)),
)
TOP_K = Metric(
    name="top_k",
    title="Top-k accuracy",
    definition="Share of rows whose label is among the k most probable classes; among equals the first class counts "
    "as more probable.",
    reference="Russakovsky et al. (2015), IJCV 115: 211-252",
    direction="higher",
    limits=(0.0, 1.0),
    needs=frozenset({"hard_labels"}),
    tasks=CLASSES,
    cost="linear",
    merge="exact",
    interval="Wilson, with an effective number of rows for weights and units",
    options=(Option("k", 5, "how many classes count", at_least=1),),
    accumulate=lambda spec, predictions: Share(lambda rows: proper.top_k(rows, int(spec["k"])), (0.0, 1.0)),
    wanted=lambda spec, predictions: frozenset({RANK}),
)


def _nll(spec: Spec, predictions: Classification | Judged | Regression) -> Mean:
    if isinstance(predictions, Regression):
        return Mean(regression.nll)
    return Mean(lambda rows: proper.nll(rows, float(spec["clip"])), (0.0, INFINITE))


def _nll_wanted(spec: Spec, predictions: Classification | Judged | Regression) -> frozenset[Hashable]:
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


NLL = Metric(
    name="nll",
    title="Negative log-likelihood",
    definition="−mean log p(label), in nats; infinite where p(label) = 0, and reported as such; clip= bounds p from "
    "below. Regression: −mean log of the predictive density at y, of a Gaussian or a mixture.",
    reference="Good (1952), JRSS B 14: 107-114; Gneiting & Raftery (2007), JASA 102: 359-378",
    direction="lower",
    limits=(-INFINITE, INFINITE),
    needs=frozenset({"labels"}),
    tasks=frozenset({"classification", "judged", "regression"}),
    proper=True,
    comparable=False,
    pitfall="uncalibrated-likelihood",
    bias="Unbiased. Before temperature scaling it ranks models wrongly (Ashukha et al. 2020): compare calibrated "
    "log-likelihoods.",
    cost="linear",
    merge="exact",
    interval="studentised",
    wanted=_nll_wanted,
    refuses=_nll_refuses,
    options=(Option("clip", 0.0, "smallest probability, 0 for none", at_least=0.0, at_most=1.0),),
    light=True,
    accumulate=_nll,
)


def _brier_scale(spec: Spec, predictions: Classification | Judged) -> float:
    return getattr(predictions, "classes", 2) if spec["per_class"] else 1.0


def _brier_mean(spec: Spec, predictions: Classification | Judged) -> Mean:
    scale = _brier_scale(spec, predictions)
    return Mean(lambda rows: proper.brier(rows) / scale, (0.0, 2.0 / scale))


BRIER = Metric(
    name="brier",
    title="Brier score",
    definition="mean Σ_c (p_c − 1{c = label})²: the sum over classes, in [0, 2]. per_class=true divides by C. Of "
    "judged answers: over right and wrong, twice the squared error of the confidence.",
    reference="Brier (1950), Monthly Weather Review 78: 1-3",
    direction="lower",
    limits=(0.0, 2.0),
    needs=frozenset({"labels"}),
    proper=True,
    pitfall="uncalibrated-likelihood",
    bias="Unbiased. An upper bound of the squared canonical calibration error (Gruber & Buettner 2022).",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(Option("per_class", False, "divide by the number of classes"),),
    accumulate=_brier_mean,
)


def _rbs(spec: Spec, predictions: Classification | Judged) -> Mean:
    factor = proper.rbs_factor(getattr(predictions, "classes", 2), float(spec["p"]))
    return Mean(proper.brier, (0.0, 2.0), transform=lambda value: factor * math.sqrt(max(value, 0.0)))


RBS = Metric(
    name="rbs",
    title="Root Brier score",
    definition="C^(1/p − 1/2)·√Brier, an upper bound of the canonical calibration error CE_p for 1 ≤ p ≤ 2.",
    reference="Gruber & Buettner (2022), NeurIPS 35, section 4 and theorem 3.1",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels"}),
    pitfall="uncalibrated-likelihood",
    bias="Consistent; biased by the root only, O(1/n).",
    cost="linear",
    merge="exact",
    interval="studentised, then the root",
    options=(Option("p", 2.0, "norm of the calibration error that is bounded", at_least=1.0, at_most=2.0),),
    accumulate=_rbs,
)
UPPER_BOUND = Metric(
    name="upper_bound",
    title="Calibration upper bound",
    definition="E[S] − inf_P g_S(P) ≥ CE_S, with g_S the generalised entropy of the proper score S; the infimum is 0 "
    "for the Brier and the log score.",
    reference="Gruber & Buettner (2022), NeurIPS 35, theorem 4.3",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels"}),
    pitfall="uncalibrated-likelihood",
    bias="Unbiased; the bound is tight as accuracy goes to 1.",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(Option("score", "brier", "the proper score", choices=("brier", "nll")),),
    accumulate=lambda spec, predictions: Mean(
        proper.brier if spec["score"] == "brier" else proper.nll, (0.0, INFINITE)
    ),
    default=False,
)

METRICS = (ACCURACY, TOP_K, NLL, BRIER, RBS, UPPER_BOUND)
