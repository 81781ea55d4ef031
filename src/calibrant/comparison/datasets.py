"""Comparisons of the same models on many data sets, summarised as a comparison of its own.

Two separate questions. *On these data sets*: the mean difference of two models, with an interval in which the data
sets are fixed and their rows random: the standard errors of the data sets add up as se² = Σse_k²/K², with the degrees
of freedom of Welch and Satterthwaite. *On other data sets like these*: the data sets are the sample, and each counts
once, by its rank: Wilcoxon's signed-rank test of two models and Friedman's test of all of them (Demšar 2006). Both use
mid-ranks for ties. Wilcoxon's distribution is exact; data sets without a difference keep their ranks and count for
neither model (Pratt 1959).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from calibrant.comparison.ensemble_equivalent import mean_equivalents
from calibrant.comparison.sign_flip_test import holm
from calibrant.errors import UsageError, show
from calibrant.intervals import mid_ranks, normal_quantile
from calibrant.predictions.base import Note
from calibrant.results.comparison import (
    Comparison,
    DatasetsSummary,
    ModelSummary,
    Pair,
    PairSummary,
    Ranked,
    better_when_higher,
)

FEWEST_WILCOXON = 6
"""The smallest number of data sets for which the signed-rank test can be significant: 2/2⁵ > 0.05."""
FEWEST_FRIEDMAN = 5
FEWEST_MODELS = 3


def over_datasets(comparisons: Mapping[str, Comparison]) -> Comparison:
    """The summary over data sets as a comparison that contains theirs."""
    first = next(iter(comparisons.values()))
    ranked = summary(comparisons, first.rank_by)
    ranking = []
    for item in ranked.models:
        rank = 1 + sum(other.mean_rank < item.mean_rank for other in ranked.models)
        ends = math.floor(item.best_rank), math.ceil(item.worst_rank)
        share_best = item.best / len(comparisons)
        ranking.append(Ranked(item.model, rank, item.mean_value, math.nan, math.nan, *ends, share_best))
    rows = sum(next((pair.n for pair in item.pairs), 0) for item in comparisons.values())
    pairs = []
    for score in (score for score in first.ranks if all(score in item.ranks for item in comparisons.values())):
        by_score = summary(comparisons, score).pairs
        corrected = holm(np.array([pair.p_value for pair in by_score]))
        for p, p_holm in zip(by_score, corrected, strict=True):  # both p-values are those of the t test
            numbers = p.difference, p.low, p.high, p.level, p.p_value, p.p_value, float(p_holm), rows
            pairs.append(Pair(score, p.first, p.second, *numbers))
    curves = [item.equivalent_curves for item in comparisons.values()]
    return Comparison(
        rank_by=first.rank_by,
        ranking=tuple(ranking),
        pairs=tuple(pairs),
        temperature=first.temperature,
        baseline=first.baseline,
        pool=first.pool,
        datasets=comparisons,
        summary=ranked,
        mean_equivalents={
            name: mean_equivalents(own[name] for own in curves if name in own)
            for name in dict.fromkeys(name for own in curves for name in own)
        },
    )


def left_out_notes(over_all: DatasetsSummary) -> list[Note]:
    """A note for each model that some data sets lack."""
    names = ", ".join(item.model for item in over_all.models)
    return [
        Note("left-out", f"{model} is missing from {', '.join(lacking)}: the summary ranks only {names}")
        for model, lacking in over_all.left_out.items()
    ]


def summary(comparisons: Mapping[str, Comparison], rank_by: str) -> DatasetsSummary:
    """Ranks, differences and tests by one score over data sets, for the models that all data sets have."""
    ranked: dict[str, dict[str, Ranked]] = {}
    for name, comparison in comparisons.items():
        ranking = comparison.ranking if rank_by == comparison.rank_by else comparison.ranks.get(rank_by)
        if ranking is None:
            scores = ", ".join(dict.fromkeys([comparison.rank_by, *comparison.ranks]))
            hint = f"compare by {rank_by} on every data set"
            raise UsageError("rank_by", expected=f"a score of {name}: {scores}", got=show(rank_by), hint=hint)
        ranked[name] = {item.model: item for item in ranking}
    every = dict.fromkeys(model for own in ranked.values() for model in own)
    lacking = {model: tuple(name for name, own in ranked.items() if model not in own) for model in every}
    models = [model for model, names in lacking.items() if not names]
    if not models:
        got = "none" if ranked else "no data sets"
        hint = "use the same model names in every data set"
        raise UsageError("summary", expected="a model that every data set has", got=got, hint=hint)
    # an unknown value, such as an infinite one that was stored and read back, is the worst
    values = np.array([[ranked[name][model].value for model in models] for name in ranked])
    good = values if better_when_higher(rank_by) else -values
    ranks = np.stack([mid_ranks(-row) for row in np.where(np.isnan(good), -math.inf, good)])
    best = (ranks == ranks.min(axis=1, keepdims=True)).sum(axis=0)
    pairs = [
        {
            (pair.first, pair.second): pair
            for pair in comparison.pairs
            if pair.score == rank_by and {pair.first, pair.second} <= set(models)
        }
        for comparison in comparisons.values()
    ]
    summaries = []
    for k, model in enumerate(models):
        # the number of data sets in which it is significantly better than all others; None without all pairs
        own = [[pair for two, pair in by_names.items() if model in two] for by_names in pairs]
        wins = None
        if len(models) > 1 and all(len(some) >= len(models) - 1 for some in own):
            wins = sum(all(pair.better == model for pair in some) for some in own)
        known = [item.equivalents[model] for item in comparisons.values() if model in item.equivalents]
        sides = [item.censored for item in known]
        summaries.append(
            ModelSummary(
                model, float(ranks[:, k].mean()), float(values[:, k].mean()),
                float(ranks[:, k].min()), float(ranks[:, k].max()),
                int(best[k]), wins,
                float(np.mean([item.value for item in known])) if known else math.nan,
                len(known), sum(map(bool, sides)), sides.count("below"),
            )
        )  # fmt: skip
    pair_summaries = []
    for one, two in pairs[0]:  # the pairs that all data sets have, each in the order of the first data set
        found = [own[one, two] if (one, two) in own else own.get((two, one)) for own in pairs]
        same = [pair if pair.first == one else pair.turned() for pair in found if pair is not None]
        pair_summaries += [_pair_summary(same)] if len(same) == len(pairs) else []
    by_rank = tuple(sorted(summaries, key=lambda item: item.mean_rank))
    left_out = {model: names for model, names in lacking.items() if names}
    return DatasetsSummary(rank_by, tuple(comparisons), by_rank, tuple(pair_summaries), friedman(ranks), left_out)


def _pair_summary(pairs: list[Pair]) -> PairSummary:
    """One pair over all data sets; the interval and its p-value are for fixed data sets."""
    from scipy.special import stdtr, stdtrit

    first, second, level = pairs[0].first, pairs[0].second, pairs[0].level
    ahead = np.array([(1.0 if better_when_higher(pairs[0].score) else -1.0) * pair.difference for pair in pairs])
    mean = float(np.mean([pair.difference for pair in pairs]))
    # the standard error of each difference, from `detectable`; 0 for models that agree in every row
    errors = np.array(
        [
            0.0 if pair.difference == 0.0 and pair.p_bootstrap == 1.0 and math.isnan(pair.detectable)
            else pair.detectable / (normal_quantile(0.95) + normal_quantile(0.6))
            for pair in pairs
        ]
    )  # fmt: skip
    variance = float((errors**2).sum())
    low, high, p_value = math.nan, math.nan, 1.0 if mean == 0.0 else math.nan
    if math.isfinite(mean) and variance > 0.0:
        rows = np.array([max(pair.n - 1, 1) for pair in pairs])
        degrees = variance**2 / float((errors**4 / rows).sum())
        error = math.sqrt(variance) / len(pairs)
        half = float(stdtrit(degrees, 0.5 + level / 2)) * error
        low, high, p_value = mean - half, mean + half, float(2.0 * stdtr(degrees, -abs(mean) / error))
    wins, losses = (sum(pair.better == model for pair in pairs) for model in (first, second))
    higher, lower = int((ahead > 0).sum()), int((ahead < 0).sum())
    counts = higher, lower, wins, losses
    return PairSummary(first, second, *counts, mean, low, high, level, p_value, wilcoxon(ahead))


def wilcoxon(differences: np.ndarray) -> float:
    """Exact two-sided p-value of the signed-rank test; NaN for fewer than 6 data sets."""
    if len(differences) < FEWEST_WILCOXON:
        return math.nan
    d = np.where(np.isnan(differences), 0.0, differences)
    twice = np.rint(2.0 * mid_ranks(np.abs(d))).astype(int)
    chosen = twice[d != 0.0]
    total, above = int(chosen.sum()), int(twice[d > 0.0].sum())
    distribution = np.zeros(total + 1)
    distribution[0] = 1.0
    for rank in chosen:
        distribution[rank:] = 0.5 * distribution[rank:] + 0.5 * distribution[:-rank]
        distribution[:rank] *= 0.5
    far = np.abs(2 * np.arange(total + 1) - total) >= abs(2 * above - total)
    return min(1.0, float(distribution[far].sum()))


def friedman(ranks: np.ndarray) -> float:
    """p-value of Friedman's test from ranks (data sets, models), corrected for ties."""
    from scipy.special import chdtrc

    datasets, models = ranks.shape
    if datasets < FEWEST_FRIEDMAN or models < FEWEST_MODELS:
        return math.nan
    apart = ranks - (models + 1) / 2.0
    spread = float((apart**2).sum())
    if spread == 0.0:
        return 1.0
    return float(chdtrc(models - 1, (models - 1) * float((apart.sum(axis=0) ** 2).sum()) / spread))
