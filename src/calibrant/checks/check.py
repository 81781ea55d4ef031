"""One check: what was observed, what the model expected, and how far the one lies out in the other.

Below, T is the observed value and T^rep a replicate. `p_value` is the share of replicates strictly below T, as in Gopal
(2021), section 3.2: near 0 the observed value is lower than the model expects, near 1 it is higher. `mid_p` adds half
of the ties; `two_sided` = min(1, 2·min(mid_p, 1 − mid_p)); `randomised` = (below + U·(ties + 1))/(draws + 1), which is
exactly uniform where the model is right. Sharpness is the distance of the 5 % and 95 % quantiles of T^rep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant.checks.laws import Lattice, Law, Mixture, Replicates
from calibrant.checks.plan import EXACT
from calibrant.registry.estimate import NOT_FINITE

RANGE, INTERVAL = "range", "interval"
RULES = (INTERVAL, RANGE)
LEVELS = {"q025": 0.025, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95, "q975": 0.975}
OUTERMOST = 1.0 / 1001.0
"""The level that stands for the smallest of 1000 replicates where a law is known: it has no smallest value."""
EQUAL = 1e-12
"""By what share values of a law may differ and be the same value."""
TAIL = 0.025
"""The share of replicates beyond either end of the 95 % interval."""
FAR = 3.0
"""Standard deviations beyond which a member by itself does not expect a value."""
FEWEST_EACH = 8
"""Replicates of a member from which its own law is guessed."""
AS_EXPECTED, LOWER, HIGHER, UNKNOWN = "as expected", "lower", "higher", "undefined"


@dataclass(frozen=True)
class Check:
    """A statistic on the observed labels, beside its law on replicated ones; NaN where it is undefined."""

    observed: float
    n: int
    p_value: float
    mid_p: float
    two_sided: float
    randomised: float
    se: float
    """Monte-Carlo standard error of `mid_p`; of a computed law, by how much it may be off (0 where it is exact)."""
    mean: float
    sd: float
    min: float
    q025: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float
    q975: float
    max: float
    passed_range: bool | None
    """Whether T lies within all replicates: 0 < p < 1 of the paper, made symmetric. Of a law: within all but 1/1001."""
    passed_interval: bool | None
    """Whether T lies within the 2.5 % and 97.5 % quantiles."""
    draws: int | str
    method: str = "sampled"
    undefined: int = 0
    """Replicates on which the statistic has no value; they are left out."""
    nearest: float = math.nan
    """How many standard deviations of its own law the nearest member is away; NaN of one law, or of few draws each.

    A value between the laws of two members lies within the replicates, though neither member expects it.
    """
    q_value: float = math.nan
    """Of a group: the two-sided p-value, corrected for the number of groups (Benjamini & Hochberg 1995)."""

    @property
    def sharpness(self) -> float:
        """The width of what the model expects, from the 5 % to the 95 % quantile: smaller is more confident."""
        return self.q95 - self.q05

    def passed(self, rule: str = INTERVAL) -> bool | None:
        """Whether the check passes by a rule, `interval` or `range`; None where it is undefined."""
        return self.passed_interval if rule == INTERVAL else self.passed_range

    def surprise(self, rule: str = INTERVAL) -> str:
        """`as expected`, or whether the observed value is `lower` or `higher` than the model expects."""
        passed = self.passed(rule)
        if passed is None:
            return UNKNOWN
        return AS_EXPECTED if passed else HIGHER if self.mid_p > 0.5 else LOWER

    @cached_property
    def test_p(self) -> float:
        """The two-sided p-value that is never 0: the observed value counts among the replicates."""
        if isinstance(self.draws, str) or math.isnan(self.mid_p):
            return self.two_sided
        known = self.draws - self.undefined
        tail = min(self.mid_p, 1.0 - self.mid_p) * known
        return min(1.0, 2.0 * (tail + 1.0) / (known + 1.0))

    @property
    def close(self) -> bool:
        """Whether other draws might have put the value on the other side of the 95 % interval."""
        if isinstance(self.draws, str) or not self.passed_range:
            return False
        edge = 0.5 - abs(self.mid_p - 0.5)
        return abs(edge - TAIL) < 2.0 * math.sqrt(TAIL * (1.0 - TAIL) / (self.draws - self.undefined))

    @property
    def between(self) -> bool:
        """Whether the value lies within the replicates, and yet no member by itself expects it."""
        return self.passed_interval is True and self.nearest > FAR

    # ------------------------------------------------------------------------------------------ from laws
    @classmethod
    def of(cls, law: Law, n: int, place: float) -> Check:
        """From the law of n rows; `place` in (0, 1) is the U of the randomised p-value."""
        if isinstance(law, Replicates):
            return _of_replicates(law, n, place)
        return _of_law(law, n, place)

    # ---------------------------------------------------------------------------------------------- files
    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file; numbers that are not finite are left out, the value is explained."""
        out: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float) and not math.isfinite(value):
                continue
            out[item.name] = value
        if "observed" not in out:
            status = next(key for key, value in NOT_FINITE.items() if str(value) == str(self.observed))
            out = {"observed": None, "status": status, **out}
        return out | ({"sharpness": self.sharpness} if math.isfinite(self.sharpness) else {})

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Check:
        """The check that was written."""
        known = {item.name: data.get(item.name, math.nan) for item in fields(cls)}
        known |= {key: data.get(key) for key in ("passed_range", "passed_interval", "draws", "n")}
        known |= {"undefined": data.get("undefined", 0), "method": data.get("method", "sampled")}
        if known["observed"] is None:
            known["observed"] = NOT_FINITE.get(data.get("status", ""), math.nan)
        return cls(**known)


def _nothing(observed: float, n: int, draws: int | str, method: str, undefined: int) -> Check:
    numbers = [item.name for item in fields(Check) if item.type == "float" and item.name != "observed"]
    known: dict[str, Any] = dict.fromkeys(numbers, math.nan)
    return Check(
        **{**known, "observed": observed, "n": n, "passed_range": None, "passed_interval": None, "draws": draws},
        method=method,
        undefined=undefined,
    )


def _of_replicates(law: Replicates, n: int, place: float) -> Check:
    values = np.sort(law.values[~np.isnan(law.values)])
    draws, undefined = len(law.values), len(law.values) - len(values)
    observed = float(law.observed)
    if math.isnan(observed) or not len(values):
        return _nothing(observed, n, draws, "sampled", undefined)
    known = len(values)
    below = int(np.searchsorted(values, observed, side="left"))
    ties = int(np.searchsorted(values, observed, side="right")) - below
    mid = (below + 0.5 * ties) / known
    steady = (below + 0.5 * ties + 0.5) / (known + 1.0)
    between = "linear" if np.isfinite(values).all() else "inverted_cdf"  # nothing lies half-way to infinity
    with np.errstate(invalid="ignore"):  # infinite values have no spread
        found = np.quantile(values, list(LEVELS.values()), method=between)  # type: ignore[call-overload]
        quantiles: dict[str, Any] = dict(zip(LEVELS, found.tolist(), strict=True))
        mean, sd = float(values.mean()), float(values.std())
    return Check(
        observed=observed, n=n, p_value=below / known, mid_p=mid, two_sided=_two_sided(mid),
        randomised=(below + place * (ties + 1)) / (known + 1), se=math.sqrt(steady * (1.0 - steady) / known),
        mean=mean, sd=sd, min=float(values[0]), max=float(values[-1]), **quantiles,
        passed_range=bool(values[0] <= observed <= values[-1]),
        passed_interval=bool(quantiles["q025"] <= observed <= quantiles["q975"]),
        draws=draws, undefined=undefined,
    )  # fmt: skip


def _two_sided(mid: float) -> float:
    return min(1.0, 2.0 * min(mid, 1.0 - mid))


# ------------------------------------------------------------------------------------------------ computed laws
def _of_law(law: Lattice | Mixture, n: int, place: float) -> Check:
    observed = float(law.observed)
    if math.isnan(observed) or not _known(law):
        return _nothing(observed, n, EXACT, law.method, 0)
    shape = _LatticeShape(law) if isinstance(law, Lattice) else _MixtureShape(law)
    below, ties = shape.below(observed)
    mid = min(max(below + 0.5 * ties, 0.0), 1.0)
    low, *inner, high = shape.quantiles(np.array([OUTERMOST, *LEVELS.values(), 1.0 - OUTERMOST])).tolist()
    quantiles: dict[str, Any] = dict(zip(LEVELS, inner, strict=True))
    return Check(
        observed=observed, n=n, p_value=below, mid_p=mid, two_sided=_two_sided(mid),
        randomised=min(below + place * ties, 1.0), se=law.error,
        mean=shape.mean, sd=shape.sd, min=low, max=high, **quantiles,
        passed_range=_within(low, observed, high),
        passed_interval=_within(quantiles["q025"], observed, quantiles["q975"]),
        draws=EXACT, method=law.method,
    )  # fmt: skip


def _within(low: float, value: float, high: float) -> bool:
    slack = EQUAL * max(abs(low), abs(high))
    return low - slack <= value <= high + slack


def _known(law: Lattice | Mixture) -> bool:
    parts = law.probability if isinstance(law, Lattice) else law.mean
    return bool(len(parts)) and not bool(np.isnan(parts).any())


class _LatticeShape:
    """Mean, spread, quantiles and shares of a discrete law."""

    def __init__(self, law: Lattice) -> None:
        self.values, weight = law.values, np.maximum(law.probability, 0.0)
        self.share = weight / weight.sum()
        self.under = np.cumsum(self.share)
        self.mean = float((self.share * self.values).sum())
        self.sd = math.sqrt(max(float((self.share * (self.values - self.mean) ** 2).sum()), 0.0))

    def below(self, x: float) -> tuple[float, float]:
        """The share strictly below x, and at it."""
        slack = EQUAL * max(abs(x), float(np.abs(self.values).max())) if math.isfinite(x) else 0.0
        first, last = np.searchsorted(self.values, [x - slack, x + slack])
        last = max(int(last), int(np.searchsorted(self.values, x + slack, side="right")))
        under = float(self.under[first - 1]) if first else 0.0
        return min(under, 1.0), float(self.share[first:last].sum())

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """The smallest values that a share of each level does not exceed."""
        place = np.searchsorted(self.under, levels * (1.0 - EQUAL))
        return self.values[np.minimum(place, len(self.values) - 1)]


class _MixtureShape:
    """The same of equal parts of nearly normal laws."""

    def __init__(self, law: Mixture) -> None:
        self.law = law
        self.mean = float(law.mean.mean())
        self.sd = math.sqrt(float((law.sd**2).mean() + ((law.mean - self.mean) ** 2).mean()))

    def below(self, x: float) -> tuple[float, float]:
        """The share strictly below x, and at it: parts without spread are single values."""
        if not math.isfinite(x):
            return float(x > 0), 0.0
        below, ties = self._shares(np.array([x]))
        return float(below[0]), float(ties[0])

    def _shares(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of each of some values (K,)."""
        law, x, still = self.law, x[:, None], self.law.sd == 0.0
        at = still & (np.abs(x - law.mean) <= EQUAL * np.abs(law.mean))
        z = np.clip((x - law.mean) / np.where(still, 1.0, law.sd), -40.0, 40.0)
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        smooth = np.clip(ndtr(z) - density * law.skewness * (z * z - 1.0) / 6.0, 0.0, 1.0)
        return np.where(still, (law.mean < x) & ~at, smooth).mean(axis=1), at.mean(axis=1)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """By halving, all at once, between bounds that no level here lies beyond."""
        low = np.full(len(levels), float((self.law.mean - 12.0 * self.law.sd).min()))
        high = np.full(len(levels), float((self.law.mean + 12.0 * self.law.sd).max()))
        for _ in range(60):
            middle = 0.5 * (low + high)
            below, ties = self._shares(middle)
            short = below + ties < levels
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.maximum(high, self.law.least)


# ---------------------------------------------------------------------------------------------- single members
def nearest_member(law: Law, source: np.ndarray, members: int) -> float:
    """The smallest |T − mean_m|/sd_m over the members; source (R,): the member of each replicate."""
    if members == 1 or not math.isfinite(law.observed):
        return math.nan
    if isinstance(law, Replicates) and len(law.values) == len(source):
        counts = np.bincount(source, minlength=members)
        if counts.min() < FEWEST_EACH or not np.isfinite(law.values).all():
            return math.nan
        mean = np.bincount(source, law.values, members) / counts
        squares = np.bincount(source, (law.values - mean[source]) ** 2, members)
        return _nearest(law.observed, mean, np.sqrt(squares / (counts - 1)))
    if isinstance(law, Mixture) and len(law.mean) == members:
        return _nearest(law.observed, law.mean, law.sd)
    if isinstance(law, Lattice) and law.members is not None and len(law.members[0]) == members:
        return _nearest(law.observed, *law.members)
    return math.nan


def _nearest(observed: float, mean: np.ndarray, sd: np.ndarray) -> float:
    away = np.abs(observed - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(away <= EQUAL * np.abs(mean), 0.0, away / sd)
    return float(far.min()) if np.isfinite(far.min()) else math.nan
