"""A summary of comparisons of the same models on many data sets.

Two questions, kept apart. *On these data sets*: the mean difference of two models, with an interval in which the data
sets are fixed and their rows random: the standard errors of the data sets add up as se² = Σse_k²/K², with the degrees
of freedom of Welch and Satterthwaite. *On others like them*: the data sets are the sample, and each counts once, by its
rank: Wilcoxon's signed-rank test of two models and Friedman's test of all of them (Demšar 2006). Both count equal
ranks by their mean. Wilcoxon's law is computed, not approximated; data sets without a difference keep their ranks and
give them to neither model (Pratt 1959).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.comparison.records import Equivalent, Pair, Ranked, Record, better_when_higher
from calibrant.errors import UsageError, show
from calibrant.intervals import mid_ranks, normal_quantile

if TYPE_CHECKING:
    from calibrant.comparison.result import Comparison

FEWEST_WILCOXON = 6
"""Data sets from which the signed-rank test can fall below 0.05 at all: 2/2⁵ is more."""
FEWEST_FRIEDMAN = 5
FEWEST_MODELS = 3


@dataclass(frozen=True)
class ModelSummary(Record):
    """One model over all data sets."""

    model: str
    mean_rank: float
    """Among the models that every data set has; equal values share the mean of their ranks."""
    mean_value: float
    best_rank: float
    worst_rank: float
    best: int
    """Data sets in which no other model is better."""
    best_beyond_chance: int | None
    """Data sets in which it beats every other model beyond chance; None where not all pairs were compared."""
    equivalent: float = math.nan
    """Mean deep-ensemble equivalent, censored ones at their end."""
    equivalents: int = 0
    """Data sets that have one."""
    censored: int = 0
    """How many of these lie below 1 or above the size of the pool."""
    below: int = 0
    """Those below 1: where there are some and none above, the mean is at most the one that is given."""


@dataclass(frozen=True)
class PairSummary(Record):
    """Two models over all data sets."""

    first: str
    second: str
    wins: int
    """Data sets in which the first is better, and is worse; beyond chance: all pairs of a data set considered."""
    losses: int
    wins_beyond_chance: int
    losses_beyond_chance: int
    difference: float
    """The first less the second, the mean over data sets."""
    low: float
    """The interval of data sets that are fixed; data sets in which no row differs add nothing to it."""
    high: float
    level: float
    p_value: float
    """Two-sided, of no difference on these data sets; by the t that the interval is from."""
    wilcoxon: float = math.nan
    """Two-sided p-value with data sets as the sample; NaN of fewer than 6."""


@dataclass(frozen=True)
class Summary:
    """The same models on many data sets."""

    rank_by: str
    datasets: tuple[str, ...]
    models: tuple[ModelSummary, ...]
    """The best mean rank first."""
    pairs: tuple[PairSummary, ...]
    friedman: float = math.nan
    """p-value of equal ranks of all models; NaN of fewer than 3 models or 5 data sets."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Models that some data sets lack, and which."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "rank_by": self.rank_by,
            "datasets": list(self.datasets),
            "models": [item.to_json() for item in self.models],
            "pairs": [item.to_json() for item in self.pairs],
            "friedman": self.friedman if math.isfinite(self.friedman) else None,
            "left_out": {name: list(lacking) for name, lacking in self.left_out.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Summary:
        """What `to_json` wrote."""
        return cls(
            data["rank_by"],
            tuple(data["datasets"]),
            tuple(ModelSummary.from_json(item) for item in data["models"]),
            tuple(PairSummary.from_json(item) for item in data["pairs"]),
            math.nan if data["friedman"] is None else data["friedman"],
            {name: tuple(lacking) for name, lacking in data["left_out"].items()},
        )


def summary(comparisons: Mapping[str, Comparison], rank_by: str) -> Summary:
    """Ranks, differences and tests by one score over data sets; only models that all of them have count.

    A value that is not known, as an infinite one that was stored and read back, is the worst.
    """
    ranked = {name: _ranked(name, comparison, rank_by) for name, comparison in comparisons.items()}
    models, left_out = _common(ranked)
    values = np.array([[ranked[name][model].value for model in models] for name in ranked])
    good = values if better_when_higher(rank_by) else -values
    ranks = np.stack([mid_ranks(-row) for row in np.where(np.isnan(good), -math.inf, good)])
    pairs = {name: _pairs(comparison, rank_by, models) for name, comparison in comparisons.items()}
    first = (ranks == ranks.min(axis=1, keepdims=True)).sum(axis=0)
    found = []
    for k, model in enumerate(models):
        beyond = _beyond_chance(model, pairs, len(models))
        known = [item.equivalents[model] for item in comparisons.values() if model in item.equivalents]
        rank, value = float(ranks[:, k].mean()), float(values[:, k].mean())
        low, high = float(ranks[:, k].min()), float(ranks[:, k].max())
        found.append(ModelSummary(model, rank, value, low, high, int(first[k]), beyond, *_equivalents(known)))
    return Summary(
        rank_by,
        tuple(comparisons),
        tuple(sorted(found, key=lambda item: item.mean_rank)),
        tuple(_pair(some) for some in _aligned(list(pairs.values()))),
        friedman(ranks),
        left_out,
    )


def _ranked(name: str, comparison: Comparison, rank_by: str) -> dict[str, Ranked]:
    ranking = comparison.ranking if rank_by == comparison.rank_by else comparison.ranks.get(rank_by)
    if ranking is None:
        said = f"a score of {name}: {', '.join(dict.fromkeys([comparison.rank_by, *comparison.ranks]))}"
        raise UsageError("rank_by", expected=said, came=f"got {show(rank_by)}", do="compare by it on every data set")
    return {item.model: item for item in ranking}


def _common(ranked: Mapping[str, Mapping[str, Ranked]]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Models of all data sets, in the order of the first, and what the others lack."""
    every = dict.fromkeys(model for known in ranked.values() for model in known)
    lacking = {model: tuple(name for name, known in ranked.items() if model not in known) for model in every}
    models = [model for model, names in lacking.items() if not names]
    if not models:
        came = "there is none" if ranked else "there are no data sets"
        raise UsageError("summary", expected="a model that every data set has", came=came, do="name models alike")
    return models, {model: names for model, names in lacking.items() if names}


def _pairs(comparison: Comparison, rank_by: str, models: list[str]) -> dict[tuple[str, str], Pair]:
    """The pairs of these models."""
    some = [pair for pair in comparison.pairs if pair.score == rank_by]
    return {(pair.first, pair.second): pair for pair in some if {pair.first, pair.second} <= set(models)}


def _aligned(pairs: list[dict[tuple[str, str], Pair]]) -> list[list[Pair]]:
    """The pairs that all data sets have, each turned as the first data set has it."""
    out = []
    for one, two in pairs[0]:
        found = [known[one, two] if (one, two) in known else known.get((two, one)) for known in pairs]
        same = [pair if pair.first == one else pair.turned() for pair in found if pair is not None]
        out += [same] if len(same) == len(pairs) else []
    return out


# ------------------------------------------------------------------------------------------- one model
def _beyond_chance(model: str, pairs: Mapping[str, Mapping[tuple[str, str], Pair]], models: int) -> int | None:
    """In how many data sets it beats every other; None where it did not meet all of them."""
    own = [[pair for two, pair in known.items() if model in two] for known in pairs.values()]
    if models < 2 or any(len(some) < models - 1 for some in own):
        return None
    return sum(all(pair.better == model for pair in some) for some in own)


def _equivalents(known: list[Equivalent]) -> tuple[float, int, int, int]:
    """The mean, how many there are, how many are censored, and how many of these are below."""
    if not known:
        return math.nan, 0, 0, 0
    sides = [item.censored for item in known]
    return float(np.mean([item.value for item in known])), len(known), sum(map(bool, sides)), sides.count("below")


# ------------------------------------------------------------------------------------------- one pair
def _pair(known: list[Pair]) -> PairSummary:
    """One pair of all data sets."""
    first, second, level = known[0].first, known[0].second, known[0].level
    sign = 1.0 if better_when_higher(known[0].score) else -1.0
    ahead = np.array([sign * pair.difference for pair in known])
    low, high, p_value = _fixed(known, level)
    return PairSummary(
        first,
        second,
        int((ahead > 0).sum()),
        int((ahead < 0).sum()),
        sum(pair.better == first for pair in known),
        sum(pair.better == second for pair in known),
        float(np.mean([pair.difference for pair in known])),
        low,
        high,
        level,
        p_value,
        wilcoxon(ahead),
    )


def _fixed(known: list[Pair], level: float) -> tuple[float, float, float]:
    """Both ends of the mean difference and its p-value, data sets fixed."""
    from scipy.special import stdtr, stdtrit

    errors = np.array([_error(pair) for pair in known])
    mean, variance = float(np.mean([pair.difference for pair in known])), float((errors**2).sum())
    if not math.isfinite(mean) or not variance > 0.0:
        return math.nan, math.nan, 1.0 if mean == 0.0 else math.nan
    rows = np.array([max(pair.n - 1, 1) for pair in known])
    degrees = variance**2 / float((errors**4 / rows).sum())
    error = math.sqrt(variance) / len(known)
    half = float(stdtrit(degrees, 0.5 + level / 2)) * error
    return mean - half, mean + half, float(2.0 * stdtr(degrees, -abs(mean) / error))


def _error(pair: Pair) -> float:
    """The standard error that `detectable` is a multiple of; 0 of models that agree in every row."""
    if pair.difference == 0.0 and pair.p_bootstrap == 1.0 and math.isnan(pair.detectable):
        return 0.0
    return pair.detectable / (normal_quantile(0.95) + normal_quantile(0.6))


# ------------------------------------------------------------------------------- data sets as the sample
def wilcoxon(differences: np.ndarray) -> float:
    """Two-sided p-value of the signed-rank test, from the law of all flips of signs; NaN of fewer than 6."""
    if len(differences) < FEWEST_WILCOXON:
        return math.nan
    d = np.where(np.isnan(differences), 0.0, differences)
    twice = np.rint(2.0 * mid_ranks(np.abs(d))).astype(int)
    chosen = twice[d != 0.0]
    total, above = int(chosen.sum()), int(twice[d > 0.0].sum())
    law = np.zeros(total + 1)
    law[0] = 1.0
    for rank in chosen:
        law[rank:] = 0.5 * law[rank:] + 0.5 * law[:-rank]
        law[:rank] *= 0.5
    far = np.abs(2 * np.arange(total + 1) - total) >= abs(2 * above - total)
    return min(1.0, float(law[far].sum()))


def friedman(ranks: np.ndarray) -> float:
    """p-value of Friedman's test from the ranks (data sets, models), corrected for equal ones."""
    from scipy.special import chdtrc

    datasets, models = ranks.shape
    if datasets < FEWEST_FRIEDMAN or models < FEWEST_MODELS:
        return math.nan
    apart = ranks - (models + 1) / 2.0
    spread = float((apart**2).sum())
    if spread == 0.0:
        return 1.0
    return float(chdtrc(models - 1, (models - 1) * float((apart.sum(axis=0) ** 2).sum()) / spread))
