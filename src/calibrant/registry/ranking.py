"""Entries of the registry: how well a binary score ranks."""

from __future__ import annotations

from calibrant.registry.kept import ranking
from calibrant.registry.metric import Metric
from calibrant.registry.pairs import CLASSES, ClassPairs


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
        accumulate=lambda spec, predictions: ranking(ClassPairs(1), which),
    )


METRICS = (
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
