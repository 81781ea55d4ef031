"""What a comparison is made of, as plain records that are stored and read back: scores, pairs, ranks, equivalents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

HIGHER = ("cll", "accuracy")
"""Scores that are better when they are higher; all others are losses."""


def better_when_higher(score: str) -> bool:
    """Whether a score is better when it is higher; of metrics the registry says so."""
    from calibrant.registry import find, metrics

    name = score.partition("(")[0]
    return name in HIGHER or (name in metrics() and find(name).direction == "higher")


@dataclass(frozen=True)
class Record:
    """A flat record of numbers, names and truths; numbers that are not finite are null in JSON, and NaN when read."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        numbers = {item.name for item in fields(cls) if item.type == "float"}
        known = {item.name for item in fields(cls)}
        return cls(**{k: math.nan if v is None and k in numbers else v for k, v in data.items() if k in known})


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
        """Whether the models differ beyond chance, all pairs of this score considered."""
        return self.p_holm <= 1.0 - self.level + 1e-12

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


@dataclass(frozen=True)
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
    seed: int

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        out = asdict(self)
        return {k: [_plain(x) for x in v] if isinstance(v, tuple) else v for k, v in out.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CllCurve:
        """What `to_json` wrote."""
        lists = {k: tuple(math.nan if x is None else x for x in v) for k, v in data.items() if isinstance(v, list)}
        return cls(**{**data, **lists})


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
