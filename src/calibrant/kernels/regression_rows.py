"""Per-row records of regression predictions: the requested quantities that scores are computed from.

The predictive distribution of a row is N(mean, std²), the equally weighted mixture of its members' Gaussians, the
empirical distribution of its samples, or is known at some quantiles only.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields

import numpy as np

from calibrant.kernels.records import PREDICTIONS, LazyRows, Record
from calibrant.kernels.regression import gaussian_scores, mixture_quantiles, sample_scores
from calibrant.predictions import Regression
from calibrant.predictions.arrays import mean_over_members
from calibrant.predictions.regression import level_index, mean_and_variance

NLL = "nll"
CRPS = "crps"
PIT = "pit"
BLOCK_ELEMENTS = 1 << 21
"""Member values that are converted and processed at a time."""


@dataclass
class RegressionRows(Record):
    """The record of n rows; quantities that are not requested or not available are None. `extras` has quantiles."""

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
    """Of samples: bounds of the PIT of y, below/(S + 1) and (below + ties + 1)/(S + 1)."""


def quantile_key(level: float) -> tuple[str, float]:
    """The key of the quantile of a level in the extras."""
    return ("quantile", float(level))


def regression_rows(
    p: Regression,
    columns: frozenset[Hashable] = frozenset(),
    *,
    threads: int | None = None,
    block_rows: int | None = None,
    light: bool = False,
) -> RegressionRows:
    """The record of all rows, with the columns NLL, CRPS, PIT, PREDICTIONS and ("quantile", level) on request.

    A light record of Gaussians has neither mean nor variances.
    """
    step = block_rows or max(1, BLOCK_ELEMENTS // p.members)
    parts = [_record(p, columns, threads, slice(start, start + step), light) for start in range(0, p.n, step)]
    record = parts[0]
    if len(parts) > 1:
        record = RegressionRows(n=p.n, extras={k: np.concatenate([x.extras[k] for x in parts]) for k in record.extras})
        for item in fields(RegressionRows):
            if isinstance(getattr(parts[0], item.name), np.ndarray):
                setattr(record, item.name, np.concatenate([getattr(part, item.name) for part in parts]))
    if PREDICTIONS in columns:
        record.extras[PREDICTIONS] = LazyRows(p, np.arange(p.n))
    return record


def _record(
    p: Regression, columns: frozenset[Hashable], threads: int | None, rows: slice, light: bool
) -> RegressionRows:
    """The record of some rows: from samples, from Gaussians and their mixtures, or from quantiles alone."""
    y = None if p.y is None else p.y[rows].astype(np.float64, copy=False)
    levels = sorted(key[1] for key in columns if isinstance(key, tuple) and key[0] == "quantile")
    keys = [quantile_key(level) for level in levels]
    if p.samples is not None:
        size, n = len(p.samples), p.samples[:, rows].shape[1]
        scores = sample_scores(p.samples[:, rows], y, levels=np.array(levels), threads=threads)
        variance = scores["variance"] if size > 1 else np.full(n, np.nan)
        record = RegressionRows(n=n, y=y, mean=scores["mean"], variance=variance)
        record.extras = dict(zip(keys, scores["quantiles"], strict=True))
        if y is not None:
            error, spread = scores["error"], scores["spread"]
            record.crps = error - spread / (size * (size - 1)) if size > 1 else np.full(n, np.nan)
            record.crps_plain = error - spread / size**2
            record.pit_low = scores["below"] / (size + 1)
            record.pit_high = (scores["below"] + scores["ties"] + 1) / (size + 1)
            record.pit = (scores["below"] + 0.5 * scores["ties"] + 0.5) / (size + 1)
        return record
    if p.mean is not None and p.std is not None:
        mean, std = (np.ascontiguousarray(x[:, rows], np.float64) for x in (p.mean, p.std))
        record = RegressionRows(n=mean.shape[1], y=y)
        if not light:
            record.mean, record.epistemic = mean_and_variance(mean)
            record.aleatoric = mean_over_members(std * std)
            record.variance = record.aleatoric + record.epistemic
        if y is not None and columns & {NLL, CRPS, PIT}:
            wanted = {name: name in columns for name in (NLL, CRPS, PIT)}
            scores = gaussian_scores(y, mean, std, **wanted, threads=threads)
            record.nll, record.crps, record.pit = (scores.get(key) for key in (NLL, CRPS, PIT))
            record.crps_plain = record.crps
        if levels:
            record.extras = dict(zip(keys, mixture_quantiles(mean, std, np.array(levels), threads), strict=True))
        return record
    values = np.ascontiguousarray(p.quantiles[rows], np.float64)  # type: ignore[index]
    places = [level_index(p.levels, level) for level in levels]  # type: ignore[arg-type]
    extras = {key: values[:, place] for key, place in zip(keys, places, strict=True) if place is not None}
    return RegressionRows(n=len(values), y=y, extras=dict(extras))
