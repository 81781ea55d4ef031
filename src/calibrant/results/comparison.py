"""A comparison of models on the same rows: ranks, paired differences, deep-ensemble equivalents, CLL curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from calibrant.errors import UsageError, plain, show
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import metrics
from calibrant.results.json import Stored

HOLM = "Holm (1979), Scandinavian Journal of Statistics 6: 65-70"
SHOWN = 12
"""Rows of the table of a curve."""


def better_when_higher(score: str) -> bool:
    """Whether a score is better when it is higher; False for scores of the user's own."""
    name = score.partition("(")[0]
    known = metrics().get(name) or COMPARISON_SCORES.get(name)
    return known is not None and known.direction == "higher"


@dataclass(frozen=True)
class Pair(Stored):
    """The difference of two models on the same rows in one score, with its interval and p-values."""

    score: str
    first: str
    second: str
    difference: float
    """Score of the first minus score of the second."""
    low: float
    high: float
    level: float
    p_value: float
    """Two-sided sign-flip test over rows (or units); for scores at a fitted temperature at least `p_bootstrap`."""
    p_bootstrap: float
    """Two-sided p-value from the bootstrap of the interval."""
    p_holm: float
    """`p_value` corrected for all pairs of this score (Holm 1979)."""
    n: int
    """Rows, or units of dependent rows."""
    detectable: float = math.nan
    """The difference that has 80% power at this n, uncorrected."""

    @property
    def different(self) -> bool:
        """Whether the difference is significant after correction for all pairs of this score.

        The corrected p-value is at most 1 − level, and the interval, if there is one, lies on the same side of 0 as the
        difference. An infinite difference, from a label of probability 0, counts as significant.
        """
        if math.isinf(self.difference):
            return True
        apart = math.isnan(self.low) or (self.low > 0.0 if self.difference > 0.0 else self.high < 0.0)
        return self.p_holm <= 1.0 - self.level + 1e-12 and apart

    @property
    def better(self) -> str | None:
        """The significantly better model, or None."""
        if not self.different or self.difference == 0.0 or math.isnan(self.difference):
            return None
        ahead = (self.difference > 0.0) == better_when_higher(self.score)
        return self.first if ahead else self.second

    @property
    def identical(self) -> bool:
        """Whether the scores of all rows are equal but for rounding."""
        return self.difference == 0.0 and math.isnan(self.low) and self.p_value >= 1.0

    def turned(self) -> Pair:
        """The second minus the first."""
        return replace(
            self, first=self.second, second=self.first, difference=-self.difference, low=-self.high, high=-self.low
        )

    def to_json(self) -> dict[str, Any]:
        """The fields, with the better model."""
        return super().to_json() | {"better": self.better}

    def __str__(self) -> str:
        text = f"{plain(self.first, 60)} − {plain(self.second, 60)} by {self.score}: {_short(self.difference)}"
        text += _ends(self.low, self.high)
        if math.isnan(self.p_holm):
            return text
        p = "< 0.001" if self.p_holm < 0.001 else f"{self.p_holm:.4f}"
        verdict = "not significantly different" if self.better is None else f"{plain(self.better, 60)} is better"
        return f"{text}, p {p} after Holm: {verdict}"

    __repr__ = __str__


@dataclass(frozen=True)
class Ranked(Stored):
    """The rank of a model by one score."""

    model: str
    rank: int
    """1 is best; ties share the smaller rank."""
    value: float
    low: float
    high: float
    rank_low: int
    """The best and the worst rank in the central share of bootstrap replicates."""
    rank_high: int
    best: float
    """Share of bootstrap replicates in which it ranks first."""

    def __str__(self) -> str:
        spread = f" ({self.rank_low}–{self.rank_high})" if self.rank_low != self.rank_high else ""
        best = "" if math.isnan(self.best) else f", best in {self.best:.3f} of bootstrap replicates"
        return f"{self.rank}{spread} {plain(self.model, 60)}: {_short(self.value)}{_ends(self.low, self.high)}{best}"

    __repr__ = __str__


@dataclass(frozen=True)
class Equivalent(Stored):
    """The deep-ensemble equivalent (DEE) of a model: how many members of the pool score as well."""

    members: int
    """Members of the model itself."""
    cll: float
    value: float
    low: float
    high: float
    level: float
    lower: float
    """Where the pool's mean + std reaches the CLL, and where its mean − std does (Ashukha et al., equation 5)."""
    upper: float
    censored: str = ""
    """'below': worse than a single member of the pool; 'above': better than all of them together."""
    low_censored: bool = False
    """The interval extends below 1."""
    high_censored: bool = False
    """The interval extends above the size of the pool."""

    def shown(self) -> tuple[str, str]:
        """The value and its interval as text, < 1 and > K where censored; empty where undefined."""
        sign = {"below": "< ", "above": "> "}.get(self.censored, "")
        value = f"{sign}{self.value:.1f}" if math.isfinite(self.value) else ""
        low, high = f"{'< ' * self.low_censored}{self.low:.1f}", f"{'> ' * self.high_censored}{self.high:.1f}"
        return value, f"{low} to {high}" if math.isfinite(self.low) and math.isfinite(self.high) else ""

    def __str__(self) -> str:
        value, ends = self.shown()
        members = f"{self.members} member{'s' * (self.members != 1)}"
        text = f"{members}: scores as well as {value or 'an undefined number'} of the pool"
        return f"{text} ({ends})" if ends else text

    __repr__ = __str__


@dataclass(frozen=True)
class MeanEquivalent(Stored):
    """The mean over data sets of the equivalent of k members (figure 2 of Ashukha et al. 2020)."""

    members: int
    value: float
    lower: float
    upper: float
    """NaN if it is NaN on any data set."""
    datasets: int
    """Data sets on which the model has so many members."""
    below: int
    """Data sets on which it is censored at 1, and at the size K of the pool."""
    above: int

    def shown(self) -> str:
        """The mean as text; see `mean_shown`."""
        return mean_shown(self.value, self.below, self.above)


def mean_shown(value: float, below: int, above: int) -> str:
    """A mean of equivalents as text: < or > if some are censored below or above; their numbers if both occur."""
    if not math.isfinite(value):
        return ""
    sign = "< " if below and not above else "> " if above and not below else ""
    return f"{sign}{value:.1f}" + (f" ({below} <, {above} >)" if below and above else "")


@dataclass(frozen=True)
class ShiftedCll(Stored):
    """The log-likelihood of one model on the rows of one type and severity of shift."""

    model: str
    shift: str
    severity: float
    n: int
    log_likelihood: float
    """Before temperature scaling."""
    same: float
    """CLL at the temperature cross-fitted on these rows (Ashukha et al. 2020)."""
    clean: float
    """CLL at the temperature of clean rows (Ovadia et al. 2019)."""
    temperature_same: float
    temperature_clean: float


@dataclass(frozen=True, repr=False)
class CllCurve(Stored):
    """Calibrated log-likelihood (CLL) of the first k members, or of k random members, for every k."""

    name: str
    k: tuple[int, ...]
    mean: tuple[float, ...]
    """Over draws of k members."""
    std: tuple[float, ...]
    """Over draws (ddof=1); NaN for one draw."""
    log_likelihood: tuple[float, ...]
    """Before temperature scaling."""
    temperature: tuple[float, ...]
    """Fitted on all rows; the mean over draws."""
    draws: int
    n: int
    repeats: int
    """Repeats of random halves; 0 if temperatures are fitted on clean rows."""
    seed: int
    fitted_on: str = "same"
    """The rows that temperatures are fitted on: same (in halves) or clean."""

    def shown(self) -> tuple[int, ...]:
        """The indices of up to a dozen k, spaced logarithmically, for a table."""
        if len(self.k) <= SHOWN:
            return tuple(range(len(self.k)))
        steps = {round(len(self.k) ** (j / (SHOWN - 1))) for j in range(SHOWN)}
        return tuple(k - 1 for k in sorted(steps | {1, len(self.k)}))

    def __str__(self) -> str:
        how = f"{self.repeats} repeats of two halves" if self.fitted_on == "same" else "T from clean rows"
        which = "members in order" if self.draws == 1 else f"mean of {self.draws} random orders of members"
        spread = self.draws > 1
        lines = [
            f"{plain(self.name, 40)}: calibrated log-likelihood of k members",
            f"{self.n} rows, {which}, {how}, seed {self.seed}",
            f"{'k':>5}{'CLL':>11}{'std' if spread else '':>{10 * spread}}{'before T':>11}{'T':>9}",
        ]
        for i in self.shown():
            std = f"{self.std[i]:10.4f}" if spread else ""
            values = f"{self.log_likelihood[i]:11.4f}{self.temperature[i]:9.4g}"
            lines.append(f"{self.k[i]:5d}{self.mean[i]:11.4f}{std}{values}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"CllCurve({self.name!r}, k=1..{len(self.k)}, n={self.n}, draws={self.draws})"


@dataclass(frozen=True)
class ModelSummary(Stored):
    """One model over all data sets."""

    model: str
    mean_rank: float
    """Among the models that every data set has; ties share their mean rank."""
    mean_value: float
    best_rank: float
    worst_rank: float
    best: int
    """Data sets on which no other model is better."""
    best_beyond_chance: int | None
    """Data sets on which it is significantly better than every other model; None if not all pairs were compared."""
    equivalent: float = math.nan
    """Mean deep-ensemble equivalent, censored ones counted as their bound."""
    equivalents: int = 0
    """Data sets with an equivalent."""
    censored: int = 0
    """How many of these are censored, below 1 or above the size of the pool."""
    below: int = 0
    """How many are below 1; if none is above, the true mean is at most `equivalent`."""


@dataclass(frozen=True)
class PairSummary(Stored):
    """Two models over all data sets."""

    first: str
    second: str
    wins: int
    """Data sets on which the first is better (losses: worse); beyond chance: significantly, after Holm correction."""
    losses: int
    wins_beyond_chance: int
    losses_beyond_chance: int
    difference: float
    """First minus second, the mean over data sets."""
    low: float
    """Interval with the data sets fixed; one on which no row differs adds no variance."""
    high: float
    level: float
    p_value: float
    """Two-sided p-value of no difference on these data sets, from the t statistic of the interval."""
    wilcoxon: float = math.nan
    """Two-sided p-value with data sets as the sample; NaN for fewer than 6."""

    def turned(self) -> PairSummary:
        """The second minus the first."""
        return replace(
            self, first=self.second, second=self.first, wins=self.losses, losses=self.wins,
            wins_beyond_chance=self.losses_beyond_chance, losses_beyond_chance=self.wins_beyond_chance,
            difference=-self.difference, low=-self.high, high=-self.low,
        )  # fmt: skip


@dataclass(frozen=True)
class DatasetsSummary(Stored):
    """The same models on many data sets."""

    rank_by: str
    datasets: tuple[str, ...]
    models: tuple[ModelSummary, ...]
    """The best mean rank first."""
    pairs: tuple[PairSummary, ...]
    friedman: float = math.nan
    """p-value of equal ranks of all models; NaN for fewer than 3 models or 5 data sets."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Models missing from some data sets, and from which."""


@dataclass(frozen=True)
class Comparison(Stored):
    """The comparison of models on the same rows that `compare` adds to an evaluation."""

    JSON_OPTIONAL = ("unstable", "shifted", "datasets", "mean_equivalents", "summary")

    rank_by: str
    ranking: tuple[Ranked, ...]
    """By `rank_by`, the best first."""
    pairs: tuple[Pair, ...]
    """For each score all pairs, or those with the baseline."""
    ranks: Mapping[str, tuple[Ranked, ...]] = field(default_factory=dict)
    """The ranking by every score."""
    temperature: str = "same"
    """The rows that temperatures are fitted on: same (cross-fitted in halves) or clean."""
    splits: Mapping[str, Any] = field(default_factory=dict)
    """The random halves: repeats, seed and sizes."""
    temperatures: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """By model: for each repeat the temperatures fitted on either half."""
    best_temperature: Mapping[str, float] = field(default_factory=dict)
    """By model: fitted on all rows, for information; with clean rows the one that is used."""
    unstable: tuple[str, ...] = ()
    """Models whose temperatures differ too much between the halves to rely on their calibrated log-likelihood."""
    baseline: str | None = None
    pool: str | None = None
    equivalents: Mapping[str, Equivalent] = field(default_factory=dict)
    curves: Mapping[str, CllCurve] = field(default_factory=dict)
    """CLL against the number of members, for models with several; for the pool the mean over draws."""
    equivalent_curves: Mapping[str, tuple[Equivalent, ...]] = field(default_factory=dict)
    """The equivalent of the first k members of a model, k = 1, 2, …"""
    shifted: tuple[ShiftedCll, ...] = ()
    """By model, type and severity of shift."""
    datasets: Mapping[str, Comparison] = field(default_factory=dict)
    """With several data sets, the comparison on each; ranking and pairs are then over all of them."""
    summary: DatasetsSummary | None = None
    mean_equivalents: Mapping[str, tuple[MeanEquivalent, ...]] = field(default_factory=dict)
    """With several data sets, the mean equivalent of the first k members of a model (figure 2)."""

    def pair(self, first: str, second: str, score: str) -> Pair:
        """The difference of two models in a score, first minus second."""
        for pair in self.pairs:
            if pair.score != score:
                continue
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.second, pair.first) == (first, second):
                return pair.turned()
        known = ", ".join(dict.fromkeys(f"{p.first} and {p.second}" for p in self.pairs))
        scores = ", ".join(dict.fromkeys(p.score for p in self.pairs))
        raise UsageError(
            "comparison",
            expected=f"two compared models ({known}) and a score ({scores})",
            got=f"{show(first)}, {show(second)} and {show(score)}",
            hint="use the names given to compare",
        )

    def to_json(self) -> dict[str, Any]:
        """`ranking` and `pairs`, and the rest under `comparison`."""
        rest = super().to_json()
        return {"ranking": rest.pop("ranking"), "pairs": rest.pop("pairs"), "comparison": rest}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Comparison:
        """The comparison from the JSON of an evaluation."""
        return super().from_json({**data["comparison"], "ranking": data["ranking"], "pairs": data["pairs"]})

    def __str__(self) -> str:
        over = f", over {len(self.datasets)} data sets" if self.datasets else ""
        return "\n".join([f"Ranked by {self.rank_by}{over}", *map(str, self.ranking)])

    def __repr__(self) -> str:
        return f"Comparison(rank_by={self.rank_by!r}, models={[item.model for item in self.ranking]})"


def _short(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4f}" if value == 0.0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


def _ends(low: float, high: float) -> str:
    return f" ({_short(low)} to {_short(high)})" if math.isfinite(low) or math.isfinite(high) else ""
