"""Entries of the registry: means that are zero if a model is calibrated, and whose sign says in which direction not."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from calibrant.kernels.rows import LOG_MOMENTS, Rows
from calibrant.predictions import Classification, Judged
from calibrant.registry.metric import Metric, Spec
from calibrant.registry.metrics.calibration import LABELS
from calibrant.registry.state.null_mean import NullMean
from calibrant.registry.state.pairs import CLASSES, INFINITE, OF, class_columns, pairs_of
from calibrant.scores import proper


def _mean_gap(spec: Spec, predictions: Classification | Judged) -> NullMean:
    pairs = pairs_of(spec, predictions)

    def gap(rows: Rows) -> np.ndarray:
        p, y = pairs(rows)
        return p - y

    def moments(rows: Rows) -> tuple[np.ndarray, np.ndarray] | None:
        p, y = pairs(rows)
        variance = p * (1.0 - p)
        return (variance, variance * (2.0 * p - 1.0)) if ((y == 0) | (y == 1)).all() else None

    return NullMean(gap, (-1.0, 1.0), moments_if_right=moments, step=1.0)


def _log_moments(spec: Spec, predictions: Classification) -> frozenset[Hashable]:
    del spec, predictions
    return frozenset({(LOG_MOMENTS, 2), (LOG_MOMENTS, 3)})


def _entropy_gap(spec: Spec, predictions: Classification) -> NullMean:
    del spec, predictions

    def gap(rows: Rows) -> np.ndarray:
        return proper.nll(rows) - rows.entropy

    def moments(rows: Rows) -> tuple[np.ndarray, np.ndarray] | None:
        """Central moments of −log p(label) with label ~ p, from Σ p·(log p)², Σ p·(log p)³ and the entropy."""
        if rows.soft:
            return None
        h, second, third = rows.entropy, rows.extras[LOG_MOMENTS, 2], rows.extras[LOG_MOMENTS, 3]
        variance = np.maximum(second - h * h, 0.0)
        return variance, -third - 3.0 * h * second + 2.0 * h**3

    return NullMean(gap, moments_if_right=moments)


MEAN_GAP = Metric(
    name="mean_gap",
    aliases=("bias", "calibration_in_the_large"),
    label="mean p − rate",
    title="Mean prediction minus observed rate",
    definition="mean p − mean y: of the top label, mean confidence − accuracy; with of=, the mean probability of a "
    "class minus its share. 0 if calibrated on average, above 0 if predictions are too high (overconfident).",
    reference="Van Calster et al. (2019), BMC Medicine 17: 230; Dawid (1982), JASA 77: 605-610",
    family="calibration tests",
    axis="",
    direction="none",
    limits=(-1.0, 1.0),
    expected=0.0,
    relevant_error=0.02,
    roles={"test_binary": 1, "test_judged": 1, "test_direction": 1},
    needs=LABELS,
    cost="linear",
    merge="exact",
    bias="Unbiased. 0 does not mean that a model is calibrated: gaps of opposite sign cancel. The p-value is of the "
    "sum of independent outcomes, with its skewness; of Student's t with units and soft labels.",
    interval="studentised",
    options=(OF,),
    required_columns=class_columns,
    short_pass=True,
    accumulate=_mean_gap,
)
ENTROPY_GAP = Metric(
    name="entropy_gap",
    label="NLL − entropy",
    title="NLL minus entropy",
    definition="mean (−log p(label) − H[p]): the NLL minus the NLL that the model expects. 0 if calibrated, above 0 if "
    "overconfident. It is the derivative of the log-likelihood by 1/T at T = 1, and its p-value the score test of "
    "T = 1.",
    reference="Cox & Hinkley (1974), Theoretical Statistics, section 9.3; Guo et al. (2017), ICML 34: 1321-1330",
    family="calibration tests",
    axis="",
    direction="none",
    limits=(-INFINITE, INFINITE),
    expected=0.0,
    roles={"test_classes": 3},
    needs=LABELS,
    tasks=CLASSES,
    cost="linear",
    merge="exact",
    comparable=False,
    bias="Unbiased. 0 does not mean that a model is calibrated. Infinite where a label has probability 0. The p-value "
    "is of independent labels drawn from the predictions, with their skewness; of Student's t with units and soft "
    "labels.",
    interval="studentised",
    required_columns=_log_moments,
    accumulate=_entropy_gap,
)
METRICS = (MEAN_GAP, ENTROPY_GAP)
