"""Intervals of deep-ensemble equivalents: rows are resampled, and so is what a choice of members adds to all rows.

A row's calibrated log-likelihood (CLL) varies with the row, with the members, and with both together. Replicates weigh
rows, or units, by independent exponential numbers (the Bayesian bootstrap, Rubin 1981), the same ones for the model
and for the pool; this covers rows, and what single rows make of these members. Temperatures stay as they were: at its
optimum the mean does not change with the temperature to first order, so that fitting again would change little. What
members do to all rows at once is added as noise. Its variance for k members is a/k, and a is the variance that is seen
between sets of members less the part that single rows explain (two-way random effects), or 0. Of a pool of K members
and D draws: a/K + (a/k − a/K)/D for the mean curve at k, for all k together, normal. Of a model: Student's t with as
many degrees as the jackknife over its members has.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.comparison.calibrated import calibrated
from calibrant.comparison.curves import CurveRows
from calibrant.comparison.splits import Splits
from calibrant.kernels.jit import over_rows
from calibrant.kernels.philox import uniforms
from calibrant.kernels.resampling import EQUIVALENTS
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import as_classes

BLOCK = 16
"""Replicates that are made together."""
GROUPS = 10
"""Parts that the members of a model are left out in."""
FEWEST = 4
"""Members from which their variance is told by themselves."""


def crossed(curves: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Where the running maximum of each curve (…, K) first reaches its level; −inf before 1 and inf after K."""
    best = np.maximum.accumulate(curves, axis=-1)
    reached = best >= levels[..., None]
    place = reached.argmax(axis=-1)
    ends = [np.take_along_axis(best, np.maximum(at, 0)[..., None], -1)[..., 0] for at in (place - 1, place)]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(np.isfinite(ends[0]), (levels - ends[0]) / (ends[1] - ends[0]), 1.0)
    found = place + part
    found = np.where(place == 0, np.where(best[..., 0] == levels, 1.0, -np.inf), found)
    found = np.where(reached.any(axis=-1), found, np.inf)
    return np.where(np.isnan(levels), np.nan, found)


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
    """Where (B, J) the pool's curve crosses the CLL of each model, in each replicate.

    pool: (K, N) CLL of rows; models: (J, N); pool_std (K,), model_std (J,): what members add to all rows, with so many
    degrees (J,) of freedom; shares (N,) of rows.
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


def central(found: np.ndarray, level: float) -> tuple[float, float]:
    """Both ends of the central share of replicates (B,), each one of them; NaN where some are not known."""
    if np.isnan(found).any():
        return np.nan, np.nan
    ranked, last = np.sort(found), len(found) - 1
    low = int(np.floor((0.5 - level / 2) * last))
    return float(ranked[low]), float(ranked[last - low])


def _by_unit(rows: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """Sums (…, U) of rows (…, N) over the rows of each unit."""
    if units is None:
        return rows
    count = int(units.max()) + 1
    return np.stack([np.bincount(units, row, count) for row in rows])


# ------------------------------------------------------------------------------------ variance by members
def pool_variance(rows: CurveRows) -> np.ndarray:
    """(K,) the a of a pool: of k members out of K draws differ by a (1/k − 1/K), and by what single rows add.

    The mean over j = k/2 … 2k as far as j ≤ K/2, for where draws share most of their members they say little; of larger
    k that of K/2. 0 of one draw or one member. Rows that depend make it larger than it is, for the part of single rows
    is counted as if they did not.
    """
    draws, most = rows.values.shape
    if draws < 2 or most < 2 or not np.isfinite(rows.values).all():
        return np.zeros(most)
    half = np.arange(1, most // 2 + 1)
    seen = (rows.values.var(axis=0, ddof=1) - rows.interaction)[: len(half)] / (1.0 / half - 1.0 / most)
    near = [slice((k - 1) // 2, min(2 * k, len(half))) for k in half]
    found = [max(float(np.average(seen[at], weights=1.0 / half[at])), 0.0) for at in near]
    return np.array(found + [found[-1]] * (most - len(half)))


def pool_std(rows: CurveRows) -> np.ndarray:
    """(K,) standard deviation of the pool's mean curve by the choice of its members, as far as it moves all rows."""
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
    """Standard deviation of a model's CLL by the choice of its members, as far as it moves all rows; its degrees.

    By the jackknife that leaves out one of ten groups of members in turn, or one member (Busing et al. 1999); of at
    least four members. rows: (N,) CLL of all members.
    """
    members = predictions.members
    groups = np.array_split(np.arange(members), min(GROUPS, members))
    ratio = np.array([members / len(group) for group in groups])
    without = [calibrated(part, splits, threads).log_likelihood for part in _left_out(predictions, groups)]
    pseudo = ratio[:, None] * rows - (ratio - 1.0)[:, None] * np.stack(without)
    with np.errstate(invalid="ignore"):
        apart = np.where(shares > 0.0, shares * (pseudo - pseudo.mean(axis=0)), 0.0)
    main = apart.sum(axis=1)
    seen = np.mean(main**2 / (ratio - 1.0))
    of_rows = _by_unit(apart - shares * main[:, None], units)
    single = np.mean((of_rows**2).sum(axis=1) / (ratio - 1.0))
    return (float(np.sqrt(max(seen - single, 0.0))) if np.isfinite(seen) else 0.0), len(groups) - 1


def _left_out(predictions: Classification | Judged, groups: list[np.ndarray]) -> list[Classification]:
    """The average of all members but those of one group, for each group; every member is looked at once."""
    whole = as_classes(predictions)
    sums = np.stack([_of(whole, group).as_probs().scores.sum(axis=0) for group in groups])
    out = []
    for g, group in enumerate(groups):
        mean = np.delete(sums, g, axis=0).sum(axis=0) / (whole.members - len(group))
        with np.errstate(divide="ignore"):
            scores = mean if whole.kind == "probs" else np.log(mean)
        kind = "probs" if whole.kind == "probs" else "log_probs"
        out.append(replace(whole, kind=kind, scores=scores[None], member_names=None))
    return out


def _of(predictions: Classification, chosen: np.ndarray) -> Classification:
    return replace(predictions, scores=predictions.scores[chosen], member_names=None)
