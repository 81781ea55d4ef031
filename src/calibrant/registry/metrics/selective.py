"""Entries of the registry: how well a binary score ranks, and whether uncertain rows are those predicted wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from calibrant import intervals
from calibrant.detection import accuracy_uncertainty as avu
from calibrant.detection.influence import area_terms
from calibrant.detection.selective import selective_areas
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import NEEDS, Metric, Option, Skipped, Spec
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.pairs import (
    AUC_INTERVAL,
    CLASSES,
    PRECISION_INTERVAL,
    ClassPairs,
    ErrorPairs,
    KeptPairs,
    effective_count,
    kept,
    ranking,
    replicates_of_rows,
    too_few,
)
from calibrant.scores.uncertainty import BOTH, ROW_SCORES

GEIFMAN = "Geifman, Uziel & El-Yaniv (2019), ICLR 7"
KRISHNAN = "Krishnan & Tickoo (2020), NeurIPS 33: 18237-18248"
HENDRYCKS = "Hendrycks & Gimpel (2017), ICLR 5"
NADEEM = "Nadeem, Zucker & Hanczar (2009), MLSB, PMLR 8: 65-81"
AREA_INTERVAL = "score interval from the influence of each row or unit"
CHOICES = tuple(name for name, score in ROW_SCORES.items() if score.tasks & BOTH)


def score_option(default: str) -> Option:
    """The option that selects the uncertainty score of rows."""
    return Option("score", default, "the uncertainty of a row", choices=CHOICES)


def lacks_score(name: str, predictions: Any) -> Skipped | str | None:
    """Why these predictions cannot give a row uncertainty, or None."""
    score = ROW_SCORES[name]
    if predictions.task not in score.tasks:
        return f"{name} is not defined for {predictions.task} predictions"
    if predictions.task == "judged" and name != "max_probability":
        return "of a judged answer only score=max_probability says how likely it is to be wrong"
    return next((NEEDS[need][1] for need in sorted(score.needs) if not NEEDS[need][0](predictions)), None)


error_detection = partial(
    Metric, family="error detection", axis="error detection", direction="lower", limits=(0.0, 1.0),
    needs=frozenset({"labels"}), cost="sort", merge="rows", interval="Poisson bootstrap",
    options=(score_option("max_probability"),),
    refuses=lambda spec, predictions: lacks_score(str(spec["score"]), predictions),
    required_columns=lambda spec, predictions: ROW_SCORES[str(spec["score"])].required_columns,
)  # fmt: skip
"""The defaults of an entry of this file."""


def _errors(spec: Spec) -> ErrorPairs:
    """The pairs (uncertainty, wrong) of the score of the spec."""
    return ErrorPairs(str(spec["score"]))


# ------------------------------------------------------------------------------------------ areas
def _resampled(
    state: KeptPairs, settings: Settings, value: float, key: Hashable, draw: Callable[..., np.ndarray], column: int
) -> Estimate:
    """A value with the percentile interval of resampled rows, or units."""
    u, e, w, units = state.arrays()
    if not settings.intervals or math.isnan(value) or (state.binary and too_few(e > 0, units)):
        return Estimate.of(value, state.n)
    replicates = replicates_of_rows(len(u), settings.resamples)
    drawn = state.once(
        (key, settings),
        lambda: draw(u, e, w, units, replicates=replicates, seed=settings.seed, threads=settings.threads),
    )
    interval = intervals.percentile(drawn[:, column], settings.level)
    return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))


def _area(column: int) -> Callable[[Spec, Any], Reduced]:
    """The accumulator of AURC (0), its excess (1) or AAC (2), which has the influence function of AURC."""

    def reduce(state: KeptPairs, settings: Settings) -> Estimate:
        u, e, w, units = state.arrays()
        value = state.once("areas", lambda: selective_areas(u, e, w))[column]
        if not settings.intervals or math.isnan(value) or (state.binary and too_few(e > 0, units)):
            return Estimate.of(value, state.n)
        terms = state.once("terms", lambda: area_terms(u, e, w))
        floor = terms.floors[column % 2] / effective_count(w, units, np.ones(len(u), bool)) ** 2
        by = None if units is None else units[terms.order]
        variance = intervals.Variance.of(terms[column % 2], by, floor)
        interval = intervals.score_interval(value, variance, floor, settings.level)
        return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))

    return lambda spec, predictions: kept(_errors(spec), reduce)


# --------------------------------------------------------------------------- accuracy and certainty
def _of_threshold(column: int) -> Callable[[Spec, Any], Reduced]:
    """The accumulator of AvU (0), p(accurate | certain) (1), p(uncertain | inaccurate) (2), or the area of AvU (3)."""

    def reduce(state: KeptPairs, settings: Settings, given: float) -> Estimate:
        u, e, w, _ = state.arrays()
        if column == 3:
            value, threshold = state.once("avu_auc", lambda: avu.avu_auc(u, e, w)), 0.0
        else:
            threshold = given if given > -math.inf else state.once("threshold", lambda: avu.default_threshold(u, e, w))
            cells = avu.cells_at(threshold, u, e, w)
            value = float((avu.avu, avu.p_accurate_certain, avu.p_uncertain_inaccurate)[column](cells))
        draw = partial(avu.avu_replicates, threshold=threshold)
        return _resampled(state, settings, value, ("avu", threshold), draw, column)

    def accumulate(spec: Spec, predictions: Any) -> Reduced:
        return kept(_errors(spec), partial(reduce, given=float(spec.options.get("threshold", -math.inf))))

    return accumulate


THRESHOLD = Option(
    "threshold",
    -math.inf,
    "certain up to this uncertainty; -inf: halfway between the means of correct and of wrong rows",
)


CERTAINTY = "accuracy versus uncertainty"
CHOSEN = " Unless given, the threshold is chosen on the same rows; the interval ignores this."
avu_metric = partial(
    error_detection, axis=CERTAINTY, direction="higher", options=(score_option("entropy"), THRESHOLD),
    comparable=False, pitfall="confidence-thresholds",
    bias="At the same threshold, models of different temperature retain different shares of rows (Ashukha et al. "
    "2020).",
)  # fmt: skip
"""The defaults of an entry that depends on a threshold between certain and uncertain rows."""
ranking_metric = partial(
    Metric, family="ranking", axis="scores", direction="higher", limits=(0.0, 1.0),
    needs=frozenset({"binary", "hard_labels"}), tasks=CLASSES, cost="sort", merge="rows",
    required_columns=lambda spec, predictions: frozenset({("class", 1)}),
)  # fmt: skip
"""The defaults of an entry on how well P(class 1) ranks."""
METRICS = (
    ranking_metric(
        name="roc_auc",
        label="AUROC",
        aliases=("auc", "rocauc", "roc", "auroc_score", "roc_auc_score"),
        title="ROC AUC",
        definition="Probability that a row of class 1 has a higher P(class 1) than a row of class 0, ties "
        "counting half.",
        reference="DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44: 837-845, for the interval",
        roles={"default": 4, "group": 6},
        accumulate=lambda spec, predictions: ranking(ClassPairs(1), 0),
        interval=AUC_INTERVAL,
    ),
    ranking_metric(
        name="average_precision",
        roles={"default": 5},
        aliases=("ap", "auprc", "pr_auc"),
        title="Average precision",
        definition="Σ (recall step)·(precision) over decreasing P(class 1), tied scores forming one step.",
        reference="Davis & Goadrich (2006), ICML 23: 233-240",
        accumulate=lambda spec, predictions: ranking(ClassPairs(1), 1),
        interval=PRECISION_INTERVAL,
    ),
    error_detection(
        name="misclassification_auroc",
        title="AUROC of misclassification",
        definition="Probability that a wrong prediction is more uncertain than a correct one; ties count half.",
        reference=HENDRYCKS,
        direction="higher",
        needs=frozenset({"hard_labels"}),
        comparable=False,
        pitfall="misclassification-auc",
        bias="Models make different errors: a better model can have a lower value (Ashukha et al. 2020).",
        roles={"default": 6, "main": 23, "group": 7, "demo": 6},
        accumulate=lambda spec, predictions: ranking(_errors(spec), 0),
        interval=AUC_INTERVAL,
    ),
    error_detection(
        name="misclassification_aupr",
        title="AUPR of misclassification",
        definition="Average precision of detecting wrong predictions by their uncertainty.",
        reference=HENDRYCKS,
        direction="higher",
        needs=frozenset({"hard_labels"}),
        comparable=False,
        pitfall="misclassification-auc",
        bias="Grows with the number of wrong rows: not comparable across models (Ashukha et al. 2020).",
        accumulate=lambda spec, predictions: ranking(_errors(spec), 1),
        interval=PRECISION_INTERVAL,
    ),
    error_detection(
        name="aurc",
        label="AURC",
        title="Area under the risk–coverage curve",
        definition="Mean over i of the error rate of the i most certain rows, ties averaged; with "
        "weights, over (Σw)²/Σw² rows.",
        reference=GEIFMAN,
        roles={"default": 7, "main": 5},
        accumulate=_area(0),
        interval=AREA_INTERVAL,
    ),
    error_detection(
        name="e_aurc",
        title="Excess AURC",
        definition="AURC minus that of the best order, in which every wrong row is less certain than every correct "
        "one.",
        reference=GEIFMAN,
        comparable=False,
        pitfall="misclassification-auc",
        bias="The optimum depends on the accuracy: a model with more errors can have a smaller excess.",
        accumulate=_area(1),
        interval=AREA_INTERVAL,
    ),
    error_detection(
        name="aac",
        label="AAC",
        title="Area above the accuracy–rejection curve",
        definition="Area between 1 and the accuracy of the retained rows, over the share of most uncertain rows "
        "rejected: AURC with rows split.",
        reference=NADEEM,
        accumulate=_area(2),
        interval=AREA_INTERVAL,
    ),
    avu_metric(
        name="avu",
        title="Accuracy versus uncertainty",
        definition="Share of rows that are correct and certain, or wrong and uncertain." + CHOSEN,
        reference=KRISHNAN,
        accumulate=_of_threshold(0),
    ),
    avu_metric(
        name="avu_auc",
        title="Area under the AvU curve",
        definition="AvU over 21 thresholds from the lowest to the highest uncertainty, by the trapezoidal rule.",
        reference=KRISHNAN,
        options=(score_option("entropy"),),
        bias="Thresholds span the model's own range of uncertainty, which single rows determine.",
        accumulate=_of_threshold(3),
    ),
    avu_metric(
        name="p_accurate_certain",
        title="p(accurate | certain)",
        definition="Share of correct rows among the certain ones." + CHOSEN,
        reference=f"Mukhoti & Gal (2018), arXiv 1811.12709; {KRISHNAN}",
        accumulate=_of_threshold(1),
    ),
    avu_metric(
        name="p_uncertain_inaccurate",
        title="p(uncertain | inaccurate)",
        definition="Share of uncertain rows among the wrong ones." + CHOSEN,
        reference=f"Mukhoti & Gal (2018), arXiv 1811.12709; {KRISHNAN}",
        accumulate=_of_threshold(2),
    ),
)
