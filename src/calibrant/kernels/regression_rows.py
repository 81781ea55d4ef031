"""The record of the rows of a regression: what scores are computed from, and only what was asked for.

The predictive distribution of a row is N(mean, std²), the equally weighted mixture of its members' Gaussians, the
empirical distribution of its samples, or is known at some quantiles only.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from calibrant.kernels.held import PREDICTIONS, Held
from calibrant.kernels.regression import gaussian_scores, mixture_quantiles, sample_scores
from calibrant.predictions import Regression
from calibrant.predictions.arrays import mean_over_members
from calibrant.predictions.regression import level_index, mean_and_variance

NLL = "nll"
CRPS = "crps"
PIT = "pit"
BLOCK_ELEMENTS = 1 << 21
"""Numbers of members that are widened and worked on at a time."""


@dataclass
class RegressionRows:
    """The record of n rows; what was not asked for, or cannot be had, is None. `extras` holds quantiles by level."""

    n: int
    y: np.ndarray | None = None
    mean: np.ndarray | None = None
    variance: np.ndarray | None = None
    aleatoric: np.ndarray | None = None
    epistemic: np.ndarray | None = None
    nll: np.ndarray | None = None
    crps: np.ndarray | None = None
    crps_plain: np.ndarray | None = None
    pit: np.ndarray | None = None
    pit_low: np.ndarray | None = None
    pit_high: np.ndarray | None = None
    """Of samples: the ends of y's place among them, below/(S + 1) and (below + ties + 1)/(S + 1)."""
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    deviation: float = 0.0
    extras: dict[Hashable, Any] = field(default_factory=dict)


def quantile_key(level: float) -> tuple[str, float]:
    """The key under which the quantile of a level stands among the extras."""
    return ("quantile", float(level))


def regression_rows(
    p: Regression,
    wanted: frozenset[Hashable] = frozenset(),
    *,
    threads: int | None = None,
    block_rows: int | None = None,
    light: bool = False,
) -> RegressionRows:
    """The record of all rows. wanted: NLL, CRPS, PIT, PREDICTIONS, and ("quantile", level).

    A light record of Gaussians has neither mean nor variances.
    """
    step = block_rows or max(1, BLOCK_ELEMENTS // p.members)
    parts = [_record(p, wanted, threads, slice(start, start + step), light) for start in range(0, p.n, step)]
    made = parts[0] if len(parts) == 1 else _joined(parts)
    made.weights = None if p.weights is None else p.weights / p.info.weight_unit
    if PREDICTIONS in wanted:
        made.extras[PREDICTIONS] = Held(p, np.arange(p.n))
    return made


def _joined(parts: list[RegressionRows]) -> RegressionRows:
    made = RegressionRows(sum(part.n for part in parts))
    for item in fields(RegressionRows):
        if isinstance(getattr(parts[0], item.name), np.ndarray):
            setattr(made, item.name, np.concatenate([getattr(part, item.name) for part in parts]))
    made.extras = {key: np.concatenate([part.extras[key] for part in parts]) for key in parts[0].extras}
    return made


def _record(
    p: Regression, wanted: frozenset[Hashable], threads: int | None, rows: slice, light: bool
) -> RegressionRows:
    y = None if p.y is None else p.y[rows].astype(np.float64, copy=False)
    if p.samples is not None:
        return _of_samples(p.samples[:, rows], y, wanted, threads)
    if p.mean is not None and p.std is not None:
        return _of_members(_wide(p.mean[:, rows]), _wide(p.std[:, rows]), y, wanted, threads, light)
    return _of_quantiles(p, y, wanted, rows)


def _wide(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.float64)


def _levels(wanted: frozenset[Hashable]) -> list[float]:
    return sorted(key[1] for key in wanted if isinstance(key, tuple) and key[0] == "quantile")


def _of_members(
    mean: np.ndarray,
    std: np.ndarray,
    y: np.ndarray | None,
    wanted: frozenset[Hashable],
    threads: int | None,
    light: bool,
) -> RegressionRows:
    rows = RegressionRows(n=mean.shape[1], y=y)
    if not light:
        rows.mean, rows.epistemic = mean_and_variance(mean)
        rows.aleatoric = mean_over_members(std * std)
        rows.variance = rows.aleatoric + rows.epistemic
    if y is not None and wanted & {NLL, CRPS, PIT}:
        scores = gaussian_scores(
            y, mean, std, nll=NLL in wanted, crps=CRPS in wanted, pit=PIT in wanted, threads=threads
        )
        rows.nll, rows.crps, rows.pit = (scores.get(key) for key in (NLL, CRPS, PIT))
        rows.crps_plain = rows.crps
    levels = _levels(wanted)
    if levels:
        quantiles = mixture_quantiles(mean, std, np.array(levels), threads)
        rows.extras = {quantile_key(level): quantiles[k] for k, level in enumerate(levels)}
    return rows


def _of_samples(
    samples: np.ndarray, y: np.ndarray | None, wanted: frozenset[Hashable], threads: int | None
) -> RegressionRows:
    size, n = samples.shape
    levels = _levels(wanted)
    found = sample_scores(samples, y, levels=np.array(levels), threads=threads)
    variance = found["variance"] if size > 1 else np.full(n, np.nan)
    rows = RegressionRows(n=n, y=y, mean=found["mean"], variance=variance)
    rows.extras = {quantile_key(level): found["quantiles"][k] for k, level in enumerate(levels)}
    if y is not None:
        error, spread = found["error"], found["spread"]
        rows.crps = error - spread / (size * (size - 1)) if size > 1 else np.full(n, np.nan)
        rows.crps_plain = error - spread / size**2
        rows.pit_low = found["below"] / (size + 1)
        rows.pit_high = (found["below"] + found["ties"] + 1) / (size + 1)
        rows.pit = (found["below"] + 0.5 * found["ties"] + 0.5) / (size + 1)
    return rows


def _of_quantiles(p: Regression, y: np.ndarray | None, wanted: frozenset[Hashable], rows: slice) -> RegressionRows:
    values = _wide(p.quantiles[rows])  # type: ignore[index]
    made = RegressionRows(n=len(values), y=y)
    for level in _levels(wanted):
        place = level_index(p.levels, level)  # type: ignore[arg-type]
        if place is not None:
            made.extras[quantile_key(level)] = values[:, place]
    return made
