"""Models side by side: paired differences, likelihood before and after temperature, probability of being best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from calibrant.comparison.records import Pair, Ranked
from calibrant.comparison.result import Comparison
from calibrant.evaluation.comparison_tables import shown_pairs
from calibrant.evaluation.comparison_words import p_value
from calibrant.reporting.document import Columns, Figure
from calibrant.reporting.naming import short
from calibrant.reporting.sections.comparison_scopes import (
    by_scope,
    called,
    controls,
    model_numbers,
    scopes,
    scored,
)
from calibrant.reporting.sections.naming import first_of, numbered
from calibrant.reporting.sections.row_charts import (
    AFTER,
    BEFORE,
    SURE,
    UNSURE,
    dumbbell_chart,
    pairs_chart,
    shares_chart,
)

MOST_ROWS = 30
FEWEST_BEST, LEAST_BEST = 3, 0.0005
"""Models that are shown with their probability of being best whatever it is, and what others need."""
PAIRS = (
    "Each row is the score of the first model less that of the second, on the same rows, with its interval. Filled "
    "diamonds: different beyond chance, all pairs of this score considered (Holm). Open circles: these rows do not "
    "tell them apart. Intervals of single models must not be read against each other; these may."
)
PAIR_HEADS = {
    "label": "first − second", "value": "difference", "low": "from", "high": "to", "p": "p (Holm)",
    "verdict": "beyond chance?", "said": "better",
}  # fmt: skip
STATES = (
    "Rings: negative log-likelihood as it comes. Squares: at the temperature fitted on {rows}. "
    "Left is better. A long line is a model whose temperature was poor; where lines cross, likelihood alone misleads."
)
FITTED = {"same": "the other half of the rows", "clean": "clean rows"}
BEST = "In how many of the resampled test sets each model is the best: what other rows of this kind might have said."


# ------------------------------------------------------------------------------------------ differences
def pairs(comparison: Comparison) -> Figure | None:
    """Paired differences with intervals, about the line of no difference."""
    known = {scope: each for scope, each in scopes(comparison, together=True).items() if each.pairs}
    scores = scored(known, lambda each: list(dict.fromkeys(pair.score for pair in each.pairs)))
    if not scores:
        return None
    numbers = model_numbers(comparison)
    most = max(len(_shown(each, score)) for each in known.values() for score in scores)
    every = max(sum(pair.score == score for pair in each.pairs) for each in known.values() for score in scores)
    left = f" Of {every} pairs {min(most, MOST_ROWS)} are drawn, those of the best models first."
    return Figure(
        key="pairs",
        title="Paired differences",
        chart=pairs_chart("difference, first less second"),
        data=by_scope(known, called(scores), lambda each, score: _pair_columns(each, score, numbers)),
        heads=PAIR_HEADS,
        said="Differences of scores between models with intervals, about the line of no difference",
        caption=PAIRS + left * (every > min(most, MOST_ROWS)),
        controls=controls(known, "score", called(scores)),
    )


def _shown(comparison: Comparison, score: str) -> list[Pair]:
    """Pairs by a score, in the order of the ranking."""
    return shown_pairs(replace(comparison, rank_by=score))


def _pair_columns(comparison: Comparison, score: str, numbers: Mapping[str, int]) -> Columns:
    rows = _shown(comparison, score)[:MOST_ROWS]
    return {
        "label": [_pair_label(pair, numbers) for pair in rows],
        "value": [pair.difference for pair in rows],
        "low": [pair.low for pair in rows],
        "high": [pair.high for pair in rows],
        "p": [pair.p_holm for pair in rows],
        "verdict": [UNSURE if pair.better is None else SURE for pair in rows],
        "said": [_verdict(pair, numbers) for pair in rows],
    }


def _pair_label(pair: Pair, numbers: Mapping[str, int]) -> str:
    return f"{numbers[pair.first]} {short(pair.first, 28)} − {numbers[pair.second]} {short(pair.second, 28)}"


def _verdict(pair: Pair, numbers: Mapping[str, int]) -> str:
    """Which is better, by its number, or that it is not told."""
    if pair.better is not None:
        return f"{numbers[pair.better]} is better"
    return "not tested" if not p_value(pair.p_holm) else "not told"


# -------------------------------------------------------------------------------------- before and after
def before_after(comparison: Comparison) -> Figure | None:
    """NLL before and after temperature, model by model."""
    known = {scope: each for scope, each in scopes(comparison).items() if {"nll", "cll"} <= set(each.ranks)}
    if not any(_states(each) for each in known.values()):
        return None
    names = numbered(model_numbers(comparison))
    count = max(len(each.ranking) for each in known.values())
    return Figure(
        key="before-after",
        title="Likelihood before and after temperature",
        chart=dumbbell_chart("negative log-likelihood (left is better)"),
        data=by_scope(known, {"": ""}, lambda each, _: _state_columns(each, names)),
        heads={"label": "model", "state": "NLL", "value": "value"},
        said="Negative log-likelihood of every model before and after temperature",
        caption=STATES.format(rows=FITTED.get(comparison.temperature, "other rows"))
        + first_of(MOST_ROWS, count, "models"),
        controls=controls(known, "", {}),
    )


def _states(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """By model, in the order of the ranking: NLL before and after; those for which neither is known are left out."""
    before = {item.model: item.value for item in comparison.ranks["nll"]}
    after = {item.model: -item.value for item in comparison.ranks["cll"]}
    found = {item.model: (before[item.model], after[item.model]) for item in comparison.ranking[:MOST_ROWS]}
    return {name: both for name, both in found.items() if any(map(math.isfinite, both))}


def _state_columns(comparison: Comparison, names: Mapping[str, str]) -> Columns:
    found = _states(comparison)
    return {
        "label": [names[name] for name in found for _ in range(2)],
        "state": [BEFORE, AFTER] * len(found),
        "value": [value for both in found.values() for value in both],
    }


# -------------------------------------------------------------------------------------- probability of best
def probability_of_best(comparison: Comparison) -> Figure | None:
    """The share of resampled test sets in which each model is the best."""
    known = scopes(comparison)
    scores = scored(known, _with_probability)
    if not scores:
        return None
    names = numbered(model_numbers(comparison))
    count = max(len(each.ranking) for each in known.values())
    left = f" Models that are the best in fewer than one of 2000 are left out, and those beyond {MOST_ROWS}."
    return Figure(
        key="best",
        title="Probability of being best",
        chart=shares_chart("probability of being best"),
        data=by_scope(known, called(scores), lambda each, score: _best_columns(each.ranks[score], names)),
        heads={"label": "model", "value": "probability of being best", "rank": "rank", "said": "rank and its range"},
        said="The probability of each model to be the best",
        caption=BEST + left * (count > FEWEST_BEST),
        controls=controls(known, "score", called(scores)),
    )


def _with_probability(comparison: Comparison) -> list[str]:
    known = comparison.ranks.items()
    return [score for score, ranked in known if len(ranked) > 1 and any(math.isfinite(item.best) for item in ranked)]


def _best_columns(ranked: tuple[Ranked, ...], names: Mapping[str, str]) -> Columns:
    rows = [item for k, item in enumerate(ranked) if k < FEWEST_BEST or item.best >= LEAST_BEST][:MOST_ROWS]
    return {
        "label": [names[item.model] for item in rows],
        "value": [item.best for item in rows],
        "rank": [item.rank for item in rows],
        "said": [f"{_share(item.best)} · rank {_range(item)}" for item in rows],
    }


def _share(best: float) -> str:
    return "" if math.isnan(best) else f"{best:.3f}"


def _range(item: Ranked) -> str:
    spread = f" ({item.rank_low}–{item.rank_high})" if item.rank_low != item.rank_high else ""
    return f"{item.rank}{spread}"
