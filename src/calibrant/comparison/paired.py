"""Paired comparison of models by the scores of their rows: differences, intervals, p-values, ranks.

All models have the same rows, resampled units and sign flips, so that what makes a row hard for all models cancels.
The reported p-value assumes exchangeable models and comes from sign flips (`sign_flip_test`), corrected over the pairs
of a score (Holm 1979). After temperatures fitted on the same rows, the rows of two models are exchangeable only up to
the noise of these fits, which can matter for few rows with heavy tails: the larger of both p-values is then reported.
Ranks are those of the resampled means: their central interval, and how often a model is the best.

Notation: units u = 1 … U are rows, or groups of dependent rows; m_u = Σ w of the rows of a unit and a_u = Σ w·s of a
model's scores s there, so that its value is Σa/Σm. For two models d_u = a_u − b_u, and D = Σd/Σm. Rows of weight 0 are
dropped first, as if they did not exist.

Intervals are symmetric bootstrap-t. With the residuals e_u = d_u − D·m_u of U units, m of which differ,
se² = U/(U − 1)·Σe²/(Σm)². In a replicate each unit counts v_u ~ Poisson(1) times, with the same counts for every pair,
score and model, which gives D* and se*. Then
    t = D/√(se²(1 + 1/m)),    t* = (D* − D)/√(se*² + se²/m),
and the interval is D ± q·se·√(1 + 1/m), with q the quantile of |t*|, or that of Student's t with min(m, U − 1) degrees
of freedom if it is larger. The variance of one more unit, se²/m, keeps t* finite in replicates that miss the few units
that differ (like pseudo-counts for paired proportions: Agresti & Min 2005); it is negligible for scores that differ
everywhere. The p-value is the larger of (1 + #{|t*| ≥ |t|})/(1 + B) and Student's: it is below 1 − level exactly if the
interval excludes 0. Symmetric intervals have smaller coverage errors than equal-tailed ones (Hall 1992, The bootstrap
and Edgeworth expansion, section 3.6), and change sign with the pair.

Infinite scores: the difference of two models of which one has an infinite score is infinite, of two such undefined.
Neither has an interval or a p-value, and Holm's correction does not count them. Such a model is the worst in every
resample. Models with equal scores in every row, up to the rounding of single precision and of fitted temperatures:
difference 0, both p-values 1, no interval, because rows without spread say little about new ones; they share their rank
in every resample. One row (or unit): no interval, and sign flips give p = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

import numpy as np

from calibrant.comparison.sign_flip_test import by_flips, exact, holm
from calibrant.errors import ShapeError, UsageError, ValuesError, check_range, did_you_mean, show
from calibrant.intervals import normal_quantile, studentised, t_quantile, wilson
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import GROUPS, poisson_sums
from calibrant.predictions.base import Note
from calibrant.registry.comparison_scores import CALIBRATED
from calibrant.registry.lookup import with_role
from calibrant.registry.state.accumulators import Moments
from calibrant.results.comparison import HOLM, Pair, Ranked, better_when_higher

Rows = Mapping[str, Mapping[str, np.ndarray]]
RESAMPLES = 2000
MOST_UNITS = 1 << 16
"""The largest number of units that are resampled individually; more are resampled in groups."""
MOST_FOR_PAIRS = 10_000
"""Largest number of resamples and flips to which many pairs raise it, so that Holm's correction can be passed."""
TOGETHER = 256
"""Pairs whose sums are in memory at a time."""
POWER = 0.8
ROUNDING = 8 * np.finfo(float).eps
"""Differences that vary by no more than this fraction of the scores count as constant."""
IDENTICAL = 1e-6
"""Relative difference of two scores of a row up to which they are equal: predictions have single precision."""
FITTED = 1e-8
"""The same for scores at a fitted temperature, in nats."""
TIED = 1e-9
"""Relative difference of two means up to which models are tied."""


@dataclass(frozen=True)
class Paired:
    """All pairs of models, and the rank of each model."""

    pairs: tuple[Pair, ...]
    """Score by score: all pairs in the order of models, or each model minus the baseline."""
    ranks: dict[str, tuple[Ranked, ...]] = field(default_factory=dict)
    """By score, the best first."""
    notes: tuple[Note, ...] = ()
    """Warnings: pairs without a p-value, too few flips for the number of pairs."""


def paired(
    rows: Rows,
    *,
    weights: np.ndarray | None = None,
    units: np.ndarray | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    baseline: str | None = None,
    threads: int | None = None,
) -> Paired:
    """Compare models by the score of each row.

    rows: score → model → (N,), all for the same rows; the name of a score tells whether higher is better. units: (N,)
    integers; rows of one unit depend on each other, and are resampled and flipped together. baseline: only compare
    every other model with this one.
    """
    level = check_range("level", level, 0, 1, inclusive="neither", hint="use level=0.95")
    resamples = check_range("resamples", resamples, 1, 10**7, integer=True, hint="use resamples=2000")
    scores, weights, units = _checked(rows, weights, units)
    names: dict[str, list[tuple[str, str]]] = {}
    for score, models in scores.items():
        if baseline is not None and baseline not in models:
            expected = f"one of the models with {score}: {', '.join(models)}"
            raise UsageError("baseline", expected=expected, got=show(baseline), hint=did_you_mean(baseline, models))
        every = combinations(models, 2) if baseline is None else ((one, baseline) for one in models if one != baseline)
        names[score] = list(every)
    columns = {(score, model): rows for score, models in scores.items() for model, rows in models.items()}
    index = {key: k for k, key in enumerate(columns)}
    values = {}
    for key, s in columns.items():
        moments = Moments()
        moments.add(s, weights, None, spread=False)
        values[key] = moments.mean()
    finite = [
        (index[score, one], index[score, two])
        for score, pairs in names.items()
        for one, two in pairs
        if math.isfinite(values[score, one]) and math.isfinite(values[score, two])
    ]
    most = max(len(pairs) for pairs in names.values())
    # at least twice as many as the smallest p-value needs to pass the first of Holm's steps
    draws = max(resamples, min(MOST_FOR_PAIRS, math.ceil(2.0 * most / (1.0 - level))))

    def by_unit(s: np.ndarray) -> np.ndarray:
        weighted = s if weights is None else s * weights
        return weighted if units is None else np.bincount(units, weighted)

    mass = by_unit(np.ones(len(next(iter(columns.values())))))
    terms = len(mass)
    same = _identical(columns, values)
    # zeros stand for columns with infinite scores, for which there is no resampling
    every_column = (columns[same[key]] for key in columns)
    a = np.stack([by_unit(s) if np.isfinite(s).all() else np.zeros(terms) for s in every_column])
    if terms > MOST_UNITS:
        # groups of independent units are independent too, and may be resampled or sign-flipped as a whole: the variance
        # of a mean does not change, it is only estimated with fewer degrees of freedom
        group = words(seed, GROUPS, 0, terms) % MOST_UNITS
        a, mass = np.stack([np.bincount(group, row, MOST_UNITS) for row in a]), np.bincount(group, mass, MOST_UNITS)
    means, differences = _bootstrap(a, mass, finite, level=level, resamples=draws, seed=seed, threads=threads)
    p_exact = [exact(a[i] - a[j], draws) for i, j in finite]
    rest = [pair for pair, p in zip(finite, p_exact, strict=True) if p is None]
    p_flips = iter(by_flips(a, rest, flips=draws, seed=seed, threads=threads))
    p_finite = [float(next(p_flips)) if p is None else p for p in p_exact]
    tested = {pair: (d, p) for pair, d, p in zip(finite, differences, p_finite, strict=True)}
    out: list[Pair] = []
    ranks = {}
    for score, models in scores.items():
        found = []
        for one, two in names[score]:
            infinite = Difference(values[score, one] - values[score, two], math.nan, math.nan, math.nan, math.nan)
            found.append(tested.get((index[score, one], index[score, two]), (infinite, math.nan)))
        raised = score in CALIBRATED
        p_values = [max(p, d.p_value) if raised and not math.isnan(d.p_value) else p for d, p in found]
        corrected = holm(np.array(p_values))
        for (one, two), (d, _), p, p_holm in zip(names[score], found, p_values, corrected, strict=True):
            numbers = d.value, d.low, d.high, level, p, d.p_value, float(p_holm), terms, d.detectable
            out.append(Pair(score, one, two, *numbers))
        own = np.array([values[score, model] for model in models])
        tied = np.array([values[same[score, model]] for model in models])
        resampled = means[:, [index[score, model] for model in models]]
        ranks[score] = _ranked(score, models, own, snapped(tied), resampled, weights, units, level)
    return Paired(tuple(out), ranks, _notes(out, most, draws, level))


def _notes(pairs: list[Pair], most: int, draws: int, level: float) -> tuple[Note, ...]:
    out = []
    unknown = [p for p in pairs if math.isnan(p.p_value)]
    if unknown:
        names = "; ".join(f"{p.first} and {p.second} by {p.score}" for p in unknown[:4])
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        text = f"no p-value because a score is infinite, not counted in Holm's correction: {names}{more}"
        out.append(Note("infinite-score", text, HOLM))
    if most / (1 + draws) > 1.0 - level:
        text = f"{draws} random sign flips are too few for {most} pairs: hardly any can be significant after correction"
        out.append(
            Note("too-few-flips", f"{text} (Holm); use --resamples {math.ceil(2.0 * most / (1.0 - level))}", HOLM)
        )
    return tuple(out)


def _ranked(
    score: str,
    models: Mapping[str, np.ndarray],
    values: np.ndarray,
    tied: np.ndarray,
    means: np.ndarray,
    weights: np.ndarray | None,
    units: np.ndarray | None,
    level: float,
) -> tuple[Ranked, ...]:
    """The ranking by a score from values (M,) and resampled means (B, M); intervals are Wilson or studentised.

    tied: the values with those of tied models made equal.
    """
    sign = 1.0 if better_when_higher(score) else -1.0
    good = sign * np.where(np.isfinite(values), means, values)
    good[np.isnan(good)] = -math.inf
    ranks = _ranks(good)
    first = ranks == 1
    best = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    tail = (1.0 - level) / 2.0
    ends = np.quantile(ranks, [tail, 1.0 - tail], axis=0, method="inverted_cdf").astype(int)
    own = sign * tied
    rank = _ranks(np.where(np.isnan(own), -math.inf, own)[None])[0]
    names, out = list(models), []
    for k in np.argsort(rank, kind="stable"):
        s, moments = models[names[k]], Moments()
        moments.add(s, weights, units)
        if score == with_role("hit_rate")[0] and ((s == 0.0) | (s == 1.0)).all():
            interval = wilson(moments.mean(), moments.effective_n(level), level)
        else:
            error, skewness, n = moments.error_and_skewness()
            interval = studentised(moments.mean(), error, skewness, n, level)
            if score in CALIBRATED:  # scores of rows are on one side of 0, and so is their mean
                least, most = -math.inf if (s <= 0.0).all() else 0.0, math.inf if (s >= 0.0).all() else 0.0
                interval = replace(interval, low=max(interval.low, least), high=min(interval.high, most))
        out.append(
            Ranked(
                names[k], int(rank[k]), float(values[k]), interval.low, interval.high,
                int(ends[0, k]), int(ends[1, k]), float(best[k]),
            )
        )  # fmt: skip
    return tuple(out)


def _identical(
    columns: Mapping[tuple[str, str], np.ndarray], values: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], tuple[str, str]]:
    """For each column the first one of the same score whose rows are equal up to rounding, which may be itself.

    Rounding is relative to the scores of the row, and to those that nine in ten rows do not exceed.
    """
    same: dict[tuple[str, str], tuple[str, str]] = {}
    first: dict[str, list[tuple[tuple[str, str], float]]] = {}
    for key, s in columns.items():
        same[key] = key
        if not math.isfinite(values[key]):
            continue
        floor = IDENTICAL * float(np.quantile(np.abs(s), 0.9)) + FITTED * (key[0] in CALIBRATED)
        mean = float(np.abs(s).mean())
        for other, size in first.setdefault(key[0], []):
            if abs(values[key] - values[other]) > IDENTICAL * (mean + size) + floor:
                continue
            t = columns[other]
            if (np.abs(s - t) <= IDENTICAL * (np.abs(s) + np.abs(t)) + floor).all():
                same[key] = other
                break
        else:
            first[key[0]].append((key, mean))
    return same


def snapped(values: np.ndarray) -> np.ndarray:
    """Values (M,) in which those that differ by rounding are equal."""
    out, finite = values.copy(), np.flatnonzero(np.isfinite(values))
    order = finite[np.argsort(values[finite], kind="stable")]
    room = TIED * float(np.abs(values[finite]).max(initial=0.0))
    for before, k in pairwise(order):
        if values[k] - out[before] <= room:
            out[k] = out[before]
    return out


def _ranks(good: np.ndarray) -> np.ndarray:
    """(B, M) ranks from 1, the largest first; ties share the smaller rank."""
    return np.stack([1 + (good > good[:, [k]]).sum(axis=1) for k in range(good.shape[1])], axis=1)


def _checked(
    rows: Rows, weights: np.ndarray | None, units: np.ndarray | None
) -> tuple[dict[str, dict[str, np.ndarray]], np.ndarray | None, np.ndarray | None]:
    """The scores, weights and unit numbers 0 … U − 1 (None if rows are independent) of rows with positive weight."""
    checked: dict[str, dict[str, np.ndarray]] = {score: {} for score in rows}
    for score, models in rows.items():
        for model, s in models.items():
            s = np.asarray(s, np.float64)
            name = f"{score} of {model}"
            if s.ndim != 1:
                raise ShapeError(name, expected="one score per row, (N,)", got=f"shape {s.shape}", hint="give a vector")
            if np.isnan(s).any():
                got = f"NaN in row {int(np.flatnonzero(np.isnan(s))[0])}"
                raise ValuesError(name, expected="a score of every row", got=got, hint="drop such rows for all models")
            checked[score][model] = s
    sizes = {len(s) for models in checked.values() for s in models.values()}
    if len(sizes) != 1 or sizes == {0}:
        got = "none" if sizes <= {0} else f"{', '.join(map(str, sorted(sizes)))} rows"
        expected = "the same rows of every model, at least one"
        raise ShapeError("comparison", expected=expected, got=got, hint="match the rows of the models")
    (n,) = sizes
    if weights is not None:
        weights = np.asarray(weights, np.float64)
        if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            expected = f"{n} finite weights of at least 0, not all 0"
            raise ValuesError("weights", expected=expected, got=f"shape {weights.shape}", hint="give one per row")
    if units is not None:
        units = np.asarray(units)
        if units.shape != (n,) or units.dtype.kind not in "iu":
            expected, got = f"the integer code of the unit of each of {n} rows", f"{units.dtype} of shape {units.shape}"
            raise UsageError("units", expected=expected, got=got, hint="encode them with np.unique")
    if weights is not None and not weights.all():
        keep = weights > 0
        checked = {score: {model: s[keep] for model, s in models.items()} for score, models in checked.items()}
        weights, units = weights[keep], None if units is None else units[keep]
    if units is not None:
        units = np.unique(units, return_inverse=True)[1].ravel()
    return checked, weights, units


@dataclass(frozen=True)
class Difference:
    """D, its standard error and its interval; NaN if units show no spread."""

    value: float
    low: float
    high: float
    p_value: float
    error: float

    @property
    def detectable(self) -> float:
        """The difference that a two-sided test at the 5% level detects with 80% power."""
        return (normal_quantile(0.95) + normal_quantile(2 * POWER - 1)) * self.error


def _bootstrap(
    a: np.ndarray, mass: np.ndarray, pairs: list[tuple[int, int]], *, level: float, resamples: int, seed: int,
    threads: int | None,
) -> tuple[np.ndarray, list[Difference]]:  # fmt: skip
    """Resampled means of columns a (K, U) with masses (U,), and the differences of pairs (i, j) of columns.

    Means are (B', K) for the replicates that drew some unit; if none did, the means themselves.
    """
    means, differences = np.empty((0, len(a))), []
    for start in range(0, max(len(pairs), 1), TOGETHER):
        some, models = pairs[start : start + TOGETHER], len(a) if start == 0 else 0
        columns = _Columns(a, mass, some, models)
        sums = poisson_sums(columns.fill, len(mass), columns.width, replicates=resamples, seed=seed, threads=threads)
        sums = sums[sums[:, 1] > 0.0]
        if models:
            means = sums[:, 3 : 3 + models] / sums[:, [1]] if len(sums) else a.sum(axis=1)[None] / mass.sum()
        differences += [columns.difference(k, sums, level) for k in range(len(some))]
    return means, differences


class _Columns:
    """The sums of a replicate: Σv, Σvm, Σvm²; Σva of models; Σve, Σve² and, for unequal masses, Σvem of pairs."""

    def __init__(self, a: np.ndarray, mass: np.ndarray, pairs: list[tuple[int, int]], models: int) -> None:
        self.a, self.mass, self.pairs, self.models = a, mass, pairs, models
        self.total = float(mass.sum())
        self.equal = bool((mass == mass[0]).all())
        self.values = [float((a[i] - a[j]).sum()) / self.total for i, j in pairs]
        self.each = 2 if self.equal else 3
        self.width = 3 + models + self.each * len(pairs)

    def residual(self, k: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """The residuals e_u of a pair."""
        (i, j), at = self.pairs[k], slice(start, stop)
        return self.a[i, at] - self.a[j, at] - self.values[k] * self.mass[at]

    def fill(self, start: int, stop: int, block: np.ndarray) -> None:
        """The columns of units start … stop."""
        mass = self.mass[start:stop]
        block[:, 0], block[:, 1], block[:, 2] = 1.0, mass, mass * mass
        block[:, 3 : 3 + self.models] = self.a[: self.models, start:stop].T
        with np.errstate(over="ignore"):
            for k in range(len(self.pairs)):
                e, at = self.residual(k, start, stop), 3 + self.models + self.each * k
                block[:, at], block[:, at + 1] = e, e * e
                if not self.equal:
                    block[:, at + 2] = e * mass

    def difference(self, k: int, sums: np.ndarray, level: float) -> Difference:
        """The interval of a pair from the sums of the replicates; quantile and p-value are at least Student's."""
        from scipy.special import stdtr

        (i, j), n, value = self.pairs[k], len(self.mass), self.values[k]
        differ = int((self.a[i] != self.a[j]).sum())
        if differ == 0:
            return Difference(0.0, math.nan, math.nan, 1.0, math.nan)
        error = math.nan  # of one unit; 0 if residuals are rounding errors
        if n > 1:
            with np.errstate(over="ignore"):
                spread = float((self.residual(k) ** 2).sum())
                scale = max(float(np.abs(self.a[i]).max()), float(np.abs(self.a[j]).max()))
                rounding = n * (ROUNDING * scale) ** 2
            error = 0.0 if spread <= rounding else math.sqrt(spread * n / (n - 1)) / self.total
        if not (error > 0.0 and math.isfinite(error)):
            return Difference(value, math.nan, math.nan, math.nan, math.nan)
        at = 3 + self.models + self.each * k
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            deviation = sums[:, at] / sums[:, 1]  # D* − D
            cross = deviation * sums[:, 2] if self.equal else sums[:, at + 2]
            squares = sums[:, at + 1] - 2.0 * deviation * cross + deviation * deviation * sums[:, 2]
            drawn = sums[:, 0]
            variance = np.maximum(squares, 0.0) / sums[:, 1] ** 2 * drawn / np.maximum(drawn - 1.0, 1.0)
            t = np.abs(deviation) / np.sqrt(variance + error**2 / differ)
        t = t[~np.isnan(t)]
        wide = error * math.sqrt(1.0 + 1.0 / differ)
        observed, degrees = abs(value) / wide, min(differ, n - 1)
        rank = math.ceil((1.0 - level) * (1 + len(t)) * (1.0 - 1e-12)) - 1
        quantile = math.inf if rank < 1 else float(np.partition(t, len(t) - rank)[len(t) - rank])
        p_value = (1 + int((t >= observed * (1.0 - 1e-12)).sum())) / (1 + len(t))
        half = max(quantile, t_quantile(level, degrees)) * wide
        low, high = (value - half, value + half) if math.isfinite(half) else (math.nan, math.nan)
        return Difference(value, low, high, max(p_value, float(2.0 * stdtr(degrees, -observed))), error)
