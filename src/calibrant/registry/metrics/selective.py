"""Entries of the registry: how well a binary score ranks, and whether uncertain rows are those predicted wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from calibrant import intervals
from calibrant.detection import accuracy_uncertainty as avu
from calibrant.detection.influence import area_terms
from calibrant.detection.selective import selective_areas
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import NEEDS, Metric, Option, Skipped, Spec
from calibrant.registry.state.accumulators import Moments, Reduced
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


def _refuses_area(spec: Spec, predictions: Any) -> Skipped | str | None:
    """As `lacks_score`; fixed thresholds need a score with a largest value."""
    name = str(spec["score"])
    if spec.options.get("thresholds") == FIXED and ROW_SCORES[name].limit is None:
        return f"{name} has no largest value for thresholds=fixed to end at"
    return lacks_score(name, predictions)


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

    def reduce(state: KeptPairs, settings: Settings, given: float, ends: tuple[float, float] | None) -> Estimate:
        u, e, w, units = state.arrays()
        if column == 3:
            value = state.once(("avu_auc", ends), lambda: avu.avu_auc(u, e, w, ends))
        else:
            threshold = given if given > -math.inf else state.once("threshold", lambda: avu.default_threshold(u, e, w))
            cells = avu.cells_at(threshold, u, e, w)
            value = float((avu.avu, avu.p_accurate_certain, avu.p_uncertain_inaccurate)[column](cells))
        if not settings.intervals or math.isnan(value):
            return Estimate.of(value, state.n)
        terms = avu.area_terms(u, e, w, ends) if column == 3 else avu.terms_at(threshold, u, e, w)[column]
        interval = _interval_of_terms(value, terms, units, w is None, settings.level)
        if ends is None if column == 3 else given == -math.inf:  # thresholds come from the same rows
            interval = intervals.approximate(interval)
        return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))

    def accumulate(spec: Spec, predictions: Any) -> Reduced:
        ends = (0.0, _largest(spec, predictions)) if spec.options.get("thresholds") == FIXED else None
        return kept(_errors(spec), partial(reduce, given=float(spec.options.get("threshold", -math.inf)), ends=ends))

    return accumulate


def _interval_of_terms(
    value: float, terms: avu.Terms, units: np.ndarray | None, unweighted: bool, level: float
) -> intervals.Interval:
    """Wilson's interval where all terms are 0 or 1, with an effective number of rows; else that of a mean."""
    rows = terms.mass > 0
    values, mass = terms.value[rows], terms.mass[rows]
    moments = Moments()
    counts = unweighted and bool((mass == 1.0).all())
    moments.add(values, None if counts else mass, None if units is None else units[rows])
    if bool(((values == 0) | (values == 1)).all()):
        effective = moments.effective_n(level)
        return intervals.wilson(value, effective, level) if effective > 0 else intervals.NONE
    return intervals.studentised(value, *moments.error_and_skewness(), level)


def _largest(spec: Spec, predictions: Any) -> float:
    """The largest possible uncertainty by the score of the spec."""
    limit = ROW_SCORES[str(spec["score"])].limit
    return math.nan if limit is None else limit(getattr(predictions, "classes", None))


FIXED = "fixed"
THRESHOLDS = Option(
    "thresholds",
    "sample",
    "where the 21 thresholds lie: sample = from the lowest to the highest uncertainty of the rows, "
    "fixed = from 0 to the largest possible uncertainty, such as log C for the entropy of C classes",
    choices=("sample", FIXED),
)
THRESHOLD = Option(
    "threshold",
    -math.inf,
    "certain up to this uncertainty; -inf: halfway between the means of correct and of wrong rows",
)


CERTAINTY = "accuracy versus uncertainty"
CHOSEN = " Unless given, the threshold is chosen on the same rows; the interval ignores this."
avu_metric = partial(
    error_detection, axis=CERTAINTY, direction="higher", options=(score_option("entropy"), THRESHOLD),
    comparable=False, pitfall="confidence-thresholds", interval="Wilson; studentised where terms are not 0 or 1",
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
        options=(score_option("entropy"), THRESHOLDS),
        refuses=_refuses_area,
        bias="Thresholds span the model's own range of uncertainty, which single rows determine and the interval "
        "ignores; with thresholds=fixed they are the same for every model.",
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
