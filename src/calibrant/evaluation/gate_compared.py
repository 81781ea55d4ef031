"""What a comparison says of a condition: one model against another, the best, calibrated scores, equivalents.

*Better* and *worse* are what `Pair.better` says: the p-value corrected for all pairs and the interval of the paired
difference both tell, or the difference is infinite. *Not worse* is non-inferiority: the whole interval of the
difference lies above −margin, where higher is better. What is shown better is therefore also shown not worse.

Of several data sets a bare name of two models means their mean difference over the data sets, as the table has it; a
bare name otherwise means every data set that has the model, and DATASET/MODEL the model on one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from calibrant.comparison.records import Pair, Ranked, better_when_higher
from calibrant.comparison.result import Comparison
from calibrant.errors import UsageError, show
from calibrant.evaluation.gate_grammar import Best, Versus
from calibrant.evaluation.gate_hints import known
from calibrant.evaluation.gate_measured import Finding, Measured
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.wording import number, span

HITS = ("accuracy", "top_k")
"""Scores of rows that are equal of models that are not."""


# ------------------------------------------------------------------------------------------------ data sets
def places(evaluation: Evaluation) -> dict[str, tuple[Comparison, str]]:
    """By the name of an input the comparison that it is in, and what it is called there."""
    comparison = evaluation.comparison
    if comparison is None:
        return {}
    if not comparison.datasets:
        return {model: (comparison, model) for model in _models(comparison)}
    return {f"{name}/{model}": (one, model) for name, one in comparison.datasets.items() for model in _models(one)}


def inputs_called(name: str, evaluation: Evaluation) -> list[str]:
    """The inputs of a model of several data sets, by the name of the model."""
    return [place for place, (_, model) in places(evaluation).items() if model == name]


def rankings(comparison: Comparison) -> dict[str, tuple[Ranked, ...]]:
    """By every score that models were ranked by."""
    return {**comparison.ranks, comparison.rank_by: comparison.ranking}


def _models(comparison: Comparison) -> Iterator[str]:
    names = [item.model for ranked in rankings(comparison).values() for item in ranked]
    yield from dict.fromkeys([*names, *comparison.equivalents])


def _comparison(evaluation: Evaluation) -> Comparison:
    if evaluation.comparison is None:
        do = "make one with calibrant compare"
        raise UsageError("gate", expected="a comparison", came="this evaluation has none", do=do)
    return evaluation.comparison


# ---------------------------------------------------------------------------------------------------- pairs
def versus(condition: Versus, evaluation: Evaluation) -> Finding:
    """One model against another."""
    pair = _pair(condition, evaluation)
    told = _told(pair, condition)
    if math.isnan(pair.difference):
        return Finding(None, told)
    if condition.relation == "not worse":
        return _not_worse(condition, pair, told)
    if _equal(pair):
        return Finding(False, told)
    winner = pair.first if condition.relation == "better" else pair.second
    if pair.better is None:
        return Finding(None, f"{told}: neither is shown to be better")
    return Finding(pair.better == winner, told)


def _not_worse(condition: Versus, pair: Pair, told: str) -> Finding:
    higher = better_when_higher(pair.score)
    measured = Measured.of(pair.score, pair.difference, pair.low, pair.high)
    bound = -condition.margin if higher else condition.margin
    told += f", margin {condition.margin:g}"
    if _equal(pair) or pair.better == pair.first:
        return Finding(True, told)
    shown = measured.shows(">=" if higher else "<=", bound)
    if shown is None and math.isfinite(pair.difference):
        told += f": on both sides of {bound:g}"
    return Finding(shown, told, measured.weak)


def _equal(pair: Pair) -> bool:
    """Whether no row differs, as of the same predictions twice: there is no spread then, and so no interval."""
    same = pair.difference == 0.0 and math.isnan(pair.low) and math.isnan(pair.high) and pair.p_holm >= 1.0
    return same and pair.n > 1 and pair.score.partition("(")[0] not in HITS


def _told(pair: Pair, condition: Versus) -> str:
    what = f"{pair.score} of {condition.first} less that of {condition.second}"
    if math.isnan(pair.difference):
        return f"{what} is undefined, so that nothing can be told"
    if math.isinf(pair.difference):
        return f"{what} {number(pair.difference)}, which decides without an interval or p"
    if _equal(pair):
        return f"{what} {number(pair.difference)} in every row"
    ends = span(pair.low, pair.high)
    interval = f"{100 * pair.level:g} % interval {ends}" if ends else "without an interval"
    return f"{what} {number(pair.difference)}, {interval}, p {number(pair.p_holm)} of all pairs"


def _pair(condition: Versus, evaluation: Evaluation) -> Pair:
    """The pair that is meant, the first less the second."""
    comparison, first, second = _sides(condition, evaluation)
    score = condition.spec or comparison.rank_by
    if first == second:
        do = "name the other one"
        raise UsageError("gate", expected="two models", came=f"got {show(condition.first)} twice", do=do)
    scores = dict.fromkeys(pair.score for pair in comparison.pairs)
    if score not in scores:
        _refuse_unpaired(score, condition.first, comparison, scores)
    for pair in comparison.pairs:
        if pair.score == score and {pair.first, pair.second} == {first, second}:
            return pair if pair.first == first else pair.turned()
    do = "leave --baseline out" if comparison.baseline is not None else "compare them"
    came = f"{show(condition.first)} and {show(condition.second)} were not"
    raise UsageError("gate", expected=f"two models that were compared by {score}", came=came, do=do)


def _sides(condition: Versus, evaluation: Evaluation) -> tuple[Comparison, str, str]:
    """The comparison that both models are in, and their names there."""
    whole = _comparison(evaluation)
    every = places(evaluation)
    plain = dict.fromkeys(model for _, model in every.values())
    names = (condition.first, condition.second)
    for name in names:
        known("a model that was compared", name, {**plain, **every})
    if not whole.datasets or not any(name in every for name in names):
        return whole, *names
    if not all(name in every for name in names) or every[names[0]][0] is not every[names[1]][0]:
        came = f"got {show(names[0])} and {show(names[1])}"
        do = "write DATASET/MODEL for both, or MODEL for both: their mean over data sets"
        raise UsageError("gate", expected="two models of one data set", came=came, do=do)
    return every[names[0]][0], every[names[0]][1], every[names[1]][1]


def _refuse_unpaired(score: str, first: str, comparison: Comparison, scores: Mapping[str, Any]) -> None:
    ranked = rankings(comparison) | {key: () for one in comparison.datasets.values() for key in one.ranks}
    if score in ranked or score == "dee":
        came = f"{score} has no paired differences: it is no mean over rows"
        do = f"gate its value, as in '{first}: {score} < 0.05'" if score != "dee" else f"write '{first}: dee > 2'"
        raise UsageError("gate", expected="a score that pairs were compared by", came=came, do=do)
    known("a score that was compared", score, scores)


# ---------------------------------------------------------------------------------------------------- ranks
def best(condition: Best, evaluation: Evaluation) -> list[Finding]:
    """Whether a model is the first: of several data sets on each of them."""
    whole = _comparison(evaluation)
    every = places(evaluation)
    names = [condition.model] if condition.model in every else inputs_called(condition.model, evaluation)
    if not names:
        known("a model that was compared", condition.model, {**dict.fromkeys(m for _, m in every.values()), **every})
    return [_best(name, *every[name], condition.spec or whole.rank_by) for name in names]


def _best(name: str, comparison: Comparison, model: str, score: str) -> Finding:
    ranking = known("a score that models were ranked by", score, rankings(comparison))
    item: Ranked = known("a model that was ranked", model, {item.model: item for item in ranking})
    if math.isnan(item.value):
        return Finding(None, f"{score} of {name} is undefined")
    told = f"{name} has rank {item.rank} by {score}"
    if math.isnan(item.best):
        shown = item.rank == 1
        return Finding(shown, f"{told}, the value alone: it has no interval of ranks", weak=True)
    told += f", on resampled rows {item.rank_low} to {item.rank_high}"
    return Finding(True if item.rank_high == 1 else False if item.rank_low > 1 else None, told)
