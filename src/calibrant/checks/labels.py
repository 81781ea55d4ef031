"""Replicated labels of classifications and judged answers.

The label of a row in a replicate is a function of 31 random bits w of (seed, reading, replicate, row) and of the
prediction that draws it: the predicted class k where w < T = ⌊p(k)·2³¹⌋, and else the first other class c, in their
order, for which w < T + Σ ⌊p(j)·2³¹⌋ over j ≤ c, j ≠ k. The last class that has a share takes what rounding leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from calibrant.checks.plan import INDEPENDENT, Plan
from calibrant.kernels.replicates import Drawn, Lanes, draw, thresholds
from calibrant.predictions import Classification, Judged
from calibrant.predictions.classification import two_classes

JUDGED_ROWS = 1 << 16
"""Judged answers that are written out as two classes at a time."""


def draw_labels(block: Classification | Judged, rows: Any, plan: Plan, numbers: np.ndarray, first: int) -> np.ndarray:
    """The labels (len(numbers), n) of a block in the replicates of these numbers; of judged answers, whether right.

    rows: the record of the block; first: the number of its first row among all.
    """
    numbers = np.asarray(numbers)
    lanes = lanes_of(plan, numbers)
    out = np.empty((len(numbers), rows.n), np.int32)
    for drawn in parts(block, rows, plan, first):
        start = drawn.first - first
        out[:, start : start + len(drawn.limits)] = draw(drawn, lanes, plan.threads)
    return out == 1 if isinstance(block, Judged) else out


def lanes_of(plan: Plan, numbers: np.ndarray) -> Lanes:
    """The replicates of these numbers as kernels take them."""
    members = 1 if plan.reading == INDEPENDENT else plan.members
    return Lanes.of(plan.source[numbers], numbers, members, plan.seed, plan.purpose)


def limits_of(rows: Any, plan: Plan) -> np.ndarray:
    """The thresholds (n, M) of the predicted class of each row, of those that draw."""
    averaged = plan.reading == INDEPENDENT or rows.member_p is None
    return thresholds(rows.confidence[None] if averaged else rows.member_p, plan.threads)


def parts(
    block: Classification | Judged, rows: Any, plan: Plan, first: int, limits: np.ndarray | None = None
) -> Iterator[Drawn]:
    """The block in parts whose scores lie ready; judged answers are two classes, the second of them "right"."""
    limits = limits_of(rows, plan) if limits is None else limits
    for start, scores, is_probs in _scores(block):
        these = slice(start, start + scores.shape[1])
        yield Drawn(scores, is_probs, limits[these], rows.predicted[these], first + start)


def _scores(block: Classification | Judged) -> Iterator[tuple[int, np.ndarray, bool]]:
    if isinstance(block, Judged):
        for start in range(0, block.n, JUDGED_ROWS):
            given = block.confidence[:, start : start + JUDGED_ROWS].astype(np.float64)
            yield start, two_classes(given, "probs"), True
        return
    for start, scores in block.score_blocks():
        yield start, scores, block.kind == "probs"
