"""A comparison over many data sets: every data set counts alike, and the summary stands as a comparison of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from calibrant.comparison.datasets import Summary, summary
from calibrant.comparison.equivalent import mean_equivalents
from calibrant.comparison.flips import holm
from calibrant.comparison.records import MeanEquivalent, Pair, Ranked
from calibrant.comparison.result import Comparison
from calibrant.predictions.base import Note


def over_sets(each: Mapping[str, Comparison]) -> Comparison:
    """The summary over data sets as a comparison, theirs in it."""
    first = next(iter(each.values()))
    found = summary(each, first.rank_by)
    scores = [score for score in first.ranks if all(score in item.ranks for item in each.values())]
    return Comparison(
        rank_by=first.rank_by,
        ranking=_mean_ranks(found, len(each)),
        pairs=tuple(pair for score in scores for pair in _mean_pairs(summary(each, score), each)),
        temperature=first.temperature,
        baseline=first.baseline,
        pool=first.pool,
        datasets=each,
        summary=found,
        mean_equivalents=_mean_curves(each),
    )


def left_out_notes(found: Summary) -> list[Note]:
    """Models that some data sets lack: the summary is without them."""
    names = ", ".join(item.model for item in found.models)
    return [
        Note(
            "left-out", f"{model} is not in {', '.join(lacking)}: the summary is over {names}, ranked among themselves"
        )
        for model, lacking in found.left_out.items()
    ]


def _mean_curves(each: Mapping[str, Comparison]) -> dict[str, tuple[MeanEquivalent, ...]]:
    """Equivalents against the number of members, averaged over the data sets that have them."""
    names = dict.fromkeys(name for item in each.values() for name in item.equivalent_curves)
    return {
        name: mean_equivalents(item.equivalent_curves[name] for item in each.values() if name in item.equivalent_curves)
        for name in names
    }


def _mean_ranks(found: Summary, sets: int) -> tuple[Ranked, ...]:
    """Models by their mean rank; the share of data sets in which a model is the best, its best and worst rank."""
    out = []
    for item in found.models:
        rank = 1 + sum(other.mean_rank < item.mean_rank for other in found.models)
        ends = math.floor(item.best_rank), math.ceil(item.worst_rank)
        out.append(Ranked(item.model, rank, item.mean_value, math.nan, math.nan, *ends, item.best / sets))
    return tuple(out)


def _mean_pairs(found: Summary, each: Mapping[str, Comparison]) -> list[Pair]:
    """Mean differences on these data sets as pairs; both p-values are those of their t."""
    rows = sum(next((pair.n for pair in item.pairs), 0) for item in each.values())
    corrected = holm(np.array([pair.p_value for pair in found.pairs]))
    return [
        Pair(
            found.rank_by, pair.first, pair.second, pair.difference, pair.low, pair.high, pair.level, pair.p_value,
            pair.p_value, float(p_holm), rows,
        )
        for pair, p_holm in zip(found.pairs, corrected, strict=True)
    ]  # fmt: skip
