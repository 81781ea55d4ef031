"""Rows in an order of their own, so that neither sums nor random words depend on the order that they came in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.philox import key_of


def order_of(key: np.ndarray, *others: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The order by rising key, then by the others in turn; and tied[i]: the row after the i-th has the same key.

    One plain sort, and one by all keys of those rows alone that share theirs: rows still level after it are equal.
    """
    order = np.argsort(key)
    ranked = key[order]
    tied = np.append(ranked[1:] == ranked[:-1], False) if len(key) else np.zeros(0, bool)
    shared = np.flatnonzero(tied | np.append(False, tied[:-1])) if tied.any() else np.empty(0, np.int64)
    if shared.size:
        run = np.cumsum(~tied)[shared] - ~tied[shared]
        rows = order[shared]
        rest = [other[rows] for other in reversed(others) if other is not None]
        order[shared] = rows[np.lexsort((*rest, run))]
    return order, tied


def relative(weights: np.ndarray | None, n: int) -> np.ndarray:
    """Weights as shares of the largest, so that their unit does not matter; ones where there are none."""
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

    A random word belongs to a row's place in that order, or to the number of its unit.
    """
    if len(weights) == 0:
        return np.full((replicates, width), np.nan)
    unit = np.arange(len(weights)) if units is None else units.astype(np.int64)
    out = np.empty((replicates, width))
    run = (*key_of(seed), np.uint32(purpose), weights, unit, int(unit.max()) + 1, *given, out)
    over_rows(lambda a, b: loop(*run, a, b), replicates, replicates * len(weights), threads)
    return out
