"""Paired comparison of models by the scores of their rows: differences, intervals, p-values, ranks.

All models meet the same rows, the same resampled units and the same flips of signs, so that whatever makes a row hard
for all of them cancels. Intervals and their p-value are by the symmetric bootstrap-t (`bootstrap`); the p-value that
decides is that of exchangeable models, by flips of signs (`flips`), corrected over the pairs of a score (Holm 1979).
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
from calibrant.registry.accumulators import Moments

RESAMPLES = 2000
MOST_FLIPS = 20_000
"""Flips beyond `resamples` that many pairs get, so that Holm's correction can still be passed."""


@dataclass(frozen=True)
class Paired:
    """What the rows say of all pairs of models, and of each model's rank."""

    pairs: tuple[Pair, ...]
    """Score by score: all pairs in the order of models, or each model less the baseline."""
    ranks: dict[str, tuple[Ranked, ...]] = field(default_factory=dict)
    """By score, the best first."""
    notes: tuple[str, ...] = ()
    """What a reader should know: pairs without a p-value, flips too few for so many pairs."""


@dataclass(frozen=True)
class _Ask:
    """How, as it was asked for."""

    level: float
    resamples: int
    seed: int
    baseline: str | None
    threads: int | None


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
    ask = _Ask(_level(level), _resamples(resamples), seed, baseline, threads)
    table = table_of(rows, weights, units)
    columns = [(score, model) for score, models in table.scores.items() for model in models]
    wanted = [pair for score in table.scores for pair in _wanted(score, list(table.scores[score]), baseline)]
    place = {key: k for k, key in enumerate(columns)}
    values = [_mean(table, *key) for key in columns]
    a = np.stack([table.sums(*key) for key in columns])
    both = [
        (place[s, one], place[s, two])
        for s, one, two in wanted
        if math.isfinite(values[place[s, one]]) and math.isfinite(values[place[s, two]])
    ]
    found = bootstrap(
        a, table.mass(), both, level=ask.level, resamples=ask.resamples, seed=ask.seed, threads=ask.threads
    )
    p_values = _flipped(a, both, len(table.scores), ask)
    known = {pair: (d, p) for pair, d, p in zip(both, found.differences, p_values, strict=True)}
    pairs: list[Pair] = []
    for score in table.scores:
        some = [(place[s, one], place[s, two], one, two) for s, one, two in wanted if s == score]
        pairs += _pairs(score, some, values, known, ask.level, table.terms)
    ranks = {
        score: _ranked(score, table, np.array([values[place[score, m]] for m in models]),
                       found.means[:, [place[score, m] for m in models]], ask.level)
        for score, models in table.scores.items()
    }  # fmt: skip
    return Paired(tuple(pairs), ranks, _notes(pairs, len(both), len(table.scores), ask))


def _level(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
    return float(level)


def _resamples(resamples: int) -> int:
    if isinstance(resamples, bool) or not isinstance(resamples, int | np.integer) or not 1 <= resamples <= 10**7:
        raise UsageError("resamples", expected="a whole number from 1", came=f"got {resamples}", do="2000 is usual")
    return int(resamples)


def _wanted(score: str, models: list[str], baseline: str | None) -> list[tuple[str, str, str]]:
    if baseline is None:
        return [(score, one, two) for k, one in enumerate(models) for two in models[k + 1 :]]
    if baseline not in models:
        said = f"one of the models with {score}: {', '.join(models)}"
        raise UsageError("baseline", expected=said, came=f"got {show(baseline)}", do="name it as it was given")
    return [(score, one, baseline) for one in models if one != baseline]


def _mean(table: Table, score: str, model: str) -> float:
    moments = Moments()
    moments.add(table.scores[score][model], table.weights, None, spread=False)
    return moments.mean()


# -------------------------------------------------------------------------------------------------- pairs
def _flips(pairs: int, scores: int, ask: _Ask) -> int:
    """At least twice as many as the smallest p-value must have, for the first of Holm's steps to be passed."""
    return max(ask.resamples, min(MOST_FLIPS, math.ceil(2.0 * pairs / scores / (1.0 - ask.level))))


def _flipped(a: np.ndarray, pairs: list[tuple[int, int]], scores: int, ask: _Ask) -> list[float]:
    known = [exact(a[i] - a[j], ask.resamples) for i, j in pairs]
    rest = [pair for pair, p in zip(pairs, known, strict=True) if p is None]
    drawn = iter(by_flips(a, rest, flips=_flips(len(pairs), scores, ask), seed=ask.seed, threads=ask.threads))
    return [float(next(drawn)) if p is None else p for p in known]


def _pairs(
    score: str,
    wanted: list[tuple[int, int, str, str]],
    values: list[float],
    known: dict[tuple[int, int], tuple[Difference, float]],
    level: float,
    n: int,
) -> list[Pair]:
    nothing = Difference(math.nan, math.nan, math.nan, math.nan, math.nan), math.nan
    found = [known.get((i, j), nothing) for i, j, _, _ in wanted]
    corrected = holm(np.array([p for _, p in found]))
    out = []
    for (i, j, one, two), (d, p), p_holm in zip(wanted, found, corrected, strict=True):
        value = d.value if (i, j) in known else values[i] - values[j]
        ends = (d.low, d.high, level, p, d.p_value, float(p_holm), n, d.detectable)
        out.append(Pair(score, one, two, value, *ends))
    return out


def _notes(pairs: list[Pair], finite: int, scores: int, ask: _Ask) -> tuple[str, ...]:
    out = []
    unknown = [p for p in pairs if math.isnan(p.p_value)]
    if unknown:
        names = "; ".join(f"{p.first} and {p.second} by {p.score}" for p in unknown[:4])
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        out.append(f"no p-value where a score is infinite, and Holm's correction leaves out: {names}{more}")
    flips = _flips(finite, scores, ask)
    if finite / scores / (1 + flips) > 1.0 - ask.level:
        out.append(f"{flips} random flips are too few for {finite // scores} pairs: Holm's correction cannot be passed")
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
