"""Sort rows by content, so that neither sums nor random words depend on the order of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.philox import key_of


def relative(weights: np.ndarray | None, n: int) -> np.ndarray:
    """Weights divided by the largest, so that their unit does not matter; ones without weights."""
    if weights is None:
        return np.ones(n)
    largest = weights.max(initial=0.0)
    return weights / largest if largest > 0.0 else np.zeros(n)


def replicates_of(
    loop: Callable[..., None],
    purpose: int,
    weights: np.ndarray,
    units: np.ndarray | None,
    given: tuple[Any, ...],
    width: int,
    *,
    replicates: int,
    seed: int,
    threads: int | None,
) -> np.ndarray:
    """(replicates, width) from a loop over replicates; weights and units are in sorted order.

    Random words are indexed by the position of a row in that order, or by the number of its unit.
    """
    if len(weights) == 0:
        return np.full((replicates, width), np.nan)
    unit = np.arange(len(weights)) if units is None else units.astype(np.int64)
    out = np.empty((replicates, width))
    run = (*key_of(seed), np.uint32(purpose), weights, unit, int(unit.max()) + 1, *given, out)
    over_rows(lambda a, b: loop(*run, a, b), replicates, replicates * len(weights), threads)
    return out
