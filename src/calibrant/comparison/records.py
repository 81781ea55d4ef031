"""What a comparison is made of, as plain records that are stored and read back: scores, pairs, ranks, equivalents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from calibrant.errors import plain
from calibrant.registry.estimate import NOT_FINITE

SHOWN = 12
"""Rows of the table of a curve."""
UNDEFINED = "undefined"
HIGHER = ("cll", "accuracy")
"""Scores that are better when they are higher; all others are losses."""


def better_when_higher(score: str) -> bool:
    """Whether a score is better when it is higher; of metrics the registry says so."""
    from calibrant.registry import find, metrics

    name = score.partition("(")[0]
    return name in HIGHER or (name in metrics() and find(name).direction == "higher")


@dataclass(frozen=True)
class Record:
    """A flat record of numbers, names and truths; numbers that are not finite are null in JSON."""

    def to_json(self) -> dict[str, Any]:
        """As plain data; `status` says which of the nulls are infinite."""
        known = asdict(self)
        odd = {k: v for k, v in known.items() if isinstance(v, float) and not math.isfinite(v)}
        status = {k: "infinite" if v > 0 else "-infinite" for k, v in odd.items() if not math.isnan(v)}
        return known | dict.fromkeys(odd) | ({"status": status} if status else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        status = data.get("status", {})
        numbers = {item.name for item in fields(cls) if item.type == "float"}
        known = {item.name: data[item.name] for item in fields(cls) if item.name in data}
        restored = {k: NOT_FINITE[status.get(k, UNDEFINED)] for k, v in known.items() if v is None and k in numbers}
        return cls(**known | restored)


@dataclass(frozen=True)
class Pair(Record):
    """Two models on the same rows by one score."""

    score: str
    first: str
    second: str
    difference: float
    """The score of the first less that of the second, in the score's own unit."""
    low: float
    high: float
    level: float
    p_value: float
    """Of exchangeable models, by flips of signs of row (or unit) differences, two-sided; of scores after a fitted
    temperature no less than `p_bootstrap`."""
    p_bootstrap: float
    """Of no difference in expectation, by the bootstrap that the interval is from; two-sided."""
    p_holm: float
    """`p_value` corrected for the number of pairs of this score (Holm 1979)."""
    n: int
    """Rows, or units where rows depend."""
    detectable: float = math.nan
    """The difference that as many rows would show in four of five cases, uncorrected."""

    @property
    def different(self) -> bool:
        """Whether the models differ beyond chance, all pairs of this score considered.

        The corrected p-value is at most 1 − level, and the interval, where there is one, lies on the side of 0 that
        the difference lies on: what is better is then never also shown to be worse. An infinite difference is one: a
        label was held impossible.
        """
        if math.isinf(self.difference):
            return True
        apart = math.isnan(self.low) or (self.low > 0.0 if self.difference > 0.0 else self.high < 0.0)
        return self.p_holm <= 1.0 - self.level + 1e-12 and apart

    @property
    def better(self) -> str | None:
        """The model that is better beyond chance, if one is."""
        if not self.different or self.difference == 0.0 or math.isnan(self.difference):
            return None
        ahead = (self.difference > 0.0) == better_when_higher(self.score)
        return self.first if ahead else self.second

    def turned(self) -> Pair:
        """The second less the first."""
        return replace(
            self, first=self.second, second=self.first, difference=-self.difference, low=-self.high, high=-self.low
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data, with the model that is better."""
        return super().to_json() | {"better": self.better}

    def __str__(self) -> str:
        said = f"{plain(self.first, 60)} − {plain(self.second, 60)} by {self.score}: {_short(self.difference)}"
        said += _ends(self.low, self.high)
        if math.isnan(self.p_holm):
            return said
        chance = "< 0.001" if self.p_holm < 0.001 else f"{self.p_holm:.4f}"
        verdict = "not told apart" if self.better is None else f"{plain(self.better, 60)} is better"
        return f"{said}, p {chance} after Holm: {verdict}"

    __repr__ = __str__


@dataclass(frozen=True)
class Ranked(Record):
    """A model's place by one score."""

    model: str
    rank: int
    """1 is the best; equal values share the smaller rank."""
    value: float
    low: float
    high: float
    rank_low: int
    """The best and the worst rank in the central share of resampled rows."""
    rank_high: int
    best: float
    """Share of resampled test sets in which it is the best: the probability of being best."""

    def __str__(self) -> str:
        spread = f" ({self.rank_low}–{self.rank_high})" if self.rank_low != self.rank_high else ""
        best = "" if math.isnan(self.best) else f", best in {self.best:.3f} of resampled test sets"
        return f"{self.rank}{spread} {plain(self.model, 60)}: {_short(self.value)}{_ends(self.low, self.high)}{best}"

    __repr__ = __str__


@dataclass(frozen=True)
class Equivalent(Record):
    """How many members of the pool a model is worth: its deep-ensemble equivalent (DEE)."""

    members: int
    """Of the model that is measured."""
    cll: float
    value: float
    low: float
    high: float
    level: float
    lower: float
    """Where the pool's mean + std reaches the CLL, and where its mean − std does (Ashukha et al., equation 5)."""
    upper: float
    censored: str = ""
    """'below': not even one member of the pool is so poor; 'above': all of them together are not so good."""
    low_censored: bool = False
    """The interval goes on below 1."""
    high_censored: bool = False
    """The interval goes on above the size of the pool."""

    def shown(self) -> tuple[str, str]:
        """The value and its interval in words, < 1 and > K where they are censored; nothing where undefined."""
        sign = {"below": "< ", "above": "> "}.get(self.censored, "")
        value = f"{sign}{self.value:.1f}" if math.isfinite(self.value) else ""
        low, high = f"{'< ' * self.low_censored}{self.low:.1f}", f"{'> ' * self.high_censored}{self.high:.1f}"
        return value, f"{low} to {high}" if math.isfinite(self.low) and math.isfinite(self.high) else ""

    def __str__(self) -> str:
        value, ends = self.shown()
        members = f"{self.members} member{'s' * (self.members != 1)}"
        return f"{members}: as good as {value or UNDEFINED} of the pool" + (f" ({ends})" if ends else "")

    __repr__ = __str__


@dataclass(frozen=True)
class MeanEquivalent(Record):
    """The equivalent of k members, the mean over data sets (figure 2 of Ashukha et al. 2020)."""

    members: int
    value: float
    lower: float
    upper: float
    """NaN where one of them is."""
    datasets: int
    """How many have so many members."""
    below: int
    """Of how many the value is 1 because it is at most that, and K because it is at least that."""
    above: int

    def shown(self) -> str:
        """The mean in words, as `mean_shown` has it."""
        return mean_shown(self.value, self.below, self.above)


def mean_shown(value: float, below: int, above: int) -> str:
    """A mean of equivalents: < or > where some lie below 1 or above the size of the pool; of both it says how many."""
    if not math.isfinite(value):
        return ""
    sign = "< " if below and not above else "> " if above and not below else ""
    return f"{sign}{value:.1f}" + (f" ({below} <, {above} >)" if below and above else "")


@dataclass(frozen=True)
class ShiftedCll(Record):
    """One model on the rows of one type and severity of shift."""

    model: str
    shift: str
    severity: float
    n: int
    log_likelihood: float
    """Before temperature."""
    same: float
    """CLL with the temperature of these rows, cross-fitted (Ashukha et al. 2020)."""
    clean: float
    """CLL with the temperature of clean rows (Ovadia et al. 2019)."""
    temperature_same: float
    temperature_clean: float


@dataclass(frozen=True, repr=False)
class CllCurve:
    """Calibrated log-likelihood of the first k members, or of k members at random, for every k."""

    name: str
    k: tuple[int, ...]
    mean: tuple[float, ...]
    """Over draws of k members."""
    std: tuple[float, ...]
    """Over draws (one less in the divisor); NaN of one draw."""
    log_likelihood: tuple[float, ...]
    """The same before temperature."""
    temperature: tuple[float, ...]
    """Fitted on all rows; the mean over draws."""
    draws: int
    n: int
    repeats: int
    """Of random halves; 0 where temperatures are of clean rows."""
    seed: int
    fitted_on: str = "same"
    """The rows that temperatures were fitted on: same (in halves) or clean."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        out = asdict(self)
        return {k: [_plain(x) for x in v] if isinstance(v, tuple) else v for k, v in out.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CllCurve:
        """What `to_json` wrote."""
        lists = {k: tuple(math.nan if x is None else x for x in v) for k, v in data.items() if isinstance(v, list)}
        return cls(**{**data, **lists})

    def shown(self) -> tuple[int, ...]:
        """The places of up to a dozen k, ever farther apart, for a table."""
        if len(self.k) <= SHOWN:
            return tuple(range(len(self.k)))
        steps = {round(len(self.k) ** (j / (SHOWN - 1))) for j in range(SHOWN)}
        return tuple(k - 1 for k in sorted(steps | {1, len(self.k)}))

    def __str__(self) -> str:
        how = f"{self.repeats} repeats of two halves" if self.fitted_on == "same" else "T of clean rows"
        which = "members as they come" if self.draws == 1 else f"mean of {self.draws} random orders of members"
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

    __repr__ = __str__


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _short(value: float) -> str:
    """Four digits that count."""
    return f"{value:.4f}" if value == 0.0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


def _ends(low: float, high: float) -> str:
    return f" ({_short(low)} to {_short(high)})" if math.isfinite(low) or math.isfinite(high) else ""
