"""The deep-ensemble equivalent (DEE): how many independently trained members a model is worth.

CLL_DE(k) is the calibrated log-likelihood of k members out of a pool, the mean over several draws, for k = 1 … K;
running maximum, linear between whole k. DEE(l) = min k with CLL_DE(k) ≥ l (Ashukha et al. 2020, equation 4), a real
number in [1, K]; 'below' where l < CLL_DE(1), 'above' where l > CLL_DE(K). lower and upper take the mean plus and minus
the standard deviation over draws (equation 5); near K draws share most of their members, so that it vanishes there.
The interval, see `equivalent_intervals`, is of another kind: it says how far other rows and members would move the DEE.

CLL_DE rises by about c/k² from k to k + 1, and the noise of k members on N rows falls like 1/√(kN), so that the spread
of the DEE grows like k^1.5/√N: that of a good model is known less well than that of a poor one. Of k = 20 fresh members
a range of 14 to 27 (5 to 95 %) is to be expected on some thousand rows, and a wider one on fewer. A fresh single member
is 'below' about half of the time.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.comparison.calibrated import calibrated
from calibrant.comparison.curves import CurveRows, curve_rows, member_orders
from calibrant.comparison.equivalent_intervals import (
    FEWEST,
    central,
    crossed,
    member_std,
    pool_std,
    pool_variance,
    replicates,
)
from calibrant.comparison.records import CllCurve, Equivalent, MeanEquivalent
from calibrant.comparison.splits import REPEATS, Splits, splits_of
from calibrant.errors import CalibrantWarning, InputError, LabelsError, ShapeError, UsageError, ValuesError, show
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import ClassRows, as_classes

DRAWS = 10
RESAMPLES = 1000
MOST_DRAWS = 10_000
EQUAL = 1e-9
"""CLL that differ by less are equal: temperatures are known no better."""
SAMPLE = 64
"""Rows by which members are told apart at first."""
ALIKE = 1e-6
"""Probabilities that differ by less are those of one member, stored in different ways."""


# ------------------------------------------------------------------------------------------ definition
def crossing(curve: np.ndarray, l: float) -> tuple[float, str]:  # noqa: E741
    """DEE of the CLL l by a curve (K,) for k = 1 … K, within [1, K], and '', 'below' or 'above'."""
    curve = np.asarray(curve, np.float64)
    if curve.ndim != 1 or curve.size == 0:
        raise ShapeError("curve", expected="shape (K,)", came=f"its shape is {curve.shape}", do="give CLL for each k")
    if np.isnan(curve).any():
        raise ValuesError(
            "curve", expected="CLL for each k", came="some are NaN", do="drop rows that are no predictions"
        )
    return clamped(float(crossed(curve, np.asarray(l, np.float64))), len(curve))


def clamped(place: float, most: int) -> tuple[float, str]:
    """A crossing within [1, K], and on which side it was beyond."""
    if math.isinf(place):
        return (1.0, "below") if place < 0.0 else (float(most), "above")
    return place, ""


# ---------------------------------------------------------------------------------------------- face
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
    """The deep-ensemble equivalent of a model by a pool of independently trained members, on the same rows.

    curve: that of its first k members, for every k. draws: orders of the pool that its curve is the mean of. repeats:
    of halves of the rows, by which temperatures are fitted. units: a column of the pool whose rows depend.

    The interval is for other rows and for other members of the same kind. Two or three members of a model are taken to
    vary as those of the pool do; one stands for itself alone. Of one draw nothing is known of how the pool's vary.
    """
    check_same_rows(predictions, pool)
    _check(draws, level, resamples)
    codes = None if units is None else np.unique(pool.column(units), return_inverse=True)[1].ravel()
    splits = splits_of(pool.n, repeats=repeats, seed=seed, units=codes)
    if count := shared_members(predictions, pool):
        text = f"{predictions.name}: {count} of {predictions.members} members are in the pool {pool.name} as well"
        warnings.warn(f"{text}; measure by a pool without them", CalibrantWarning, stacklevel=2)
    by_pool = pool_curve(pool, splits, draws=draws, units=codes, seed=seed, threads=threads)
    models = _members(predictions, splits, units=codes, threads=threads, each=curve)
    found = equivalents(models, *by_pool, shares_of(pool), units=codes, level=level, resamples=resamples, seed=seed,
                        threads=threads)  # fmt: skip
    return found if curve else found[0]


def equivalent_curve(
    predictions: Classification | Judged,
    pool: tuple[CllCurve, CurveRows],
    splits: Splits,
    *,
    units: np.ndarray | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> tuple[Equivalent, ...]:
    """The equivalent of the first k members of a model, k = 1, 2, …, by what `pool_curve` found; the last is of all."""
    models = _members(predictions, splits, units=units, threads=threads, each=True)
    return equivalents(models, *pool, shares_of(predictions), units=units, level=level, resamples=resamples, seed=seed,
                       threads=threads)  # fmt: skip


# --------------------------------------------------------------------------------------------- parts
@dataclass(frozen=True)
class Model:
    """What is measured."""

    members: int
    rows: np.ndarray
    """(N,) CLL of each row."""
    std: float = math.nan
    """What the choice of members adds to all rows; NaN where there are too few to tell."""
    degrees: int = 1000
    """Of freedom, by which it is known."""


def pool_curve(
    pool: Classification | Judged,
    splits: Splits,
    *,
    draws: int = DRAWS,
    units: np.ndarray | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> tuple[CllCurve, CurveRows]:
    """CLL of k members of the pool, the mean over random draws, for every k; units: that of each row."""
    found = curve_rows(pool, splits, member_orders(pool.members, draws, seed), threads, units)
    return found.curve(pool, repeats=splits.repeats, seed=seed), found


def model_of(
    predictions: Classification | Judged,
    splits: Splits,
    *,
    rows: np.ndarray | None = None,
    units: np.ndarray | None = None,
    threads: int | None = None,
) -> Model:
    """The average of all members, to be measured; rows: (N,) its CLL where it is known already."""
    if rows is None:
        rows = calibrated(predictions, splits, threads).log_likelihood
    if predictions.members < FEWEST:
        return Model(predictions.members, rows)
    known = member_std(predictions, rows, splits, shares_of(predictions), units=units, threads=threads)
    return Model(predictions.members, rows, *known)


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
    """The equivalent of each model; all of them meet the same replicates of rows and of the pool."""
    mean, std, most = np.array(curve.mean), np.array(curve.std), len(curve.mean)
    rows = np.stack([model.rows for model in models])
    cll = np.where(shares > 0.0, rows, 0.0) @ shares
    stds = np.array([_std(model, pool) for model in models])
    degrees = np.array([model.degrees for model in models])
    found = replicates(
        pool.rows, pool_std(pool), rows, stds, degrees, shares,
        units=units, resamples=resamples, seed=seed, threads=threads,
    )  # fmt: skip
    out = []
    for j, model in enumerate(models):
        value, censored = crossing(mean, _settled(cll[j], mean))
        low, high = (clamped(end, most) for end in central(found[:, j], level))
        lower, upper = (math.nan if np.isnan(std).any() else crossing(mean + s * std, cll[j])[0] for s in (1, -1))
        out.append(
            Equivalent(
                members=model.members, cll=float(cll[j]), value=value, low=low[0], high=high[0], level=float(level),
                lower=lower, upper=upper, censored=censored,
                low_censored=low[1] == "below", high_censored=high[1] == "above",
            )
        )  # fmt: skip
    return tuple(out)


def _settled(level: float, mean: np.ndarray) -> float:
    """A CLL that is that of one member, or of the best of the pool, up to rounding, is exactly that."""
    for end in (mean[0], mean.max()):
        if level == end or abs(level - end) < EQUAL:
            return float(end)
    return level


def _std(model: Model, pool: CurveRows) -> float:
    """The model's own; two or three members are taken to vary as those of the pool do, and one stands for itself."""
    if not math.isnan(model.std):
        return model.std
    if model.members == 1:
        return 0.0
    a = pool_variance(pool)
    return math.sqrt(a[min(model.members, len(a)) - 1] / model.members)


def shares_of(predictions: Classification | Judged) -> np.ndarray:
    """The weight (N,) of each row, all together one."""
    return ClassRows(as_classes(predictions)).shares


def _members(
    predictions: Classification | Judged,
    splits: Splits,
    *,
    units: np.ndarray | None,
    threads: int | None,
    each: bool,
) -> list[Model]:
    """The average of all members, or that of the first k for every k; these have the variance a/k of all of them."""
    if not each:
        return [model_of(predictions, splits, units=units, threads=threads)]
    rows = curve_rows(predictions, splits, np.arange(predictions.members)[None], threads).rows
    whole = model_of(predictions, splits, rows=rows[-1], units=units, threads=threads)
    stds = [whole.std * math.sqrt(whole.members / k) for k in range(1, whole.members + 1)]
    return [Model(k, *item, whole.degrees) for k, item in enumerate(zip(rows, stds, strict=True), start=1)]


# --------------------------------------------------------------------------------- averages of data sets
def mean_equivalents(items: Iterable[Sequence[Equivalent]]) -> tuple[MeanEquivalent, ...]:
    """The mean curve over data sets, each given by its own; for the member counts that any of them has."""
    by_count: dict[int, list[Equivalent]] = {}
    for item in (item for found in items for item in found):
        by_count.setdefault(item.members, []).append(item)
    out = []
    for members, found in sorted(by_count.items()):
        value, lower, upper = (float(np.mean([getattr(x, key) for x in found])) for key in ("value", "lower", "upper"))
        below, above = (sum(x.censored == side for x in found) for side in ("below", "above"))
        out.append(MeanEquivalent(members, value, lower, upper, len(found), below, above))
    return tuple(out)


# -------------------------------------------------------------------------------------------- checks
def shared_members(predictions: Classification | Judged, pool: Classification | Judged) -> int:
    """How many members of a model are in the pool as well: the same probabilities in all rows within 1e-6."""
    one, two = as_classes(predictions), as_classes(pool)
    if one.n != two.n or one.classes != two.classes:
        return 0
    some = np.unique(np.linspace(0, one.n - 1, min(SAMPLE, one.n)).astype(np.int64))
    ours, theirs = one[some].as_probs().scores, two[some].as_probs().scores
    count = 0
    for m, member in enumerate(ours):
        near = np.flatnonzero((np.abs(theirs - member) < ALIKE).all(axis=(1, 2)))
        count += any(_same(one.member(m), two.member(int(k))) for k in near)
    return count


def _same(one: Classification, two: Classification) -> bool:
    return bool((np.abs(one.as_probs().scores - two.as_probs().scores) < ALIKE).all())


def check_same_rows(predictions: Classification | Judged, pool: Classification | Judged) -> None:
    """Refuse a model and a pool whose rows are not the same cases."""
    name, do = f"{predictions.name} and {pool.name}", "give the same rows in the same order"
    for item in (predictions, pool):
        if not isinstance(item, Classification | Judged):
            kind = type(item).__name__
            raise InputError(name, expected="classes or judged answers", came=f"one is {kind}", do="CLL is of classes")
    if predictions.task != pool.task:
        came = f"they are {predictions.task} and {pool.task}"
        raise InputError(name, expected="two of a kind", came=came, do=do)
    one, two = as_classes(predictions), as_classes(pool)
    for what in ("n", "classes"):
        counts = getattr(one, what), getattr(two, what)
        if counts[0] != counts[1]:
            said = "rows" if what == "n" else what
            raise ShapeError(name, expected=f"as many {said}", came=f"they have {counts[0]} and {counts[1]}", do=do)
    for what in ("labels", "weights", "ids"):
        _check_equal(what, *(item.labels if what == "labels" else getattr(item.info, what) for item in (one, two)),
                     name=name, do=do)  # fmt: skip


def _check_equal(what: str, one: np.ndarray | None, two: np.ndarray | None, *, name: str, do: str) -> None:
    if what == "labels" and one is None and two is None:
        raise LabelsError(name, expected="labels", came="there are none", do="give what came true for each row")
    if (one is None and two is None) or (what == "ids" and (one is None or two is None)):
        return
    if one is None or two is None:
        raise LabelsError(name, expected=f"the same {what}", came=f"{what} are of one of them only", do=do)
    if not np.array_equal(one, two):
        first = int(np.argmax(one != two))
        raise LabelsError(name, expected=f"the same {what}", came=f"they differ, first in row {first}", do=do)


def _check(draws: int, level: float, resamples: int) -> None:
    for what, value, most, usual in (("draws", draws, MOST_DRAWS, DRAWS), ("resamples", resamples, 10**6, RESAMPLES)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
            said = f"a whole number from 1 to {most}"
            raise UsageError(what, expected=said, came=f"got {show(str(value))}", do=f"{usual} is usual")
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
