"""Entries of the registry: how well a score tells rows from outside from rows from inside."""

from __future__ import annotations

import math
from functools import partial

from calibrant import intervals
from calibrant.detection.ranking import Scores, detection_replicates, detection_scores
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.kept import KeptPairs, kept, replicates_of_rows, too_few
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import INFINITE, ScorePairs
from calibrant.registry.sharing import Reduced

HENDRYCKS = "Hendrycks & Gimpel (2017), ICLR 5"
LIANG = "Liang, Li & Srikant (2018), ICLR 6"
KRISHNAN = "Krishnan & Tickoo (2020), NeurIPS 33: 18237-18248"
INTERVALS = {
    "auroc": "DeLong on the logit scale; Poisson bootstrap with weights or units",
    "detection_accuracy": "Poisson bootstrap, reflected; covers 92 to 94 %, and less near ½ (86 % at 0.56)",
    "wasserstein": "Poisson bootstrap, the wider of the percentile interval and its reflection",
}
BIASES = {
    "detection_accuracy": "Biased upwards: the best of many thresholds, chosen on the same rows.",
    "wasserstein": "Biased upwards where both samples are alike: it is never negative.",
}
PLACE = {name: place for place, name in enumerate(Scores._fields)}


def _reduce(state: KeptPairs, settings: Settings, name: str, level: float, top: float) -> Estimate:
    score, y, w, units = state.arrays()
    outside = y == 1
    value = state.once(("scores", level), lambda: detection_scores(score, outside, w, level=level))[PLACE[name]]
    if not settings.intervals or not math.isfinite(value) or too_few(outside, units):
        return Estimate.of(value, state.n)
    if name == "auroc" and w is None and units is None:
        interval = intervals.delong(score, outside, value, settings.level)
        return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))
    replicates = replicates_of_rows(len(score), settings.resamples)
    drawn = state.once(
        ("drawn", level, settings),
        lambda: detection_replicates(
            score, outside, w, units, replicates=replicates, seed=settings.seed, threads=settings.threads, level=level
        ),
    )
    interval = intervals.percentile(drawn[:, PLACE[name]], settings.level)
    if name in ("detection_accuracy", "wasserstein"):
        turned = intervals.reflected(value, interval)
        interval = turned if name == "detection_accuracy" else intervals.wider(interval, turned)
    bottom = 0.5 if name == "detection_accuracy" else 0.0
    return Estimate.of(value, state.n, interval, settings, (bottom, top))


def _entry(name: str, title: str, definition: str, reference: str, direction: str = "higher") -> Metric:
    limits = (0.0, INFINITE if name == "wasserstein" else 1.0)
    level = Option("level", 0.95, "share of outside rows that must be found", at_least=0.01, at_most=1.0)

    def accumulate(spec: Spec, predictions: object) -> Reduced:
        del predictions
        share = float(spec.options.get("level", 0.95))
        return kept(ScorePairs(), partial(_reduce, name=name, level=share, top=limits[1]))

    return Metric(
        name=name,
        title=title,
        definition=definition,
        reference=reference,
        direction=direction,
        limits=limits,
        tasks=frozenset({"detection"}),
        cost="sort",
        merge="rows",
        interval=INTERVALS.get(name, "Poisson bootstrap"),
        options=(level,) if name == "fpr95" else (),
        bias=BIASES.get(name, ""),
        comparable=name != "wasserstein",
        accumulate=accumulate,
    )


METRICS = (
    _entry(
        "auroc", "AUROC", "Probability that an outside row scores above an inside row, ties counting half.", HENDRYCKS
    ),
    _entry(
        "aupr_in", "AUPR of the inside", "Average precision with inside rows as positives, score negated.", HENDRYCKS
    ),
    _entry("aupr_out", "AUPR of the outside", "Average precision with outside rows as positives.", HENDRYCKS),
    _entry(
        "detection_accuracy",
        "Detection accuracy",
        "Largest ½(TPR + TNR) over all thresholds: both sides count alike, whatever their numbers.",
        LIANG,
    ),
    _entry(
        "fpr95",
        "FPR at 95 % TPR",
        "Share of inside rows at or above the highest threshold that finds 95 % of the outside rows.",
        LIANG,
        "lower",
    ),
    _entry(
        "wasserstein",
        "Wasserstein distance",
        "∫|F_in − F_out| between the scores of both sides, in the unit of the score.",
        KRISHNAN,
    ),
)
