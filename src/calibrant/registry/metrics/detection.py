"""Entries of the registry: how well a score tells rows from outside from rows from inside."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from calibrant import intervals
from calibrant.detection.ranking import Scores, detection_replicates, detection_scores
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.pairs import (
    AUC_INTERVAL,
    INFINITE,
    PRECISION_INTERVAL,
    KeptPairs,
    ScorePairs,
    effective_count,
    kept,
    ranking_interval,
    replicates_of_rows,
    too_few,
)

HENDRYCKS = "Hendrycks & Gimpel (2017), ICLR 5"
LIANG = "Liang, Li & Srikant (2018), ICLR 6"
KRISHNAN = "Krishnan & Tickoo (2020), NeurIPS 33: 18237-18248"
PLACE = {name: place for place, name in enumerate(Scores._fields)}


RANKINGS = {"auroc": ("auc", False), "aupr_out": ("precision", False), "aupr_in": ("precision", True)}
FEW = 100
"""Rows of either side, effective with weights or units, below which a resampled FPR may have too short an interval."""


def _reduce(state: KeptPairs, settings: Settings, name: str, level: float, top: float) -> Estimate:
    score, y, w, units = state.arrays()
    outside = y == 1
    value = state.once(("scores", level), lambda: detection_scores(score, outside, w, level=level))[PLACE[name]]
    if not settings.intervals or not math.isfinite(value) or too_few(outside, units):
        return Estimate.of(value, state.n)
    if name in RANKINGS:
        interval = ranking_interval(state, settings, value, *RANKINGS[name])
        return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))
    if name == "fpr95" and w is None and units is None:
        sides = np.sort(score[~outside]), np.sort(score[outside])
        interval = intervals.rate_at_quantile(*sides, level, value, settings.level)
        return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))
    replicates = replicates_of_rows(len(score), settings.resamples)
    drawn = state.once(
        ("drawn", level, settings),
        lambda: detection_replicates(
            score, outside, w, units, replicates=replicates, seed=settings.seed, threads=settings.threads, level=level
        ),
    )
    interval = intervals.percentile(drawn[:, PLACE[name]], settings.level)
    if name == "fpr95" and min(effective_count(w, units, side) for side in (outside, ~outside)) < FEW:
        interval = intervals.approximate(interval)
    if name in ("detection_accuracy", "wasserstein"):
        turned = intervals.reflected(value, interval)
        interval = turned if name == "detection_accuracy" else intervals.wider(interval, turned)
    bottom = 0.5 if name == "detection_accuracy" else 0.0
    return Estimate.of(value, state.n, interval, settings, (bottom, top))


def _detection(name: str, **facts: Any) -> Metric:
    limits = facts.setdefault("limits", (0.0, 1.0))

    def accumulate(spec: Spec, predictions: object) -> Reduced:
        level = float(spec.options.get("level", 0.95))
        return kept(ScorePairs(), partial(_reduce, name=name, level=level, top=limits[1]))

    defaults = {"direction": "higher", "interval": "Poisson bootstrap"}
    return Metric(
        name=name, family="OOD detection", axis="OOD detection", tasks=frozenset({"detection"}), cost="sort",
        merge="rows", accumulate=accumulate, **defaults | facts,
    )  # fmt: skip


METRICS = (
    _detection(
        name="auroc",
        title="AUROC",
        definition="Probability that an OOD row scores above an in-distribution row; ties count half.",
        reference=HENDRYCKS,
        interval=AUC_INTERVAL,
        roles={"default": 18, "main": 16, "group": 17, "sample_size": 1},
    ),
    _detection(
        name="aupr_in",
        title="AUPR, in-distribution",
        definition="Average precision with in-distribution rows as positives, score negated.",
        reference=HENDRYCKS,
        interval=PRECISION_INTERVAL,
        roles={"default": 19, "main": 17, "group": 18, "sample_size": 2},
    ),
    _detection(
        name="aupr_out",
        title="AUPR, OOD",
        definition="Average precision with OOD rows as positives.",
        reference=HENDRYCKS,
        interval=PRECISION_INTERVAL,
        roles={"default": 20, "main": 18, "group": 19, "sample_size": 3},
    ),
    _detection(
        name="detection_accuracy",
        roles={"default": 21},
        title="Detection accuracy",
        definition="Largest ½(TPR + TNR) over all thresholds: both sides have equal weight, whatever their sizes.",
        reference=LIANG,
        bias="Biased upwards: the best of many thresholds, chosen on the same rows.",
        interval="Poisson bootstrap, reflected; covers 92% to 94%, and less near ½ (86% at 0.56)",
    ),
    _detection(
        name="fpr95",
        aliases=("fpr",),
        title="FPR at 95% TPR",
        definition="Share of in-distribution rows at or above the highest threshold that detects 95% of the OOD rows.",
        reference=LIANG,
        direction="lower",
        interval="order statistics of the threshold and Wilson's interval of the rate; Poisson bootstrap with weights "
        f"or units, marked approximate with fewer than {FEW} effective rows of a side",
        options=(Option("level", 0.95, "share of OOD rows to detect (TPR)", at_least=0.01, at_most=1.0),),
        roles={"default": 22, "main": 19, "group": 20, "sample_size": 4},
    ),
    _detection(
        name="wasserstein",
        roles={"default": 23},
        title="Wasserstein distance",
        definition="∫|F_in − F_out| between the scores of both sides, in the unit of the score.",
        reference=KRISHNAN,
        limits=(0.0, INFINITE),
        comparable=False,
        bias="Biased upwards for similar samples: it is never negative.",
        interval="Poisson bootstrap, the wider of the percentile interval and its reflection",
    ),
)
