"""Intervals of deep-ensemble equivalents: rows are resampled, and the effect of members is added as noise.

The calibrated log-likelihood (CLL) of a row varies with the row, with the members, and with their interaction.
Replicates weight rows, or units, by independent exponential numbers (the Bayesian bootstrap, Rubin 1981), the same ones
for the model and for the pool; this covers rows and the interaction. Temperatures are not refitted: at its optimum the
mean does not change with the temperature to first order. The main effect of members is added as noise. Its variance for
k members is a/k, where a is the observed variance between sets of members minus the part explained by single rows
(two-way random effects), or 0. For a pool of K members and D draws: a/K + (a/k − a/K)/D for the mean curve at k,
normal, for all k together. For a model: Student's t with the degrees of freedom of the jackknife over its members.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.comparison.cross_validation import CurveRows, calibrated
from calibrant.comparison.split_temperatures import Splits
from calibrant.kernels.jit import over_rows
from calibrant.kernels.philox import uniforms
from calibrant.kernels.resampling import EQUIVALENTS
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import as_classification

BLOCK = 16
"""Replicates that are computed together."""
GROUPS = 10
"""The largest number of groups in which the jackknife omits members."""
FEWEST = 4
"""The smallest number of members from which their variance is estimated."""


def crossed(curves: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The point at which the running maximum of each curve (…, K) reaches its level; −inf before 1, inf after K."""
    best = np.maximum.accumulate(curves, axis=-1)
    reached = best >= levels[..., None]
    first = reached.argmax(axis=-1)
    ends = [np.take_along_axis(best, np.maximum(at, 0)[..., None], -1)[..., 0] for at in (first - 1, first)]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(np.isfinite(ends[0]), (levels - ends[0]) / (ends[1] - ends[0]), 1.0)
    k = np.where(first == 0, np.where(best[..., 0] == levels, 1.0, -np.inf), first + part)
    k = np.where(reached.any(axis=-1), k, np.inf)
    return np.where(np.isnan(levels), np.nan, k)


def replicates(
    pool: np.ndarray,
    pool_std: np.ndarray,
    models: np.ndarray,
    model_std: np.ndarray,
    degrees: np.ndarray,
    shares: np.ndarray,
    *,
    units: np.ndarray | None = None,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
) -> np.ndarray:
    """The k (B, J) at which the pool's curve crosses the CLL of each model, in each replicate.

    pool: (K, N) CLL of rows; models: (J, N); pool_std (K,), model_std (J,): standard deviation of the main effect of
    members, with degrees (J,) of freedom; shares (N,): normalised weights of rows.
    """
    from scipy.special import ndtri, stdtrit

    most, counted = len(pool), shares > 0.0
    together = np.concatenate([pool, models])[:, counted]
    sums = _by_unit(together * shares[counted], None if units is None else units[counted])
    weight = _by_unit(shares[counted][None], None if units is None else units[counted])[0]
    sums, n = np.ascontiguousarray(sums.T), len(weight)
    out = np.empty((resamples, len(models)))

    def fill(first: int, last: int) -> None:
        for start in range(first * BLOCK, min(last * BLOCK, resamples), BLOCK):
            rows = range(start, min(start + BLOCK, resamples))
            drawn = np.stack([uniforms(seed, EQUIVALENTS, b, n + 1 + len(models)) for b in rows])
            each = -np.log(drawn[:, :n])
            means = (each @ sums) / (each @ weight)[:, None]
            curve = means[:, :most] + ndtri(drawn[:, n : n + 1]) * pool_std
            level = means[:, most:] + stdtrit(degrees, drawn[:, n + 1 :]) * model_std
            out[start : rows.stop] = crossed(np.repeat(curve[:, None], len(models), axis=1), level)

    over_rows(fill, -(-resamples // BLOCK), resamples * n, threads)
    return out


def central(replicated: np.ndarray, level: float) -> tuple[float, float]:
    """The ends of the central interval of replicates (B,), each one of them; NaN if some are NaN."""
    if np.isnan(replicated).any():
        return np.nan, np.nan
    ranked, last = np.sort(replicated), len(replicated) - 1
    low = int(np.floor((0.5 - level / 2) * last))
    return float(ranked[low]), float(ranked[last - low])


def _by_unit(rows: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """Sums (…, U) of rows (…, N) over the rows of each unit."""
    if units is None:
        return rows
    count = int(units.max()) + 1
    return np.stack([np.bincount(units, row, count) for row in rows])


def pool_variance(rows: CurveRows) -> np.ndarray:
    """(K,) the a of a pool: the variance between draws of k of K members is a (1/k − 1/K) plus the interaction.

    The mean over j = k/2 … 2k with j ≤ K/2, because draws that share most of their members carry little information;
    for larger k, that of K/2. 0 for one draw or one member. Dependent rows without units bias it upwards, because the
    interaction is computed as if rows were independent.
    """
    draws, most = rows.values.shape
    if draws < 2 or most < 2 or not np.isfinite(rows.values).all():
        return np.zeros(most)
    half = np.arange(1, most // 2 + 1)
    by_k = (rows.values.var(axis=0, ddof=1) - rows.interaction)[: len(half)] / (1.0 / half - 1.0 / most)
    windows = [slice((k - 1) // 2, min(2 * k, len(half))) for k in half]
    smooth = [max(float(np.average(by_k[at], weights=1.0 / half[at])), 0.0) for at in windows]
    return np.array(smooth + [smooth[-1]] * (most - len(half)))


def pool_std(rows: CurveRows) -> np.ndarray:
    """(K,) standard deviation of the pool's mean curve due to the main effect of its members."""
    draws, most = rows.values.shape
    k = np.arange(1, most + 1)
    return np.sqrt(pool_variance(rows) * (1.0 / most + (1.0 / k - 1.0 / most) / draws))


def member_std(
    predictions: Classification | Judged,
    rows: np.ndarray,
    splits: Splits,
    shares: np.ndarray,
    *,
    units: np.ndarray | None = None,
    threads: int | None = None,
) -> tuple[float, int]:
    """Standard deviation of a model's CLL due to the main effect of its members, and its degrees of freedom.

    The delete-group jackknife over up to ten groups of members (Busing et al. 1999), for at least four members. rows:
    (N,) CLL of all members.
    """
    members = predictions.members
    groups = np.array_split(np.arange(members), min(GROUPS, members))
    ratio = np.array([members / len(group) for group in groups])
    without = [calibrated(part, splits, threads).log_likelihood for part in _left_out(predictions, groups)]
    pseudo = ratio[:, None] * rows - (ratio - 1.0)[:, None] * np.stack(without)
    with np.errstate(invalid="ignore"):
        deviation = np.where(shares > 0.0, shares * (pseudo - pseudo.mean(axis=0)), 0.0)
    main = deviation.sum(axis=1)
    total = np.mean(main**2 / (ratio - 1.0))
    interaction = _by_unit(deviation - shares * main[:, None], units)
    single = np.mean((interaction**2).sum(axis=1) / (ratio - 1.0))
    return (float(np.sqrt(max(total - single, 0.0))) if np.isfinite(total) else 0.0), len(groups) - 1


def _left_out(predictions: Classification | Judged, groups: list[np.ndarray]) -> list[Classification]:
    """The average of all members except those of one group, for each group; every member is read once."""
    whole = as_classification(predictions)
    parts = (replace(whole, scores=whole.scores[group], member_names=None) for group in groups)
    sums = np.stack([part.as_probs().scores.sum(axis=0) for part in parts])
    out = []
    for g, group in enumerate(groups):
        mean = np.delete(sums, g, axis=0).sum(axis=0) / (whole.members - len(group))
        with np.errstate(divide="ignore"):
            scores = mean if whole.kind == "probs" else np.log(mean)
        kind = "probs" if whole.kind == "probs" else "log_probs"
        out.append(replace(whole, kind=kind, scores=scores[None], member_names=None))
    return out
