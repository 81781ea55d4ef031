"""Estimates: a value with its interval, its n and, if defined, its null band."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from calibrant.intervals import NONE, Interval
from calibrant.records import Record

T = TypeVar("T")
NOT_FINITE = {"infinite": math.inf, "-infinite": -math.inf, "undefined": math.nan}
"""Names in files of values that JSON has no number for."""


@dataclass(frozen=True)
class Settings:
    """Settings of every estimate; all are recorded."""

    level: float = 0.95
    resamples: int = 1000
    seed: int = 0
    intervals: bool = True
    threads: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Estimate(Record):
    """A value with its interval (NaN where there is none) and the values a calibrated model would give.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], [0, 1, 1])
    >>> accuracy = cal.evaluate(predictions, "accuracy")["accuracy"]
    >>> round(accuracy.value, 4), accuracy.n, accuracy.level
    (0.6667, 3, 0.95)
    >>> accuracy.low < accuracy.value < accuracy.high
    True
    """

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
    """The smallest error that is detected with 80% power at this n."""
    q_value: float = math.nan
    """For groups: the p-value corrected for the number of groups (Benjamini & Hochberg 1995)."""

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
        """A value and its interval, clipped to the range of the metric."""
        low = min(max(interval.low, limits[0]), limits[1])
        high = max(min(interval.high, limits[1]), limits[0])
        if math.isnan(interval.low):
            low = high = math.nan
        level = settings.level if settings and interval.method != "none" else math.nan
        if not null.get("detectable", 0.0) <= limits[1]:  # no possible error is detectable
            null["detectable"] = math.nan
        value = math.nan if math.isnan(value) else float(value)  # one NaN, so that equal estimates are equal
        return cls(value, int(n), low, high, level, interval.method, **null)

    def to_json(self) -> dict[str, Any]:
        """The JSON form: numbers that are not finite are left out, and `status` names such a value."""
        return numbers_to_json(self, "value")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Estimate:
        """Parse the JSON form."""
        return numbers_from_json(cls, data, "value")


def status_of(value: float) -> str:
    """The name of a number that is not finite."""
    return next(status for status, number in NOT_FINITE.items() if str(number) == str(value))


def numbers_to_json(record: Any, main: str) -> dict[str, Any]:
    """The fields of a record without those that are not finite; for the main one there is then a `status`."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    out = {key: value for key, value in values.items() if not isinstance(value, float) or math.isfinite(value)}
    return out if main in out else {main: None, "status": status_of(values[main]), **out}


def numbers_from_json(cls: type[T], data: Mapping[str, Any], main: str) -> T:
    """Parse the output of `numbers_to_json`."""
    numbers = {item.name: math.nan for item in fields(cls) if item.type == "float"}  # type: ignore[arg-type]
    known = {item.name: data[item.name] for item in fields(cls) if item.name in data}  # type: ignore[arg-type]
    if known[main] is None:
        known[main] = NOT_FINITE.get(data.get("status", ""), math.nan)
    return cls(**numbers | known)
