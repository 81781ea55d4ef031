"""Outcomes that the model could have seen, drawn by the rule that every engine of regression follows.

Of Gaussians: y = μ_m + σ_m·z, z = Φ⁻¹((word + ½)/2³²). Read as Bayesian, one member m drew all rows of a replicate;
read as independent, every row has a member of its own. Of samples: read as Bayesian, a replicate is one of the draws,
in all rows; read as independent, every row takes a draw of its own. What is drawn belongs to (seed, reading, replicate,
row), and not to blocks or threads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.checks.plan import INDEPENDENT, Plan
from calibrant.errors import NotApplicable
from calibrant.kernels.philox import words
from calibrant.kernels.regression_replicates import choice_words, normal_quantiles
from calibrant.kernels.resampling import CHECK_MEMBERS
from calibrant.predictions import Regression

WHICH = 1
"""Number of the words that choose among draws, beside those that choose members."""


def replicates_of(example: Regression, plan: Plan) -> int:
    """How many replicates there are: of samples that are read as Bayesian no more than there are draws."""
    if example.samples is None or plan.reading == INDEPENDENT:
        return plan.draws
    return min(plan.draws, len(example.samples))


def chosen_samples(count: int, plan: Plan) -> np.ndarray:
    """The draw (R,) that each replicate is: all of them, or as many as are wanted, none twice."""
    if plan.draws >= count:
        return np.arange(count)
    by_chance = np.argsort(words(plan.seed, CHECK_MEMBERS, WHICH, count), kind="stable")
    return np.sort(by_chance[: plan.draws])


def places(word: np.ndarray, choices: int) -> np.ndarray:
    """Which of so many members, or draws, each word chooses."""
    return (word.astype(np.uint64) * np.uint64(choices) >> np.uint64(32)).astype(np.int64)


def draw_outcomes(block: Regression, rows: Any, plan: Plan, numbers: np.ndarray, first: int) -> np.ndarray:
    """Outcomes (len(numbers), n) of the replicates of these numbers, for a block whose first row has number `first`."""
    del rows
    refuse_quantiles(block)
    draw = _of_samples if block.samples is not None else _of_members
    return np.array([draw(block, plan, int(number), first) for number in numbers]).reshape(len(numbers), block.n)


def refuse_quantiles(example: Regression) -> None:
    """Quantiles at some levels say nothing of what lies between them."""
    if example.kind == "quantiles":
        raise NotApplicable(
            "posterior predictive checks",
            expected="predictions that outcomes can be drawn from",
            came="quantiles are known at some levels only",
            do="give means and standard deviations, or samples",
        )


def judges_of(block: Regression, plan: Plan, number: int, first: int) -> Regression:
    """The samples that a replicate is judged by: its draws have changed places with the outcomes, which are left out.

    A draw that is judged by samples which hold it looks better than it is; see `SampleReplicates`.
    """
    samples: np.ndarray = block.samples  # type: ignore[assignment]
    others = samples.astype(np.result_type(samples, block.y), copy=True)
    others[_taken(block, plan, number, first), np.arange(block.n)] = block.y
    return replace(block, samples=others, y=None)


def _taken(block: Regression, plan: Plan, number: int, first: int) -> np.ndarray:
    """Which draw (n,) a replicate takes in each row."""
    count = len(block.samples)  # type: ignore[arg-type]
    if plan.reading == INDEPENDENT:
        return places(words(plan.seed, plan.purpose, number, block.n, first), count)
    return np.full(block.n, chosen_samples(count, plan)[number])


def _of_samples(block: Regression, plan: Plan, number: int, first: int) -> np.ndarray:
    samples: np.ndarray = block.samples  # type: ignore[assignment]
    return samples[_taken(block, plan, number, first), np.arange(block.n)].astype(np.float64)


def _of_members(block: Regression, plan: Plan, number: int, first: int) -> np.ndarray:
    mean: np.ndarray = block.mean  # type: ignore[assignment]
    std: np.ndarray = block.std  # type: ignore[assignment]
    z = normal_quantiles(words(plan.seed, plan.purpose, number, block.n, first))
    if plan.reading == INDEPENDENT and len(mean) > 1:
        member = places(choice_words(plan.seed, plan.purpose, number, block.n, first), len(mean))
        every = np.arange(block.n)
        return mean[member, every].astype(np.float64) + std[member, every].astype(np.float64) * z
    member = plan.source[number]
    return mean[member].astype(np.float64) + std[member].astype(np.float64) * z
