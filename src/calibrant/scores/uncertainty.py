"""Uncertainty per row (N,), with natural logarithms.

References: Depeweg et al. (2018) for the split of entropy; Gal (2016) for the variation ratio; Liu et al. (2020) for
the energy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.kernels.rows import MARGIN, Rows
from calibrant.scores import regression


def entropy(rows: Rows) -> np.ndarray:
    """H[p] of the averaged prediction."""
    return rows.entropy


def expected_entropy(rows: Rows) -> np.ndarray:
    """mean_m H[p_m]: the aleatoric part."""
    if rows.expected_entropy is None:
        raise AttributeError("these rows have one member")
    return rows.expected_entropy


def mutual_information(rows: Rows) -> np.ndarray:
    """H[p] − mean_m H[p_m], the disagreement of the members; at least 0."""
    return np.maximum(rows.entropy - expected_entropy(rows), 0.0)


def variation_ratio(rows: Rows) -> np.ndarray:
    """Share of members that do not vote for the modal class."""
    if rows.variation_ratio is None:
        raise AttributeError("these rows have one member")
    return rows.variation_ratio


def max_probability(rows: Rows) -> np.ndarray:
    """1 − max_c p_c: the predicted probability of an error."""
    return 1.0 - rows.confidence


def small_margin(rows: Rows) -> np.ndarray:
    """1 − margin, so that high is uncertain."""
    return 1.0 - margin(rows)


def margin(rows: Rows) -> np.ndarray:
    """Probability of the first class minus that of the second."""
    return rows.extras[MARGIN]


def energy(rows: Rows) -> np.ndarray:
    """−log Σ exp(logits), averaged over members; higher is more uncertain."""
    if rows.lse is None:
        raise AttributeError("these rows have no logits")
    return -rows.lse


@dataclass(frozen=True)
class RowScore:
    """A score of rows that is high where the model is uncertain."""

    of: Callable[[Any], np.ndarray]
    needs: frozenset[str] = frozenset()
    """What the predictions must have: keys of `registry.metric.NEEDS`."""
    tasks: frozenset[str] = frozenset({"classification"})
    required_columns: frozenset[Hashable] = frozenset()
    limit: Callable[[int | None], float] | None = None
    """The largest possible score with C classes (None where they are not known), if the least is 0."""


def _log(classes: int | None) -> float:
    return math.log(classes) if classes else math.log(2.0)


def _share_of_others(classes: int | None) -> float:
    return 1.0 - 1.0 / classes if classes else 1.0


BOTH = frozenset({"classification", "judged"})
NUMBERS = frozenset({"regression"})
MEMBERS = frozenset({"members"})
ROW_SCORES = {
    "max_probability": RowScore(max_probability, tasks=BOTH, limit=_share_of_others),
    "entropy": RowScore(entropy, tasks=BOTH, limit=_log),
    "expected_entropy": RowScore(expected_entropy, MEMBERS, BOTH, limit=_log),
    "mutual_information": RowScore(mutual_information, MEMBERS, BOTH, limit=_log),
    "variation_ratio": RowScore(variation_ratio, MEMBERS, limit=lambda classes: 1.0),
    "margin": RowScore(small_margin, required_columns=frozenset({MARGIN}), limit=lambda classes: 1.0),
    "energy": RowScore(energy, frozenset({"logits"})),
    "variance": RowScore(lambda rows: rows.variance, frozenset({"mean"}), NUMBERS),
    "aleatoric_variance": RowScore(regression.aleatoric_variance, frozenset({"density"}), NUMBERS),
    "epistemic_variance": RowScore(regression.epistemic_variance, frozenset({"density", "members"}), NUMBERS),
}
"""By name, for detection and selective prediction."""
