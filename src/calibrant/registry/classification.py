"""The metrics of class predictions and judged answers: one entry each, with the facts beside the code."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import numpy as np

from calibrant.kernels.rows import MARGIN, PREDICTED_CLASS, RANK, Rows
from calibrant.predictions import Classification, Judged
from calibrant.registry.accumulators import (
    BinnedError,
    BrierPart,
    Corp,
    Mean,
    Pairs,
    Ranking,
    Share,
)
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.scores import decomposition, proper, uncertainty

CLASSES = frozenset({"classification"})
INFINITE = math.inf
OF = Option("of", "top", "the pairs: top = (confidence, correct), or a class by name or number")


def _of_class(spec: Spec, predictions: Classification | Judged) -> int | None:
    """The class whose probability is meant, or None for the top label."""
    if spec["of"] == "top" or isinstance(predictions, Judged):
        return None
    return predictions.class_index(str(spec["of"]))


def _wanted_class(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
    k = _of_class(spec, predictions)
    return frozenset() if k is None else frozenset({("class", k)})


def _pairs(spec: Spec, predictions: Classification | Judged) -> Pairs:
    k = _of_class(spec, predictions)
    if k is None:
        return lambda rows: (rows.confidence, proper.accuracy(rows))
    return _class_pairs(k)


def _class_pairs(k: int) -> Pairs:
    def pairs(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["class", k], rows.extras["label", k]

    return pairs


# --------------------------------------------------------------------------------------- scores
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
    interval="Wilson; studentised with units or soft labels",
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
    interval="Wilson; studentised with units",
    options=(Option("k", 5, "how many classes count", at_least=1),),
    accumulate=lambda spec, predictions: Share(lambda rows: proper.top_k(rows, int(spec["k"])), (0.0, 1.0)),
    wanted=lambda spec, predictions: frozenset({RANK}),
)
NLL = Metric(
    name="nll",
    title="Negative log-likelihood",
    definition="−mean log p(label), in nats. Infinite where p(label) = 0, and reported as such; clip= bounds p from "
    "below.",
    reference="Good (1952), JRSS B 14: 107-114; Gneiting & Raftery (2007), JASA 102: 359-378",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels"}),
    proper=True,
    comparable=False,
    bias="Unbiased. Before temperature scaling it ranks models wrongly (Ashukha et al. 2020): compare calibrated "
    "log-likelihoods.",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(Option("clip", 0.0, "smallest probability, 0 for none", at_least=0.0, at_most=1.0),),
    light=True,
    accumulate=lambda spec, predictions: Mean(lambda rows: proper.nll(rows, float(spec["clip"])), (0.0, INFINITE)),
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


# ------------------------------------------------------------------------------- decompositions
def _brier_part(part: str, title: str, definition: str, direction: str) -> Metric:
    bins = Option("bins", 15, "equal-width bins of each class's probability", at_least=1, at_most=10_000)
    by = Option(
        "by",
        "bins",
        "predicted_class: the grouping of Ovadia's code",
        choices=("bins", "predicted_class"),
    )

    def grouped(spec: Spec) -> bool:
        return spec.options.get("by") == "predicted_class"

    def wanted(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
        return frozenset({PREDICTED_CLASS if grouped(spec) else ("classwise", int(spec["bins"]))})

    def accumulate(spec: Spec, predictions: Classification | Judged) -> BrierPart:
        (key,) = wanted(spec, predictions)
        split = decomposition.by_predicted_class if grouped(spec) else decomposition.from_table
        return BrierPart(part, key, split)

    return Metric(
        name=f"brier_{part}",
        title=title,
        definition=definition + " Brier = uncertainty − resolution + reliability + within, to rounding.",
        reference="Murphy (1973), J. Appl. Meteorology 12: 595-600; Stephenson, Coelho & Jolliffe (2008), Weather and "
        "Forecasting 23: 752-757",
        direction=direction,
        limits=(-2.0, 2.0) if part == "within" else (0.0, 2.0),
        needs=frozenset({"hard_labels"}),
        tasks=CLASSES,
        bias=""
        if part == "uncertainty"
        else "Plug-in, depends on the bins and on n; no interval that covers is known.",
        cost="linear",
        merge="exact",
        options=(bins,) if part == "within" else (bins, by),
        wanted=wanted,
        accumulate=accumulate,
    )


BRIER_PARTS = (
    _brier_part(
        "reliability",
        "Brier reliability",
        "Σ_c Σ_b n_b/N (p̄ − ȳ)²: how far predictions are from frequencies. by=predicted_class groups as Ovadia's "
        "public code does, whose parts do not add up.",
        "lower",
    ),
    _brier_part(
        "resolution",
        "Brier resolution",
        "Σ_c Σ_b n_b/N (ȳ_b − ȳ)²: how far frequencies vary.",
        "higher",
    ),
    _brier_part(
        "uncertainty",
        "Brier uncertainty",
        "Σ_c ȳ_c(1 − ȳ_c): what the labels alone leave open.",
        "none",
    ),
    _brier_part(
        "within",
        "Brier within bins",
        "Within-bin variance of p minus twice its covariance with y.",
        "none",
    ),
)


def _corp_part(part: str, title: str, definition: str, direction: str) -> Metric:
    return Metric(
        name=f"corp_{part}",
        title=title,
        definition=definition + " Of mean (p − y)² over the pairs: score = miscalibration − discrimination + "
        "uncertainty, exactly and without bins.",
        reference="Dimitriadis, Gneiting & Jordan (2021), PNAS 118: e2016191118",
        direction=direction,
        limits=(0.0, 1.0),
        needs=frozenset({"labels"}),
        bias="" if part == "uncertainty" else "Positive for a perfect model at any n, falling like n^(−2/3).",
        cost="sort",
        merge="rows",
        options=(OF,),
        wanted=_wanted_class,
        accumulate=lambda spec, predictions: Corp(_pairs(spec, predictions), part=part),
    )


CORP_PARTS = (
    _corp_part("miscalibration", "CORP miscalibration", "What isotonic recalibration would gain.", "lower"),
    _corp_part(
        "discrimination",
        "CORP discrimination",
        "What the recalibrated predictions gain over the mean.",
        "higher",
    ),
    _corp_part("uncertainty", "CORP uncertainty", "The score of the mean of y.", "none"),
)


# ------------------------------------------------------------------------------------ uncertainty
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
ROW_MEANS = (
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


# ---------------------------------------------------------------------------------------- ranking
def _ranking(name: str, which: int, title: str, definition: str, reference: str, interval: str) -> Metric:
    return Metric(
        name=name,
        title=title,
        definition=definition,
        reference=reference,
        direction="higher",
        limits=(0.0, 1.0),
        needs=frozenset({"binary", "hard_labels"}),
        tasks=CLASSES,
        cost="sort",
        merge="rows",
        interval=interval,
        wanted=lambda spec, predictions: frozenset({("class", 1)}),
        accumulate=lambda spec, predictions: Ranking(_class_pairs(1), which=which),
    )


RANKINGS = (
    _ranking(
        "roc_auc",
        0,
        "ROC AUC",
        "Probability that a row of class 1 has a higher P(class 1) than a row of class 0, ties counting half.",
        "DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44: 837-845, for the interval",
        "DeLong on the logit scale; Poisson bootstrap with weights or units",
    ),
    _ranking(
        "average_precision",
        1,
        "Average precision",
        "Σ (recall step)·(precision) over falling P(class 1), equal scores being one step.",
        "Davis & Goadrich (2006), ICML 23: 233-240",
        "Poisson bootstrap",
    ),
)

ECE = Metric(
    name="ece",
    title="Expected calibration error",
    definition="Σ_b n_b/N |mean y − mean p| over bins of the pairs (confidence, correct), or (p_c, label is c) with "
    "of=. Bins are ((b−1)/B, b/B]; binning=mass cuts between distinct values. norm=l2 takes the root of the mean "
    "square, norm=max the largest gap.",
    reference="Naeini, Cooper & Hauskrecht (2015), AAAI 29; Bröcker & Smith (2007), Weather and Forecasting 22: "
    "651-661, for the null band",
    direction="lower",
    limits=(0.0, 1.0),
    needs=frozenset({"labels"}),
    comparable=False,
    bias="Plug-in, biased upwards: a perfect model is positive at any n (see the null band), by an amount that differs "
    "between models, bins and n. A lower bound of the calibration error in the limit.",
    cost="linear",
    merge="rows",
    interval="union of two test inversions (norm=max has none)",
    options=(
        Option("bins", 15, "number of bins", at_least=1, at_most=100_000),
        Option("binning", "width", "equal width or equal mass", choices=("width", "mass")),
        Option("norm", "l1", "l1, l2 or max", choices=("l1", "l2", "max")),
        OF,
    ),
    wanted=_wanted_class,
    light=True,
    accumulate=lambda spec, predictions: BinnedError(
        _pairs(spec, predictions),
        bins=int(spec["bins"]),
        binning=str(spec["binning"]),
        norm=str(spec["norm"]),
    ),
)

METRICS: tuple[Metric, ...] = (
    ACCURACY, TOP_K, NLL, BRIER, RBS, UPPER_BOUND, ECE, *RANKINGS, *ROW_MEANS, *BRIER_PARTS, *CORP_PARTS,
)  # fmt: skip
