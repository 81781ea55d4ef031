"""One posterior predictive check: the observed statistic, and its distribution under the model.

Below, T is the observed value and T^rep a replicate. `p_value` is the share of replicates strictly below T, as in Gopal
(2021), section 3.2: near 0 the observed value is lower than the model expects, near 1 it is higher. `mid_p` adds half
of the ties; `two_sided` = min(1, 2·min(mid_p, 1 − mid_p)); `randomised` = (below + U·(ties + 1))/(draws + 1), which is
exactly uniform where the model is right. Sharpness is the distance of the 5% and 95% quantiles of T^rep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from calibrant.records import Record
from calibrant.registry.estimate import numbers_from_json, numbers_to_json

RANGE, INTERVAL = "range", "interval"
RULES = (INTERVAL, RANGE)
BAYESIAN, INDEPENDENT, BOTH = "bayesian", "independent", "both"
"""Readings of the members: one member draws all rows, or every row draws its own."""
EXACT = "exact"
"""In place of the number of draws if the distribution is computed."""
CLASS_FREQUENCY, MEAN = "class_frequency", "mean"
"""Statistics of the labels that verdicts speak of."""
TAIL = 0.025
"""The probability beyond either end of the 95% interval."""
LEVEL = 0.02
"""The probability that some statistic of a right model differs from what it expects."""
FAR = 3.0
"""Standard deviations beyond which a value is unexpected under one member."""
AS_EXPECTED, LOWER, HIGHER, UNKNOWN = "as expected", "lower", "higher", "undefined"


@dataclass(frozen=True)
class Check(Record):
    """A statistic on the observed labels and its distribution on replicated labels; NaN where undefined."""

    REPR_FIELDS = ("observed", "n", "two_sided", "mean", "sd", "q025", "q975", "p_adjusted", "q_value")

    observed: float
    n: int
    p_value: float
    mid_p: float
    two_sided: float
    randomised: float
    se: float
    """Monte Carlo standard error of `mid_p`; for a computed distribution its possible error (0 if exact)."""
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
    """Whether T lies within the range of all replicates; for a computed distribution, of all but 1/1001 at each end."""
    passed_interval: bool | None
    """Whether T lies between the 2.5% and 97.5% quantiles."""
    draws: int | str
    method: str = "sampled"
    undefined: int = 0
    """Replicates on which the statistic is undefined; they are excluded."""
    nearest: float = math.nan
    """Distance to the nearest member in standard deviations of that member; NaN for one member or few draws of each.

    A value between the distributions of two members lies within the replicates, although neither member expects it.
    """
    p_adjusted: float = math.nan
    """The two-sided p-value `test_p` corrected for the number of statistics (Holm 1979); NaN for a group."""
    q_value: float = math.nan
    """For a group: the two-sided p-value corrected for the number of groups (Benjamini & Hochberg 1995)."""

    @property
    def sharpness(self) -> float:
        """The distance of the 5% and 95% quantiles: smaller is more confident."""
        return self.q95 - self.q05

    def passed(self, rule: str = INTERVAL) -> bool | None:
        """Whether the check passes by a rule, `interval` or `range`; None if undefined.

        By `interval` it fails where the deviation is significant after correction for the number of statistics; a group
        fails outside its 95% interval.
        """
        if rule == RANGE:
            return self.passed_range
        if self.passed_interval is None or math.isnan(self.p_adjusted):
            return self.passed_interval
        return self.p_adjusted > LEVEL

    def insignificant(self, rule: str = INTERVAL) -> bool:
        """Whether the value lies outside its 95% interval, but not significantly after correction."""
        return rule == INTERVAL and self.passed_interval is False and bool(self.passed(rule))

    def surprise(self, rule: str = INTERVAL) -> str:
        """`as expected`, or whether the observed value is `lower` or `higher` than the model expects."""
        passed = self.passed(rule)
        if passed is None:
            return UNKNOWN
        return AS_EXPECTED if passed else HIGHER if self.mid_p > 0.5 else LOWER

    @cached_property
    def test_p(self) -> float:
        """The two-sided p-value with the observed value counted among the replicates: never 0 by their number alone.

        Far beyond all replicates it is at most that of a normal distribution of twice their standard deviation, which
        bounds tails up to exponential ones where it is above 1/2000: few replicates then do not limit the evidence.
        """
        if isinstance(self.draws, str) or math.isnan(self.mid_p):
            return self.two_sided
        known = self.draws - self.undefined
        tail = min(self.mid_p, 1.0 - self.mid_p) * known
        p = min(1.0, 2.0 * (tail + 1.0) / (known + 1.0))
        if math.isinf(self.observed) and math.isfinite(self.mean):
            return 0.0  # an outcome of probability 0
        if tail == 0.0 and self.sd > 0.0:
            p = min(p, math.erfc(abs(self.observed - self.mean) / self.sd / math.sqrt(8.0)))
        return p

    @property
    def close(self) -> bool:
        """Whether the result is borderline: other draws could change whether the check passes."""
        if isinstance(self.draws, str) or not self.passed_range:
            return False
        edge = TAIL if math.isnan(self.p_adjusted) else 0.5 * LEVEL * self.test_p / self.p_adjusted
        tail = 0.5 - abs(self.mid_p - 0.5)
        return abs(tail - edge) < 2.0 * math.sqrt(edge * (1.0 - edge) / (self.draws - self.undefined))

    @property
    def between(self) -> bool:
        """Whether the value lies within the replicates although no single member expects it."""
        return self.passed_interval is True and self.nearest > FAR

    def to_json(self) -> dict[str, Any]:
        """As it is stored: numbers that are not finite are left out, `status` says what such an observed value was."""
        return numbers_to_json(self, "observed") | (
            {"sharpness": self.sharpness} if math.isfinite(self.sharpness) else {}
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Check:
        """The check that was written."""
        return numbers_from_json(cls, data, "observed")
