"""Paired comparison of models by the scores of their rows: differences, intervals, p-values, ranks.

All models meet the same rows, the same resampled units and the same flips of signs, so that whatever makes a row hard
for all of them cancels. Intervals and their p-value are by the symmetric bootstrap-t (`bootstrap`); the p-value that
decides is that of exchangeable models, by flips of signs (`flips`), corrected over the pairs of a score (Holm 1979).
After temperatures that were fitted on the same rows, the rows of two models are exchangeable but for the noise of these
fits, which few rows with heavy tails can show: then the larger of both p-values decides.
Ranks are those of the resampled means: their central share, and how often a model is the best.

Not finite: the difference of two models of which one has an infinite score is infinite, of two such undefined; neither
has an interval or a p-value, and Holm's correction does not count them. Such a model is the worst in every replicate.
Models whose scores agree in every row: difference 0, both p-values 1, no interval, for rows that show no spread say
little of the next. Of one row (or unit) there is no interval either, and flips give p = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from calibrant.comparison.bootstrap import Difference, bootstrap
from calibrant.comparison.flips import by_flips, exact, holm
from calibrant.comparison.records import Pair, Ranked, better_when_higher
from calibrant.comparison.unit_sums import Rows, Table, table_of
from calibrant.errors import UsageError, show
from calibrant.intervals import Interval, studentised, wilson
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import GROUPS
from calibrant.predictions.base import Note
from calibrant.registry.accumulators import Moments

RESAMPLES = 2000
MOST_UNITS = 1 << 16
"""Units that are resampled one by one; beyond it groups of them are."""
HOLM = "Holm (1979), Scandinavian Journal of Statistics 6: 65-70"
FITTED = ("cll", "brier_ts")
"""Scores after a temperature that was fitted on some of the rows."""
MOST_FOR_PAIRS = 10_000
"""Resamples and flips that many pairs get beyond what was asked for, so that Holm's correction can still be passed."""


@dataclass(frozen=True)
class Paired:
    """What the rows say of all pairs of models, and of each model's rank."""

    pairs: tuple[Pair, ...]
    """Score by score: all pairs in the order of models, or each model less the baseline."""
    ranks: dict[str, tuple[Ranked, ...]] = field(default_factory=dict)
    """By score, the best first."""
    notes: tuple[Note, ...] = ()
    """What a reader should know: pairs without a p-value, flips too few for so many pairs."""


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

    rows: score → model → (N,), all of the same rows; whether higher is better is known by the score's name. units:
    (N,) whole numbers; rows of one unit depend on each other, and are resampled and flipped together. baseline: only
    the pairs of each other model with this one.
    """
    level, resamples = _level(level), _resamples(resamples)
    table = table_of(rows, weights, units)
    wanted = {score: _wanted(score, list(models), baseline) for score, models in table.scores.items()}
    values = {key: _mean(table, *key) for key in table.columns}
    place = {key: k for k, key in enumerate(values)}
    finite = [
        (place[score, one], place[score, two])
        for score, pairs in wanted.items()
        for one, two in pairs
        if math.isfinite(values[score, one]) and math.isfinite(values[score, two])
    ]
    most = max(len(pairs) for pairs in wanted.values())
    draws = _draws(most, level, resamples)
    a, mass = _grouped(np.stack([table.sums(*key) for key in place]), table.mass(), seed)
    found = bootstrap(a, mass, finite, level=level, resamples=draws, seed=seed, threads=threads)
    p_values = _flipped(a, finite, draws, seed, threads)
    tested = {two: (d, p) for two, d, p in zip(finite, found.differences, p_values, strict=True)}
    pairs: list[Pair] = []
    ranks = {}
    for score, models in table.scores.items():
        known = {
            (one, two): tested.get(
                (place[score, one], place[score, two]), _nothing(values[score, one], values[score, two])
            )
            for one, two in wanted[score]
        }
        pairs += _pairs(score, known, level, table.terms)
        at = [place[score, model] for model in models]
        ranks[score] = _ranked(score, table, np.array([values[score, m] for m in models]), found.means[:, at], level)
    return Paired(tuple(pairs), ranks, _notes(pairs, most, draws, level))


def _grouped(a: np.ndarray, mass: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The sums (columns, U) and masses (U,) of units, put into random groups where there are very many.

    Groups of independent units are independent too, and may be resampled or have their signs flipped together: the
    variance of a mean stays what it was, known by fewer degrees of freedom, and flips of groups are flips.
    """
    if len(mass) <= MOST_UNITS:
        return a, mass
    group = words(seed, GROUPS, 0, len(mass)) % MOST_UNITS
    return np.stack([np.bincount(group, row, MOST_UNITS) for row in a]), np.bincount(group, mass, MOST_UNITS)


def _level(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
    return float(level)


def _resamples(resamples: int) -> int:
    if isinstance(resamples, bool) or not isinstance(resamples, int | np.integer) or not 1 <= resamples <= 10**7:
        raise UsageError("resamples", expected="a whole number from 1", came=f"got {resamples}", do="2000 is usual")
    return int(resamples)


def _wanted(score: str, models: list[str], baseline: str | None) -> list[tuple[str, str]]:
    if baseline is None:
        return [(one, two) for k, one in enumerate(models) for two in models[k + 1 :]]
    if baseline not in models:
        said = f"one of the models with {score}: {', '.join(models)}"
        raise UsageError("baseline", expected=said, came=f"got {show(baseline)}", do="name it as it was given")
    return [(one, baseline) for one in models if one != baseline]


def _mean(table: Table, score: str, model: str) -> float:
    moments = Moments()
    moments.add(table.scores[score][model], table.weights, None, spread=False)
    return moments.mean()


# -------------------------------------------------------------------------------------------------- pairs
def _draws(pairs: int, level: float, resamples: int) -> int:
    """At least twice as many as the smallest p-value needs to pass the first of Holm's steps."""
    return max(resamples, min(MOST_FOR_PAIRS, math.ceil(2.0 * pairs / (1.0 - level))))


def _flipped(a: np.ndarray, pairs: list[tuple[int, int]], flips: int, seed: int, threads: int | None) -> list[float]:
    known = [exact(a[i] - a[j], flips) for i, j in pairs]
    rest = [pair for pair, p in zip(pairs, known, strict=True) if p is None]
    drawn = iter(by_flips(a, rest, flips=flips, seed=seed, threads=threads))
    return [float(next(drawn)) if p is None else p for p in known]


def _nothing(first: float, second: float) -> tuple[Difference, float]:
    """Of models that are not both finite."""
    return Difference(first - second, math.nan, math.nan, math.nan, math.nan), math.nan


def _pairs(score: str, known: dict[tuple[str, str], tuple[Difference, float]], level: float, n: int) -> list[Pair]:
    p_values = [p if score not in FITTED or math.isnan(d.p_value) else max(p, d.p_value) for d, p in known.values()]
    corrected, out = holm(np.array(p_values)), []
    for ((first, second), (d, _)), p, p_holm in zip(known.items(), p_values, corrected, strict=True):
        out.append(
            Pair(score, first, second, d.value, d.low, d.high, level, p, d.p_value, float(p_holm), n, d.detectable)
        )
    return out


def _notes(pairs: list[Pair], most: int, draws: int, level: float) -> tuple[Note, ...]:
    out = []
    unknown = [p for p in pairs if math.isnan(p.p_value)]
    if unknown:
        names = "; ".join(f"{p.first} and {p.second} by {p.score}" for p in unknown[:4])
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        said = f"no p-value where a score is infinite, and Holm's correction leaves out: {names}{more}"
        out.append(Note("infinite-score", said, HOLM))
    if most / (1 + draws) > 1.0 - level:
        said = f"{draws} random flips are too few for {most} pairs: Holm's correction can hardly be passed"
        out.append(Note("too-few-flips", said, HOLM))
    return tuple(out)


# -------------------------------------------------------------------------------------------------- ranks
def _ranked(score: str, table: Table, values: np.ndarray, means: np.ndarray, level: float) -> tuple[Ranked, ...]:
    """The models of a score from their values (M,) and resampled means (B, M)."""
    sign = 1.0 if better_when_higher(score) else -1.0
    endless = ~np.isfinite(values)
    good = sign * np.where(endless, values, means)
    good[np.isnan(good)] = -math.inf
    ranks = _ranks(good)
    first = ranks == 1
    best = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    tail = (1.0 - level) / 2.0
    ends = np.quantile(ranks, [tail, 1.0 - tail], axis=0, method="inverted_cdf").astype(int)
    own = sign * values
    place = _ranks(np.where(np.isnan(own), -math.inf, own)[None])[0]
    models = list(table.scores[score])
    out = []
    for k in np.argsort(place, kind="stable"):
        found = _interval(score, table, models[k], level)
        near, far = int(ends[0, k]), int(ends[1, k])
        value = float(values[k])
        out.append(Ranked(models[k], int(place[k]), value, found.low, found.high, near, far, float(best[k])))
    return tuple(out)


def _ranks(good: np.ndarray) -> np.ndarray:
    """(B, M) ranks from 1, the largest first; equal ones share the smaller rank."""
    return np.stack([1 + (good > good[:, [k]]).sum(axis=1) for k in range(good.shape[1])], axis=1)


def _interval(score: str, table: Table, model: str, level: float) -> Interval:
    """Of the model's own value: Wilson for accuracy, otherwise studentised with Hall's correction."""
    s, moments = table.scores[score][model], Moments()
    moments.add(s, table.weights, table.units)
    if score == "accuracy" and ((s == 0.0) | (s == 1.0)).all():
        return wilson(moments.mean(), moments.effective_n(level), level)
    error, skewness, n = moments.error_and_skewness()
    return studentised(moments.mean(), error, skewness, n, level)
