"""Statistics over levels of replicated outcomes: the formulas of the registry, for many replicates at a time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from calibrant.calibration.regression import even_levels, mean_absolute, root_mean_square
from calibrant.checks.statistics import Statistic
from calibrant.registry.level_shares import CENTRAL
from calibrant.scores.regression import interval_ends

ERRORS = ("calibration_error", "mace", "rmsce")
LEVEL_STATISTICS = (*ERRORS, "picp")
Edge = tuple[float, bool]
"""A level, and whether an outcome at its quantile counts as below."""


def error_over_levels(statistic: Statistic, shares: np.ndarray) -> np.ndarray:
    """The error (…) of shares p̂ (…, B) under the levels j/B."""
    gaps = shares - even_levels(shares.shape[-1])
    if statistic.name == "mace":
        return mean_absolute(gaps)
    root = root_mean_square(gaps)
    return root if statistic.name == "rmsce" else shares.shape[-1] * root * root


def levels_of(statistic: Statistic) -> np.ndarray:
    """p_j = j/B of a statistic over levels."""
    return even_levels(int(statistic.options["levels"]))


def is_central(statistic: Statistic) -> bool:
    """Whether it looks at central intervals."""
    return statistic.options["coverage"] == CENTRAL


# ------------------------------------------------------------------------- of continuous distributions
def _intervals(statistic: Statistic) -> list[tuple[Edge | None, Edge | None]]:
    """The lower and the upper edge of each set of outcomes whose share is wanted; None where there is no limit."""
    if statistic.name == "picp":
        low, high = interval_ends(float(statistic.options["level"]))
        return [((low, False), (high, True))]
    levels = levels_of(statistic).tolist()
    if not is_central(statistic):
        return [(None, (level, False)) for level in levels]
    ends = [interval_ends(level) for level in levels]
    return [((low, False), (high, True)) if high < 1.0 else (None, None) for low, high in ends]


def edges_of(statistics: Iterable[Statistic]) -> list[Edge]:
    """All edges that the statistics over levels need, rising."""
    over_levels = [statistic for statistic in statistics if statistic.name in LEVEL_STATISTICS]
    pairs = [pair for statistic in over_levels for pair in _intervals(statistic)]
    return sorted({edge for pair in pairs for edge in pair if edge is not None})


def values_of_counts(statistic: Statistic, edges: list[Edge], counts: np.ndarray) -> np.ndarray:
    """The statistic (R,) of counts (R, E + 1) between the edges, in whole units that weigh the rows."""
    place = {edge: k for k, edge in enumerate(edges)}
    below = np.cumsum(counts, axis=1)
    total = below[:, -1:]
    nothing = np.zeros_like(total)
    pairs = _intervals(statistic)
    low = [nothing if edge is None else below[:, [place[edge]]] for edge, _ in pairs]
    high = [total if edge is None else below[:, [place[edge]]] for _, edge in pairs]
    with np.errstate(invalid="ignore"):
        shares = (np.concatenate(high, axis=1) - np.concatenate(low, axis=1)) / total
    return shares[:, 0] if statistic.name == "picp" else error_over_levels(statistic, shares)
