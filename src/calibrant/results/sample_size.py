"""Metrics against the size of the test set: the result of `value_by_size`.

An estimator that is unbiased at every size gives a flat line. The relative bias is the mean at a size divided by the
value at full size (Gruber & Buettner 2022, figure 3); an improvement is the value before minus the value after a
recalibration, on the same rows (their figure 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.registry.estimate import NOT_FINITE, status_of
from calibrant.registry.lookup import find, with_role
from calibrant.results.json import Stored, encode

LEVELS = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
NUMBERS = ("mean", "sd", "error", *LEVELS)


@dataclass(frozen=True)
class SampleSizeCurve(Stored):
    """One metric over the subsets of each size in which it is defined."""

    REPR_FIELDS = ("mean", "sd")

    mean: tuple[float, ...]
    sd: tuple[float, ...]
    """Between subsets; near the full size these share most rows, so that it falls to 0 for every metric."""
    error: tuple[float, ...]
    """Standard error of the mean."""
    q05: tuple[float, ...]
    q50: tuple[float, ...]
    q95: tuple[float, ...]
    undefined: tuple[int, ...]

    @classmethod
    def of(cls, values: Sequence[np.ndarray]) -> SampleSizeCurve:
        """From the values on all subsets, by size."""
        columns = zip(*(_summed_up(np.asarray(of_size, np.float64)) for of_size in values), strict=True)
        return cls(*columns)

    def to_json(self) -> dict[str, Any]:
        """Lists over the sizes; `status` names the nulls among means and quantiles."""
        columns = {name: getattr(self, name) for name in ("mean", *LEVELS)}
        status = {
            name: [None if math.isfinite(x) else status_of(x) for x in column]
            for name, column in columns.items()
            if not all(map(math.isfinite, column))
        }
        return super().to_json() | ({"status": status} if status else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SampleSizeCurve:
        """The curve that was written."""
        columns = {
            name: [NOT_FINITE.get(s or "", x) for x, s in zip(data[name], status, strict=True)]
            for name, status in data.get("status", {}).items()
        }
        return super().from_json({**data, "status": {}, **columns})


def _summed_up(values: np.ndarray) -> tuple[Any, ...]:
    """The fields of a curve at one size; independent of the order of the values."""
    known = np.sort(values[~np.isnan(values)])
    undefined = len(values) - len(known)
    if not len(known):
        return (math.nan,) * len(NUMBERS) + (undefined,)
    if not np.isfinite(known).all():
        ends = {float(x) for x in known[[0, -1]] if math.isinf(x)}
        places = [float(known[round(level * (len(known) - 1))]) for level in LEVELS.values()]
        return (ends.pop() if len(ends) == 1 else math.nan, math.nan, math.nan, *places, undefined)
    mean = math.fsum(known) / len(known)
    quantiles = [float(x) for x in np.quantile(known, list(LEVELS.values()))]
    if len(known) == 1:
        return (mean, math.nan, math.nan, *quantiles, undefined)
    sd = math.sqrt(math.fsum((known - mean) ** 2) / (len(known) - 1))
    return (mean, sd, sd / math.sqrt(len(known)), *quantiles, undefined)


@dataclass(frozen=True)
class SampleSizeCurves(Stored):
    """Every metric against the size of the test set; with `after`, also after recalibration, and the improvement."""

    JSON_OPTIONAL = ("specs_after", "improvement")
    REPR_FIELDS = ("input", "sizes", "repeats", "specs", "after")

    input: str
    sizes: tuple[int, ...]
    """Numbers of rows; the last is all rows, with a single value."""
    repeats: int
    """Subsets of each size except the last."""
    seed: int
    specs: Mapping[str, SampleSizeCurve]
    rows: tuple[float, ...] = ()
    """Mean rows of the subsets: with whole units these can be a few more."""
    units: str | None = None
    after: str | None = None
    specs_after: Mapping[str, SampleSizeCurve] = field(default_factory=dict)
    improvement: Mapping[str, SampleSizeCurve] = field(default_factory=dict)
    """Before minus after, subset by subset."""

    def drift(self, spec: str) -> float:
        """The mean at the smallest size divided by the value at full size; NaN for metrics that can be negative."""
        if find(spec.partition("(")[0]).limits[0] < 0:
            return math.nan
        return _ratio(self.specs[spec])

    def share(self, spec: str) -> float:
        """The mean improvement at the smallest size divided by the improvement at full size."""
        return _ratio(self.improvement[spec], signed=True)

    def ratios(self) -> dict[str, float]:
        """The drift of each metric, or with `after` the share of each improvement."""
        return {spec: self.share(spec) if self.after is not None else self.drift(spec) for spec in self.specs}

    def reading(self) -> str:
        """The metric that depends most on the size, compared with proper scores, in words."""
        ratios = {spec: ratio for spec, ratio in self.ratios().items() if math.isfinite(ratio)}
        if not ratios or len(self.sizes) < 2:
            return ""
        small, full = self.sizes[0], self.sizes[-1]
        worst = max(ratios, key=lambda spec: abs(ratios[spec] - 1))
        beside = [spec for spec in with_role("sample_size_reference") if spec in ratios and spec != worst]
        times = f"{ratios[worst]:.2f} times".replace("-", "−")
        others = "".join(f"; {spec} {ratios[spec]:.2f} times" for spec in beside).replace("-", "−")
        if self.after is None:
            return f"{worst} at n = {small} is {times} its value at n = {full}{others}"
        return f"the improvement of {worst} at n = {small} is {times} that at n = {full}{others}"

    def to_json(self) -> dict[str, Any]:
        """The curves, with the drift of each metric and the share of each improvement."""
        drifts = {spec: encode(self.drift(spec)) for spec in self.specs}
        shares = {} if self.after is None else {"share": {spec: encode(self.share(spec)) for spec in self.specs}}
        return super().to_json() | {"drift": drifts} | shares


def _ratio(curve: SampleSizeCurve, *, signed: bool = False) -> float:
    """First mean divided by the last; NaN if the last is 0 or either is not finite."""
    first, last = curve.mean[0], curve.mean[-1]
    known = math.isfinite(first) and math.isfinite(last) and (last != 0 if signed else last > 0)
    return first / last if known else math.nan
