"""Entries of the registry: whether the rows that a model is uncertain of are those that it gets wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from calibrant import intervals
from calibrant.detection import accuracy_uncertainty as avu
from calibrant.detection.selective import selective_areas, selective_replicates
from calibrant.predictions import Classification, Judged
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.kept import KeptPairs, kept, ranking, replicates_of_rows, too_few
from calibrant.registry.metric import NEEDS, Metric, Option, Spec
from calibrant.registry.pairs import ErrorPairs
from calibrant.registry.sharing import Reduced
from calibrant.scores.uncertainty import BOTH, ROW_SCORES

GEIFMAN = "Geifman, Uziel & El-Yaniv (2019), ICLR 7"
KRISHNAN = "Krishnan & Tickoo (2020), NeurIPS 33: 18237-18248"
HENDRYCKS = "Hendrycks & Gimpel (2017), ICLR 5"
NADEEM = "Nadeem, Zucker & Hanczar (2009), MLSB, PMLR 8: 65-81"
CHOICES = tuple(name for name, score in ROW_SCORES.items() if score.tasks & BOTH)
BOOTSTRAP = "Poisson bootstrap"


def score_option(default: str) -> Option:
    """Which uncertainty of rows is meant."""
    return Option("score", default, "the uncertainty of a row", choices=CHOICES)


def lacks_score(name: str, predictions: Any) -> str | None:
    """Why these predictions cannot give a row uncertainty, or None."""
    score = ROW_SCORES[name]
    if predictions.task not in score.tasks:
        return f"{name} is not defined for {predictions.task} predictions"
    if predictions.task == "judged" and name != "max_probability":
        return "of a judged answer only score=max_probability says how likely it is to be wrong"
    return next((NEEDS[need][1] for need in sorted(score.needs) if not NEEDS[need][0](predictions)), None)


def _wanted(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
    del predictions
    return ROW_SCORES[str(spec["score"])].wanted


def _entry(name: str, title: str, definition: str, reference: str, reduce: Any, **facts: Any) -> Metric:
    default = facts.pop("score", "max_probability")

    def accumulate(spec: Spec, predictions: Classification | Judged) -> Reduced:
        del predictions
        made = reduce(spec)
        return made if isinstance(made, Reduced) else kept(ErrorPairs(str(spec["score"])), made)

    return Metric(
        name=name,
        title=title,
        definition=definition,
        reference=reference,
        direction=facts.pop("direction"),
        limits=facts.pop("limits", (0.0, 1.0)),
        needs=facts.pop("needs", frozenset({"labels"})),
        cost="sort",
        merge="rows",
        interval=facts.pop("interval", BOOTSTRAP),
        options=(score_option(default), *facts.pop("options", ())),
        refuses=lambda spec, predictions: lacks_score(str(spec["score"]), predictions),
        wanted=_wanted,
        accumulate=accumulate,
        **facts,
    )


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


def _area(state: KeptPairs, settings: Settings, column: int) -> Estimate:
    value = state.once("areas", lambda: selective_areas(*state.arrays()[:3]))[column]
    return _resampled(state, settings, value, "areas", selective_replicates, column)


# --------------------------------------------------------------------------- accuracy and certainty
def _at_threshold(state: KeptPairs, settings: Settings, column: int, given: float) -> Estimate:
    """AvU (0), p(accurate | certain) (1), p(uncertain | inaccurate) (2) at a threshold, or the area of AvU (3)."""
    u, e, w, _ = state.arrays()
    if column == 3:
        value, threshold = state.once("avu_auc", lambda: avu.avu_auc(u, e, w)), 0.0
    else:
        threshold = given if given > -math.inf else state.once("threshold", lambda: avu.default_threshold(u, e, w))
        cells = avu.cells_at(threshold, u, e, w)
        value = float((avu.avu, avu.p_accurate_certain, avu.p_uncertain_inaccurate)[column](cells))
    draw = partial(avu.avu_replicates, threshold=threshold)
    return _resampled(state, settings, value, ("avu", threshold), draw, column)


THRESHOLD = Option(
    "threshold",
    -math.inf,
    "certain up to this uncertainty; -inf: half-way between the means of right and of wrong rows",
)


def _of_threshold(column: int) -> Any:
    return lambda spec: partial(_at_threshold, column=column, given=float(spec.options.get("threshold", -math.inf)))


CHOSEN = " The threshold is chosen on the same rows unless it is given; the interval takes it as given."
AT_THRESHOLD: dict[str, Any] = {
    "comparable": False,
    "pitfall": "confidence-thresholds",
    "bias": "At one threshold models of different temperatures leave different shares of rows (Ashukha et al. 2020).",
}
METRICS = (
    _entry(
        "misclassification_auroc",
        "AUROC of misclassification",
        "Probability that a wrong prediction is more uncertain than a right one, ties counting half.",
        HENDRYCKS,
        lambda spec: ranking(ErrorPairs(str(spec["score"])), 0),
        direction="higher",
        needs=frozenset({"hard_labels"}),
        comparable=False,
        pitfall="misclassification-auc",
        bias="Each model has wrong rows of its own: a better model can have a lower value (Ashukha et al. 2020).",
        interval="DeLong on the logit scale; Poisson bootstrap with weights or units",
    ),
    _entry(
        "misclassification_aupr",
        "AUPR of misclassification",
        "Average precision of finding wrong predictions by their uncertainty.",
        HENDRYCKS,
        lambda spec: ranking(ErrorPairs(str(spec["score"])), 1),
        direction="higher",
        needs=frozenset({"hard_labels"}),
        comparable=False,
        pitfall="misclassification-auc",
        bias="Grows with the number of wrong rows: not comparable across models (Ashukha et al. 2020).",
    ),
    _entry(
        "aurc",
        "Area under the risk–coverage curve",
        "Mean over i of the error rate of the i most certain rows, ties averaged; with weights, over (Σw)²/Σw² rows.",
        GEIFMAN,
        lambda spec: partial(_area, column=0),
        direction="lower",
    ),
    _entry(
        "e_aurc",
        "Excess AURC",
        "AURC minus that of the best order, in which every wrong row is less certain than any right one.",
        GEIFMAN,
        lambda spec: partial(_area, column=1),
        direction="lower",
        comparable=False,
        pitfall="misclassification-auc",
        bias="The optimum depends on the accuracy: a model with more errors can have a smaller excess.",
    ),
    _entry(
        "aac",
        "Area above the accuracy–rejection curve",
        "Area between 1 and the accuracy of the rows that are left when a share of the most uncertain is rejected: "
        "AURC with rows split.",
        NADEEM,
        lambda spec: partial(_area, column=2),
        direction="lower",
    ),
    _entry(
        "avu",
        "Accuracy versus uncertainty",
        "Share of rows that are right and certain, or wrong and uncertain." + CHOSEN,
        KRISHNAN,
        _of_threshold(0),
        score="entropy",
        direction="higher",
        **AT_THRESHOLD,
        options=(THRESHOLD,),
    ),
    _entry(
        "avu_auc",
        "Area under the AvU curve",
        "AvU over 21 thresholds from the lowest to the highest uncertainty, by the trapezoidal rule.",
        KRISHNAN,
        _of_threshold(3),
        score="entropy",
        direction="higher",
        comparable=False,
        pitfall="confidence-thresholds",
        bias="Thresholds run over the model's own range of uncertainty, which single rows set.",
    ),
    _entry(
        "p_accurate_certain",
        "p(accurate | certain)",
        "Share of right rows among those that are certain." + CHOSEN,
        f"Mukhoti & Gal (2018), arXiv 1811.12709; {KRISHNAN}",
        _of_threshold(1),
        score="entropy",
        direction="higher",
        **AT_THRESHOLD,
        options=(THRESHOLD,),
    ),
    _entry(
        "p_uncertain_inaccurate",
        "p(uncertain | inaccurate)",
        "Share of uncertain rows among those that are wrong." + CHOSEN,
        f"Mukhoti & Gal (2018), arXiv 1811.12709; {KRISHNAN}",
        _of_threshold(2),
        score="entropy",
        direction="higher",
        **AT_THRESHOLD,
        options=(THRESHOLD,),
    ),
)
