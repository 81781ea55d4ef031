"""Replicated labels and outcomes, drawn by the rules that all engines follow.

The label of a row in a replicate is a function of 31 random bits w of (seed, reading, replicate, row) and of the
prediction that draws it: the predicted class k if w < T = ⌊p(k)·2³¹⌋, else the first other class c, in index order,
with w < T + Σ ⌊p(j)·2³¹⌋ over j ≤ c, j ≠ k. The last class with a positive share takes the rounding remainder.

Gaussian predictions: y = μ_m + σ_m·z, z = Φ⁻¹((word + ½)/2³²). In the Bayesian reading one member m draws all rows of a
replicate; in the independent reading every row has its own member. Samples: in the Bayesian reading a replicate is one
of the draws, in all rows; in the independent reading every row takes its own draw. A draw depends on (seed, reading,
replicate, row), not on blocks or threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.checks.plan import Plan
from calibrant.errors import NotApplicable
from calibrant.kernels.philox import words
from calibrant.kernels.replicates.labels import Drawn, Lanes, draw, thresholds
from calibrant.kernels.replicates.regression import choice_words, normal_quantiles
from calibrant.kernels.resampling import CHECK_MEMBERS
from calibrant.predictions import Classification, Judged, Regression
from calibrant.predictions.classification import two_class_scores
from calibrant.results.check import INDEPENDENT

JUDGED_ROWS = 1 << 16
"""Judged answers that are expanded to two classes at a time."""
WHICH = 1
"""Stream of the random words that choose among draws, distinct from that of members."""


def replicates_of(example: Regression, plan: Plan) -> int:
    """The number of replicates: in the Bayesian reading of samples, at most the number of draws."""
    if example.samples is None or plan.reading == INDEPENDENT:
        return plan.draws
    return min(plan.draws, len(example.samples))


def chosen_samples(count: int, plan: Plan) -> np.ndarray:
    """The draw (R,) that each replicate takes: all of them, or a random subset without repetition."""
    if plan.draws >= count:
        return np.arange(count)
    by_chance = np.argsort(words(plan.seed, CHECK_MEMBERS, WHICH, count), kind="stable")
    return np.sort(by_chance[: plan.draws])


def choices_of(word: np.ndarray, choices: int) -> np.ndarray:
    """The index below `choices`, of a member or a draw, that each random word selects."""
    return (word.astype(np.uint64) * np.uint64(choices) >> np.uint64(32)).astype(np.int64)


def draw_outcomes(block: Regression, rows: Any, plan: Plan, numbers: np.ndarray, first: int) -> np.ndarray:
    """Outcomes (len(numbers), n) of these replicates, for a block whose first row has number `first`."""
    if block.kind == "quantiles":
        raise NotApplicable(
            "posterior predictive checks",
            expected="predictions that outcomes can be drawn from",
            got="quantiles at some levels only",
            hint="give means and standard deviations, or samples",
        )
    every, out = np.arange(block.n), []
    for number in map(int, numbers):
        if block.samples is not None:
            out.append(block.samples[_draws_of(block, plan, number, first), every].astype(np.float64))
            continue
        mean: np.ndarray = block.mean  # type: ignore[assignment]
        std: np.ndarray = block.std  # type: ignore[assignment]
        z = normal_quantiles(words(plan.seed, plan.purpose, number, block.n, first))
        member: Any = plan.source[number], slice(None)
        if plan.reading == INDEPENDENT and len(mean) > 1:
            member = choices_of(choice_words(plan.seed, plan.purpose, number, block.n, first), len(mean)), every
        out.append(mean[member].astype(np.float64) + std[member].astype(np.float64) * z)
    return np.array(out).reshape(len(numbers), block.n)


def reference_samples(block: Regression, plan: Plan, number: int, first: int) -> Regression:
    """The samples that a replicate is scored by: the observed outcomes replace the draws that the replicate took.

    A draw scored by samples that contain it would look better than it is; see `SampleReplicates`.
    """
    samples: np.ndarray = block.samples  # type: ignore[assignment]
    others = samples.astype(np.result_type(samples, block.y), copy=True)
    others[_draws_of(block, plan, number, first), np.arange(block.n)] = block.y
    return replace(block, samples=others, y=None)


def _draws_of(block: Regression, plan: Plan, number: int, first: int) -> np.ndarray:
    """The draw (n,) that a replicate takes in each row."""
    count = len(block.samples)  # type: ignore[arg-type]
    if plan.reading == INDEPENDENT:
        return choices_of(words(plan.seed, plan.purpose, number, block.n, first), count)
    return np.full(block.n, chosen_samples(count, plan)[number])


# -------------------------------------------------------------------------------- labels
def draw_labels(block: Classification | Judged, rows: Any, plan: Plan, numbers: np.ndarray, first: int) -> np.ndarray:
    """The labels (len(numbers), n) of a block in these replicates; for judged answers, whether they are correct.

    rows: the row record of the block; first: the number of its first row among all.
    """
    numbers = np.asarray(numbers)
    lanes = lanes_of(plan, numbers)
    out = np.empty((len(numbers), rows.n), np.int32)
    for drawn in parts(block, rows, plan, first):
        start = drawn.first - first
        out[:, start : start + len(drawn.limits)] = draw(drawn, lanes, plan.threads)
    return out == 1 if isinstance(block, Judged) else out


def lanes_of(plan: Plan, numbers: np.ndarray) -> Lanes:
    """These replicates in the form that kernels use."""
    members = 1 if plan.reading == INDEPENDENT else plan.members
    return Lanes.of(plan.source[numbers], numbers, members, plan.seed, plan.purpose)


def limits_of(rows: Any, plan: Plan) -> np.ndarray:
    """The thresholds (n, M) of the predicted class of each row, for each member that draws."""
    averaged = plan.reading == INDEPENDENT or rows.member_p is None
    return thresholds(rows.confidence[None] if averaged else rows.member_p, plan.threads)


def parts(
    block: Classification | Judged, rows: Any, plan: Plan, first: int, limits: np.ndarray | None = None
) -> Iterator[Drawn]:
    """The block in contiguous parts of scores; judged answers become two classes, the second one "correct"."""
    limits = limits_of(rows, plan) if limits is None else limits
    if isinstance(block, Judged):
        starts = range(0, block.n, JUDGED_ROWS)
        scored: Iterable[tuple[int, np.ndarray]] = (
            (start, two_class_scores(block.confidence[:, start : start + JUDGED_ROWS].astype(np.float64), "probs"))
            for start in starts
        )
    else:
        scored = block.score_blocks()
    is_probs = isinstance(block, Judged) or block.kind == "probs"
    for start, scores in scored:
        these = slice(start, start + scores.shape[1])
        yield Drawn(scores, is_probs, limits[these], rows.predicted[these], first + start)
