"""One estimate: a value that is never alone, with its interval, its n and, where it has one, its null band."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from calibrant.intervals import NONE, Interval

NOT_FINITE = {"infinite": math.inf, "-infinite": -math.inf, "undefined": math.nan}
"""What is said in a file of a value that JSON has no number for."""


@dataclass(frozen=True)
class Settings:
    """What every estimate is made with; all of it is recorded."""

    level: float = 0.95
    resamples: int = 1000
    seed: int = 0
    intervals: bool = True
    threads: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Estimate:
    """A value with its interval (NaN where there is none) and the values a calibrated model would give."""

    value: float
    n: int
    low: float = math.nan
    high: float = math.nan
    level: float = math.nan
    method: str = "none"
    null_low: float = math.nan
    null_high: float = math.nan
    p_value: float = math.nan
    detectable: float = math.nan
    """The smallest error that this n would have shown in four cases of five."""
    q_value: float = math.nan
    """Of a group: the p-value corrected for the number of groups (Benjamini & Hochberg 1995)."""

    @classmethod
    def of(
        cls,
        value: float,
        n: int,
        interval: Interval = NONE,
        settings: Settings | None = None,
        limits: tuple[float, float] = (-math.inf, math.inf),
        **null: float,
    ) -> Estimate:
        """A value and its interval, cut to the metric's range."""
        low = min(max(interval.low, limits[0]), limits[1])
        high = max(min(interval.high, limits[1]), limits[0])
        if math.isnan(interval.low):
            low = high = math.nan
        level = settings.level if settings and interval.method != "none" else math.nan
        if not null.get("detectable", 0.0) <= limits[1]:  # no error that there can be would be seen
            null["detectable"] = math.nan
        value = math.nan if math.isnan(value) else float(value)  # one NaN, so that equal estimates are equal
        return cls(value, int(n), low, high, level, interval.method, **null)

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file: numbers that are not finite are left out, the value is explained."""
        out: dict[str, Any] = {"value": self.value if math.isfinite(self.value) else None}
        if out["value"] is None:
            out["status"] = next(status for status, value in NOT_FINITE.items() if str(value) == str(self.value))
        numbers = ("low", "high", "level", "null_low", "null_high", "p_value", "detectable", "q_value")
        out |= {key: float(getattr(self, key)) for key in numbers if math.isfinite(getattr(self, key))}
        return out | {"method": self.method, "n": self.n}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Estimate:
        """The estimate that was written."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data and key != "value"}
        value = data["value"]
        if value is None:
            value = NOT_FINITE.get(data.get("status", ""), math.nan)
        return cls(value=value, **known)
