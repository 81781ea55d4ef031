"""The deep-ensemble equivalent (DEE): how many independently trained members a model is worth.

CLL_DE(k) is the calibrated log-likelihood of k members out of a pool, the mean over several draws, for k = 1 … K;
running maximum, linear between integers k. DEE(l) = min k with CLL_DE(k) ≥ l (Ashukha et al. 2020, equation 4), a real
number in [1, K]; 'below' where l < CLL_DE(1), 'above' where l > CLL_DE(K). lower and upper take the mean plus and minus
the standard deviation over draws (equation 5); near K draws share most of their members, so that it vanishes there.
The interval (see `equivalent_intervals`) is different: it shows how other rows and members would move the DEE.

CLL_DE increases by about c/k² from k to k + 1, and the noise of k members on N rows decreases like 1/√(kN), so the
spread of the DEE grows like k^1.5/√N: it is less precise for a good model than for a poor one. For k = 20 new members,
expect 14 to 27 (5% to 95%) on a few thousand rows, and a wider range on fewer. A new single member is 'below' about
half of the time.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.comparison.cross_validation import CurveRows, calibrated, curve_rows, member_orders
from calibrant.comparison.equivalent_intervals import (
    FEWEST,
    central,
    crossed,
    member_std,
    pool_std,
    pool_variance,
    replicates,
)
from calibrant.comparison.scoring import Scored, with_classes
from calibrant.comparison.split_temperatures import REPEATS, Splits, splits_of, unit_codes
from calibrant.errors import CalibrantWarning, InputError, LabelsError, ShapeError, ValuesError, check_range
from calibrant.predictions import Classification, InMemory, Judged
from calibrant.recalibration.class_rows import ClassRows, as_classification
from calibrant.results.comparison import CllCurve, Comparison, Equivalent, MeanEquivalent

DRAWS = 10
RESAMPLES = 1000
MOST_DRAWS = 10_000
EQUAL = 1e-9
"""CLL that differ by less are equal: temperatures are not more precise."""
SAMPLE = 64
"""Rows on which members are compared first."""
ALIKE = 1e-6
"""Probabilities that differ by less belong to one member, stored in different ways."""


def crossing(curve: np.ndarray, l: float) -> tuple[float, str]:  # noqa: E741
    """DEE of the CLL l by a curve (K,) for k = 1 … K, within [1, K], and '', 'below' or 'above'."""
    curve = np.asarray(curve, np.float64)
    if curve.ndim != 1 or curve.size == 0:
        raise ShapeError("curve", expected="shape (K,)", got=f"shape {curve.shape}", hint="give the CLL of each k")
    if np.isnan(curve).any():
        raise ValuesError("curve", expected="the CLL of each k", got="NaN", hint="drop rows without valid predictions")
    return clamped(float(crossed(curve, np.asarray(l, np.float64))), len(curve))


def clamped(place: float, most: int) -> tuple[float, str]:
    """A crossing clipped to [1, K], and the side on which it was clipped."""
    if math.isinf(place):
        return (1.0, "below") if place < 0.0 else (float(most), "above")
    return place, ""


def equivalent(
    predictions: Classification | Judged,
    pool: Classification | Judged,
    *,
    curve: bool = False,
    draws: int = DRAWS,
    repeats: int = REPEATS,
    units: str | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> Equivalent | tuple[Equivalent, ...]:
    """The deep-ensemble equivalent of a model: how many members of a pool have the same calibrated log-likelihood.

    The interval is for new rows and new members of the same kind. Two or three members of a model are assumed to vary
    like those of the pool; a single member is treated as fixed. With one draw, the variance between the pool's members
    is unknown and left out.

    Parameters
    ----------
    predictions : Classification or Judged
        The model, with labels.
    pool : Classification or Judged
        Independently trained members, with predictions for the same rows.
    curve : bool
        Compute the equivalent of the first k members of the model, for every k.
    draws : int
        Number of random orders of the pool's members; its curve is their mean.
    repeats : int
        Number of random splits into halves, on which temperatures are fitted.
    units : str, optional
        A column of the pool that identifies groups of dependent rows.
    level : float
        Confidence level of the interval.
    resamples : int
        Number of resamples for the interval.
    seed : int
        Seed of everything random.
    threads : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    Equivalent or tuple of Equivalent
        One for each number of members with `curve`.

    Examples
    --------
    >>> import calibrant as cal
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth, labels = rng.normal(size=(100, 3)), rng.integers(0, 3, 100)
    >>> pool = cal.Classification.from_logits(truth + rng.normal(size=(4, 100, 3)), labels)
    >>> worst = cal.Classification.from_logits(5 * rng.normal(size=(100, 3)), labels)
    >>> cal.comparison.equivalent(worst, pool, draws=2, resamples=20).members
    1
    """
    check_same_rows(predictions, pool)
    check_range("draws", draws, 1, MOST_DRAWS, integer=True, hint=f"use draws={DRAWS}")
    check_range("resamples", resamples, 1, 10**6, integer=True, hint=f"use resamples={RESAMPLES}")
    check_range("level", level, 0, 1, inclusive="neither", hint="use level=0.95")
    codes = unit_codes(pool, units)
    splits = splits_of(pool.n, repeats=repeats, seed=seed, units=codes)
    if count := shared_members(predictions, pool):
        text = f"{predictions.name}: {count} of {predictions.members} members are also in the pool {pool.name}"
        warnings.warn(f"{text}; use a pool without them", CalibrantWarning, stacklevel=2)
    by_pool = pool_curve(pool, splits, draws=draws, units=codes, seed=seed, threads=threads)
    models = models_of(predictions, splits, units=codes, threads=threads, each=curve)
    by_members = equivalents(
        models, *by_pool, shares_of(pool), units=codes, level=level, resamples=resamples, seed=seed, threads=threads
    )
    return by_members if curve else by_members[0]


@dataclass(frozen=True)
class Model:
    """A model whose equivalent is computed."""

    members: int
    rows: np.ndarray
    """(N,) CLL of each row."""
    std: float = math.nan
    """Standard deviation of the CLL due to the choice of members; NaN if there are too few to estimate it."""
    degrees: int = 1000
    """Degrees of freedom of that estimate."""


def pool_curve(
    pool: Classification | Judged,
    splits: Splits,
    *,
    draws: int = DRAWS,
    units: np.ndarray | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> tuple[CllCurve, CurveRows]:
    """CLL of k members of the pool for every k, the mean over random draws; units: the unit of each row."""
    rows = curve_rows(pool, splits, member_orders(pool.members, draws, seed), threads, units)
    return rows.curve(pool, repeats=splits.repeats, seed=seed), rows


def model_of(
    predictions: Classification | Judged,
    splits: Splits,
    *,
    rows: np.ndarray | None = None,
    units: np.ndarray | None = None,
    threads: int | None = None,
) -> Model:
    """The average of all members as a `Model`; rows: (N,) its CLL, if already computed."""
    if rows is None:
        rows = calibrated(predictions, splits, threads).log_likelihood
    if predictions.members < FEWEST:
        return Model(predictions.members, rows)
    spread = member_std(predictions, rows, splits, shares_of(predictions), units=units, threads=threads)
    return Model(predictions.members, rows, *spread)


def equivalents(
    models: Sequence[Model],
    curve: CllCurve,
    pool: CurveRows,
    shares: np.ndarray,
    *,
    units: np.ndarray | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> tuple[Equivalent, ...]:
    """The equivalent of each model, with the same replicates of rows and of the pool for all of them."""
    mean, std, most = np.array(curve.mean), np.array(curve.std), len(curve.mean)
    rows = np.stack([model.rows for model in models])
    cll = np.where(shares > 0.0, rows, 0.0) @ shares
    pool_spread = pool_variance(pool)
    stds = np.array([model.std for model in models])
    for j, model in enumerate(models):  # two or three members vary like those of the pool, a single one is fixed
        if math.isnan(model.std):
            spread = pool_spread[min(model.members, len(pool_spread)) - 1] if model.members > 1 else 0.0
            stds[j] = math.sqrt(spread / model.members)
    degrees = np.array([model.degrees for model in models])
    crossings = replicates(
        pool.rows, pool_std(pool), rows, stds, degrees, shares, units=units, resamples=resamples, seed=seed,
        threads=threads,
    )  # fmt: skip
    out = []
    for j, model in enumerate(models):
        # a CLL that equals that of one member, or of the best of the pool, up to rounding
        ends = (end for end in (mean[0], mean.max()) if cll[j] == end or abs(cll[j] - end) < EQUAL)
        value, censored = crossing(mean, float(next(ends, cll[j])))
        low, high = (clamped(end, most) for end in central(crossings[:, j], level))
        lower, upper = (math.nan if np.isnan(std).any() else crossing(mean + s * std, cll[j])[0] for s in (1, -1))
        out.append(
            Equivalent(
                members=model.members, cll=float(cll[j]), value=value, low=low[0], high=high[0], level=float(level),
                lower=lower, upper=upper, censored=censored,
                low_censored=low[1] == "below", high_censored=high[1] == "above",
            )
        )  # fmt: skip
    return tuple(out)


def shares_of(predictions: Classification | Judged) -> np.ndarray:
    """The weights (N,) of rows, normalised to sum 1."""
    return ClassRows(as_classification(predictions)).row_weights


def models_of(
    predictions: Classification | Judged,
    splits: Splits,
    *,
    units: np.ndarray | None = None,
    threads: int | None = None,
    each: bool = True,
) -> list[Model]:
    """The average of the first k members for every k, with variance a/k; of all members without `each`."""
    if not each:
        return [model_of(predictions, splits, units=units, threads=threads)]
    rows = curve_rows(predictions, splits, np.arange(predictions.members)[None], threads).rows
    whole = model_of(predictions, splits, rows=rows[-1], units=units, threads=threads)
    stds = [whole.std * math.sqrt(whole.members / k) for k in range(1, whole.members + 1)]
    return [Model(k, *item, whole.degrees) for k, item in enumerate(zip(rows, stds, strict=True), start=1)]


def equivalents_of(comparison: Comparison, scored: Scored, pool: InMemory, name: str) -> Comparison:
    """The comparison with the equivalent of every model, and of its first k members if it has several.

    Likelihoods use test-time cross-validation, whatever temperature the comparison ranks by. The last point of a
    model's curve is the equivalent of the model, with the same interval.
    """
    a = scored.settings
    splits = scored.splits or splits_of(pool.n, repeats=a.repeats, seed=a.seed, units=scored.units)
    scored.report(f"{name}: curve of the pool", len(scored.models))
    own: dict[str, Any] = {"units": scored.units, "threads": a.threads}
    how = {**own, "level": a.level, "resamples": a.resamples, "seed": a.seed}
    curve, rows = pool_curve(with_classes(pool), splits, draws=a.draws, seed=a.seed, **own)
    models: dict[str, Model] = {}
    curves: dict[str, tuple[Equivalent, ...]] = {}
    for place, (key, model) in enumerate(scored.models.items()):
        if key == name:
            continue
        scored.report(f"{key}: equivalent", place)
        cll_rows = scored.calibrated[key].log_likelihood if scored.splits is not None and scored.calibrated else None
        models[key] = model_of(with_classes(model), splits, rows=cll_rows, **own)
        if model.members > 1:
            first = models_of(with_classes(model), splits, **own)
            curves[key] = equivalents(first, curve, rows, shares_of(with_classes(model)), **how)
    weights = shares_of(with_classes(pool))
    every = equivalents(list(models.values()), curve, rows, weights, **how) if models else ()
    by_name = dict(zip(models, every, strict=True))
    by_members = {key: (*items[:-1], by_name[key]) for key, items in curves.items()}
    of_pool = {name: replace(curve, name=name)}
    return replace(comparison, pool=name, equivalents=by_name, equivalent_curves=by_members, curves=of_pool)


def mean_equivalents(items: Iterable[Sequence[Equivalent]]) -> tuple[MeanEquivalent, ...]:
    """The mean over data sets of their curves, for every number of members that any of them has."""
    by_count: dict[int, list[Equivalent]] = {}
    for item in (item for curve in items for item in curve):
        by_count.setdefault(item.members, []).append(item)
    out = []
    for members, own in sorted(by_count.items()):
        value, lower, upper = (float(np.mean([getattr(x, key) for x in own])) for key in ("value", "lower", "upper"))
        below, above = (sum(x.censored == side for x in own) for side in ("below", "above"))
        out.append(MeanEquivalent(members, value, lower, upper, len(own), below, above))
    return tuple(out)


def shared_members(predictions: Classification | Judged, pool: Classification | Judged) -> int:
    """The number of members of a model that are also in the pool, with equal probabilities within 1e-6."""
    one, two = as_classification(predictions), as_classification(pool)
    if one.n != two.n or one.classes != two.classes:
        return 0
    sample = np.unique(np.linspace(0, one.n - 1, min(SAMPLE, one.n)).astype(np.int64))
    ours, theirs = one[sample].as_probs().scores, two[sample].as_probs().scores
    count = 0
    for m, member in enumerate(ours):
        near = np.flatnonzero((np.abs(theirs - member) < ALIKE).all(axis=(1, 2))).tolist()
        whole = one.member(m).as_probs().scores if near else member
        count += any(bool((np.abs(whole - two.member(k).as_probs().scores) < ALIKE).all()) for k in near)
    return count


def check_same_rows(predictions: Classification | Judged, pool: Classification | Judged) -> None:
    """Refuse a model and a pool with different rows."""
    name, hint = f"{predictions.name} and {pool.name}", "give the same rows in the same order"
    for item in (predictions, pool):
        if not isinstance(item, Classification | Judged):
            kind = type(item).__name__
            expected = "classification or judged predictions"
            raise InputError(name, expected=expected, got=kind, hint="CLL is defined for classes")
    if predictions.task != pool.task:
        got = f"{predictions.task} and {pool.task}"
        raise InputError(name, expected="predictions for one task", got=got, hint=hint)
    one, two = as_classification(predictions), as_classification(pool)
    for what in ("n", "classes"):
        counts = getattr(one, what), getattr(two, what)
        if counts[0] != counts[1]:
            noun = "rows" if what == "n" else what
            expected, got = f"the same number of {noun}", f"{counts[0]} and {counts[1]}"
            raise ShapeError(name, expected=expected, got=got, hint=hint)
    for what in ("labels", "weights", "ids"):
        own, others = (item.labels if what == "labels" else getattr(item.info, what) for item in (one, two))
        if what == "labels" and own is None and others is None:
            raise LabelsError(name, expected="labels", got="none", hint="add the observed class of each row")
        if (own is None and others is None) or (what == "ids" and (own is None or others is None)):
            continue
        if own is None or others is None:
            raise LabelsError(name, expected=f"the same {what}", got=f"{what} for one of them only", hint=hint)
        if not np.array_equal(own, others):
            got = f"different ones, first in row {int(np.argmax(own != others))}"
            raise LabelsError(name, expected=f"the same {what}", got=got, hint=hint)
