"""Draw, evaluate, and keep the numbers that the tables are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import calibrant as cal
from calibrant.intervals import NONE
from calibrant.registry.metrics import regression_calibration
from calibrant.registry.state import (
    binned_state as binned_error,
)
from calibrant.registry.state import (
    classwise_state as classwise,
)
from calibrant.registry.state import (
    sorted_state as runs_error,
)

FIELDS = ("value", "low", "high", "null_high", "p_value", "detectable")
Draw = Callable[[int, np.random.Generator], Any]
Numbers = dict[str, np.ndarray]


def simulate(
    draw: Draw, n: int, metrics: Sequence[str], simulations: int, *, seed: int = 0, resamples: int = 400
) -> dict[str, Numbers]:
    """Of each metric, each field of its estimates in every simulation."""
    rng = np.random.default_rng([seed, n])
    found = {metric: np.full((len(FIELDS), simulations), np.nan) for metric in metrics}
    for place in range(simulations):
        result = cal.evaluate(draw(n, rng), metrics, seed=place, resamples=resamples, curves=False)
        for metric in metrics:
            values = [getattr(result[metric], name) for name in FIELDS]
            found[metric][:, place] = [np.nan if value is None else value for value in values]
    return {metric: dict(zip(FIELDS, values, strict=True)) for metric, values in found.items()}


def covered(numbers: Numbers, truth: float) -> float:
    """Share of intervals that contain the truth."""
    return float(np.mean((numbers["low"] <= truth) & (truth <= numbers["high"])))


def width(numbers: Numbers) -> float:
    """Mean width of the intervals."""
    return float(np.mean(numbers["high"] - numbers["low"]))


def above(numbers: Numbers) -> float:
    """Share of values above the null band."""
    return float(np.mean(numbers["value"] > numbers["null_high"]))


def rejected(numbers: Numbers) -> float:
    """Share of p-values below 0.05."""
    return float(np.mean(numbers["p_value"] < 0.05))


def standard_error(share: float, simulations: int) -> float:
    """Standard error of a simulated share."""
    return float(np.sqrt(share * (1 - share) / simulations))


@contextmanager
def null_bands_only() -> Iterator[None]:
    """Intervals and detectable errors, which take most of the time, are left out; null bands are as they are."""
    unasked = [(binned_error, "inverted_interval", NONE), (binned_error, "detectable", np.nan)]
    unasked += [(classwise, "union_of_inversions", NONE), (runs_error, "_interval", NONE)]
    unasked += [(runs_error, "detectable", np.nan)]
    unasked += [(regression_calibration, "_interval", NONE), (regression_calibration, "detectable", np.nan)]
    with ExitStack() as stack:
        for module, name, answer in unasked:
            stack.enter_context(patch.object(module, name, lambda *_, answer=answer, **__: answer))
        yield
